//! The TCP connections of a place: which there are, and breaking them.
//!
//! By the kernel's socket diagnosis: it lists the sockets of a network namespace, whoever owns them, and aborts one on request:
//! its owner gets an error, and the other side is sent a reset. Only connections over IPv4 are seen, those of a socket of IPv6
//! that speaks it as well, as Java's do.
//!
//! Source: sock_diag(7), include/uapi/linux/inet_diag.h.

use super::netlink::{Message, Refusal, Socket};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};

const NETLINK_SOCK_DIAG: libc::c_int = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
const TCP_ESTABLISHED: u32 = 1;
/// State and the like, before the identity.
const HEAD_SIZE_BYTES: usize = 4;
/// Ports, addresses of sixteen bytes, interface, cookie.
const ID_SIZE_BYTES: usize = 48;

/// An established connection, as one of its ends sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Connection {
    pub(super) local: SocketAddrV4,
    pub(super) remote: SocketAddrV4,
    family: u8,
    /// The kernel's words for this very socket, and no later one of the same addresses.
    id: [u8; ID_SIZE_BYTES],
}

/// A way to the connections of a place.
pub(super) struct Connections {
    socket: Socket,
}

impl Connections {
    /// Of the place in whose network namespace the calling thread is.
    pub(super) fn open() -> io::Result<Connections> {
        Ok(Connections { socket: Socket::open(NETLINK_SOCK_DIAG)? })
    }

    /// All that are established.
    pub(super) fn list(&mut self) -> Result<Vec<Connection>, Refusal> {
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let ask = message(SOCK_DIAG_BY_FAMILY, family as u8, 1 << TCP_ESTABLISHED, &[0; ID_SIZE_BYTES]);
            found.extend(self.socket.dump(ask)?.iter().filter_map(|told| parse(told)));
        }
        Ok(found)
    }

    /// Breaks one, unless it is gone already.
    pub(super) fn abort(&mut self, connection: &Connection) -> Result<(), Refusal> {
        let done = self.socket.request(message(SOCK_DESTROY, connection.family, 0, &connection.id));
        done.or_else(|refusal| match refusal.source.raw_os_error() {
            Some(libc::ENOENT) => Ok(()),
            _ => Err(refusal),
        })
    }
}

fn message(kind: u16, family: u8, states: u32, id: &[u8; ID_SIZE_BYTES]) -> Message {
    // Family, protocol, extensions, padding, states, identity.
    let head = [&[family, libc::IPPROTO_TCP as u8, 0, 0], &states.to_ne_bytes()[..], id].concat();
    Message::new(kind, 0, &head)
}

fn parse(told: &[u8]) -> Option<Connection> {
    let family = *told.first()?;
    let id: [u8; ID_SIZE_BYTES] =
        told.get(HEAD_SIZE_BYTES..HEAD_SIZE_BYTES + ID_SIZE_BYTES)?.try_into().ok()?;
    let port = |at: usize| Some(u16::from_be_bytes(id.get(at..at + 2)?.try_into().ok()?));
    let address = |at: usize| {
        let bytes: [u8; 16] = id.get(at..at + 16)?.try_into().ok()?;
        match libc::c_int::from(family) {
            libc::AF_INET => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
            _ => Ipv6Addr::from(bytes).to_ipv4_mapped(),
        }
    };
    let local = SocketAddrV4::new(address(4)?, port(0)?);
    let remote = SocketAddrV4::new(address(20)?, port(2)?);
    Some(Connection { local, remote, family, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(family: libc::c_int, [local, remote]: [[u8; 16]; 2]) -> Vec<u8> {
        let head = [family as u8, TCP_ESTABLISHED as u8, 0, 0];
        [&head[..], &9092_u16.to_be_bytes(), &40000_u16.to_be_bytes(), &local, &remote, &[7; 32]].concat()
    }

    #[test]
    fn connections_are_read_in_either_family() {
        let address = |last: u8| [10, 77, 0, last];
        let plain =
            |last: u8| <[u8; 16]>::try_from([&address(last)[..], &[0; 12]].concat()).expect("16 bytes");
        let mapped = |last: u8| Ipv4Addr::from(address(last)).to_ipv6_mapped().octets();
        for told in
            [told(libc::AF_INET, [plain(10), plain(1)]), told(libc::AF_INET6, [mapped(10), mapped(1)])]
        {
            let found = parse(&told).expect("all is there");
            assert_eq!(
                (found.local, found.remote),
                (
                    SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 10), 9092),
                    SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 40000)
                )
            );
            assert!((0..HEAD_SIZE_BYTES + ID_SIZE_BYTES).all(|len| parse(&told[..len]).is_none()));
        }
        assert_eq!(parse(&told(libc::AF_INET6, [[0; 16], [9; 16]])), None);
    }
}
