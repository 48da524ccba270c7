//! The system calls that the sandbox needs and std does not offer, each behind a safe function.

use std::fs;
use std::io;
use std::mem;
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Turns the C convention (-1 and errno) into a `Result`.
pub(super) fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// Milliseconds for poll(2), rounded up so that a short wait is not a busy one.
fn poll_ms(wait: Duration) -> libc::c_int {
    libc::c_int::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX)
}

/// Waits until at least one of `fds` is readable (or hung up); returns which are, all false after `wait`.
pub(super) fn readable(fds: &[BorrowedFd<'_>], wait: Duration) -> io::Result<Vec<bool>> {
    let deadline = Instant::now() + wait;
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // SAFETY: the pointer and the length describe `polled`, which lives through the call.
        let ready =
            check(unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, poll_ms(left)) });
        match ready {
            Ok(_) => return Ok(polled.iter().map(|p| p.revents != 0).collect()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
    }
}

/// A pair of connected sockets that keep packets apart and report the other side's end; closed on exec.
pub(super) fn packet_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [RawFd; 2] = [-1, -1];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `fds` has room for the two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: both descriptors were just made and nobody else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Sends one packet; never blocks and never raises SIGPIPE.
pub(super) fn send_packet(fd: BorrowedFd<'_>, packet: &[u8]) -> io::Result<()> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the pointer and the length describe `packet`.
    let sent = unsafe { libc::send(fd.as_raw_fd(), packet.as_ptr().cast(), packet.len(), flags) };
    if sent == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives one packet (at most 1 KiB, which no packet here exceeds).
/// Errors: `TimedOut`; `UnexpectedEof` when the other side is gone.
pub(super) fn receive_packet(fd: BorrowedFd<'_>, wait: Duration) -> io::Result<Vec<u8>> {
    if !readable(&[fd], wait)?[0] {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut packet = vec![0; 1024];
    let mut receive = || {
        // SAFETY: the pointer and the length describe `packet`.
        let got = unsafe {
            libc::recv(fd.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), libc::MSG_DONTWAIT)
        };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    };
    // A peer that ended with something of ours unread is reported first, once, and then what it sent before.
    let got = match receive() {
        Err(e) if e.kind() == io::ErrorKind::ConnectionReset => receive(),
        other => other,
    };
    match got? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        len => {
            packet.truncate(len);
            Ok(packet)
        }
    }
}

/// The process that made the socket pair of which `fd` is one end, if `fd` is such an end.
/// Units: a process id of our own PID namespace, 0 for a process outside it.
pub(super) fn packet_peer(fd: RawFd) -> Option<i32> {
    let mut kind: libc::c_int = 0;
    let mut len = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `kind` has the size that `len` says; a bad descriptor is an error return.
    let got = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_TYPE,
            (&raw mut kind).cast::<libc::c_void>(),
            &raw mut len,
        )
    };
    if got != 0 || kind != libc::SOCK_SEQPACKET {
        return None;
    }
    let mut peer = libc::ucred { pid: -1, uid: 0, gid: 0 };
    let mut len = mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: as above.
    let got = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast::<libc::c_void>(),
            &raw mut len,
        )
    };
    (got == 0 && peer.pid >= 0).then_some(peer.pid)
}

/// Whether a descriptor survives exec.
pub(super) fn set_inherited(fd: RawFd, inherited: bool) -> io::Result<()> {
    let flags = if inherited { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: fcntl(F_SETFD) touches no memory.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, flags) }).map(drop)
}

/// Marks what a socket sends over IPv4 with a type of service.
pub(super) fn set_type_of_service(fd: BorrowedFd<'_>, tos: u8) -> io::Result<()> {
    let value = libc::c_int::from(tos);
    let len = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` has the size that `len` says.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TOS, (&raw const value).cast(), len)
    })
    .map(drop)
}

/// Has a socket hold so many bytes of what is not read yet, or as many as the system grants.
pub(super) fn make_room(fd: BorrowedFd<'_>, bytes: libc::c_int) {
    set_room(fd, bytes, [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE]);
}

/// The same both ways: of what is sent and does not go on yet as well.
pub(crate) fn make_room_both_ways(fd: BorrowedFd<'_>, bytes: libc::c_int) {
    make_room(fd, bytes);
    set_room(fd, bytes, [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE]);
}

fn set_room(fd: BorrowedFd<'_>, bytes: libc::c_int, options: [libc::c_int; 2]) {
    let len = size_of_val(&bytes) as libc::socklen_t;
    // The second goes beyond what the system grants everybody, for who may.
    for option in options {
        let value = (&raw const bytes).cast();
        // SAFETY: `bytes` has the size that `len` says, and lives through the call.
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, value, len) };
    }
}

/// Opens a TCP connection whose packets are marked from the first; reads and writes of it never wait. Errors: `TimedOut`, and
/// what the other side says.
pub(super) fn connect_with_type_of_service(
    to: SocketAddrV4,
    tos: u8,
    wait: Duration,
) -> io::Result<TcpStream> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket touches no memory.
    let fd = check(unsafe { libc::socket(libc::AF_INET, kind, 0) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    set_type_of_service(fd.as_fd(), tos)?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(to.ip().octets()) },
        sin_zero: [0; 8],
    };
    let len = mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: `address` has the size that `len` says.
    let asked = check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) });
    match asked {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => return Err(e),
        _ => {}
    }
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: the pointer is to one of them.
    if check(unsafe { libc::poll(&raw mut polled, 1, poll_ms(wait)) })? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let connection = TcpStream::from(fd);
    connection.take_error()?.map_or(Ok(connection), Err)
}

/// Moves the calling thread into a network namespace.
pub(super) fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: setns touches no memory.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Moves the calling thread into a network namespace of its own, which lives as long as somebody holds what is returned.
pub(super) fn new_network_namespace() -> io::Result<OwnedFd> {
    // SAFETY: unshare touches no memory; a thread may have a network namespace of its own.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    Ok(fs::File::open("/proc/thread-self/ns/net")?.into())
}

/// A descriptor for a process, readable once the process has ended.
pub(super) fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = check(fd as libc::c_int)?;
    // SAFETY: the descriptor was just made and nobody else owns it. The kernel closes it on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The id by which the mounted `/proc` knows the process behind a pidfd; none once it is reaped.
///
/// It is not the id that this process knows it by where `/proc` is that of an outer PID namespace: in a container that
/// does not let a sandbox mount its own.
pub(super) fn proc_pid(pidfd: BorrowedFd<'_>) -> Option<u32> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
}

/// A number from `/proc/sys`; none where the kernel has no such setting or hides it.
pub(super) fn setting(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok()
}

/// The namespaces that a sandbox never shares with whoever started it, as the kernel identifies them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Namespaces {
    /// Network, PID, mount; each as device and inode.
    ids: [(u64, u64); 3],
}

impl Namespaces {
    /// Those of the calling process.
    pub(super) fn of_self() -> io::Result<Namespaces> {
        let id = |kind: &str| fs::metadata(format!("/proc/self/ns/{kind}")).map(|m| (m.dev(), m.ino()));
        Ok(Namespaces { ids: [id("net")?, id("pid")?, id("mnt")?] })
    }

    /// Whether not even one is shared.
    pub(super) fn are_apart_from(&self, other: &Namespaces) -> bool {
        self.ids.iter().zip(&other.ids).all(|(a, b)| a != b)
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        self.ids.iter().flat_map(|(dev, ino)| [dev.to_ne_bytes(), ino.to_ne_bytes()].concat()).collect()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Namespaces> {
        let words: Vec<u64> =
            bytes.chunks(8).map(|w| w.try_into().map(u64::from_ne_bytes).ok()).collect::<Option<_>>()?;
        let &[a, b, c, d, e, f] = words.as_slice() else { return None };
        Some(Namespaces { ids: [(a, b), (c, d), (e, f)] })
    }
}

/// Writes a kernel setting that improves a run but that an older kernel, or a read-only `/proc/sys`, may lack.
pub(super) fn try_set(name: &str, value: &str) {
    // The failure is ignored on purpose: every caller's setting is a matter of speed, not of truth.
    let _ = fs::write(format!("/proc/sys/{name}"), value);
}

/// The descriptor of something owned, for the functions above.
pub(super) fn fd(owned: &impl AsFd) -> BorrowedFd<'_> {
    owned.as_fd()
}
