//! Messages to the kernel's network configuration: what `ip` and `nft` would send.
//!
//! A message is a header, a family's own header, and attributes: length (u16), type (u16), payload padded to four
//! bytes; an attribute may nest others. Every request is acknowledged. Source: netlink(7), rtnetlink(7),
//! include/uapi/linux/netlink.h.

use super::sys::{self, check};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;
use thiserror::Error;

/// The kernel answers while it handles the send, so that this only ends what a bug would make hang.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Holds any one answer: the kernel splits a dump into packets of at most 32 KiB.
const ANSWER_SIZE_BYTES: usize = 64 << 10;
/// Length, type, flags, sequence number, port.
const HEADER_SIZE_BYTES: usize = 16;

const NETLINK_CAP_ACK: libc::c_int = 10;
const NETLINK_EXT_ACK: libc::c_int = 11;
const NLA_F_NESTED: u16 = 0x8000;
const NLA_TYPE_MASK: u16 = 0x3fff;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// What the kernel said when it refused a request.
#[derive(Debug, Error)]
#[error("{source}{}", note.as_ref().map(|n| format!(" ({n})")).unwrap_or_default())]
pub struct Refusal {
    /// The errno, in words.
    pub source: io::Error,
    /// The kernel's own explanation, where it gives one.
    pub note: Option<String>,
}

impl From<io::Error> for Refusal {
    fn from(source: io::Error) -> Refusal {
        Refusal { source, note: None }
    }
}

/// One message under construction.
#[derive(Clone, Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A request of `kind`; `family_header` is what the subsystem expects before the attributes.
    pub(super) fn new(kind: u16, flags: libc::c_int, family_header: &[u8]) -> Message {
        let flags = (flags | libc::NLM_F_REQUEST) as u16;
        let mut bytes = vec![0; HEADER_SIZE_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        let mut message = Message { bytes };
        message.raw(family_header);
        message
    }

    /// Appends bytes as they are, padded: a header inside an attribute.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> &mut Message {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// Appends an attribute.
    pub(super) fn put(&mut self, kind: u16, payload: &[u8]) -> &mut Message {
        let len = u16::try_from(payload.len() + 4).expect("callers keep an attribute below 64 KiB");
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.raw(payload)
    }

    /// Appends a string with its terminating zero.
    pub(super) fn put_str(&mut self, kind: u16, text: &str) -> &mut Message {
        self.put(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Appends an attribute that holds what `fill` appends.
    pub(super) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) -> &mut Message {
        let start = self.bytes.len();
        self.put(kind | NLA_F_NESTED, &[]);
        fill(self);
        let len = u16::try_from(self.bytes.len() - start).expect("callers keep an attribute below 64 KiB");
        self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self
    }

    /// What follows the family's own header, of so many bytes.
    #[cfg(test)]
    pub(super) fn family_payload(&self, header_size_bytes: usize) -> Option<&[u8]> {
        self.bytes.get(HEADER_SIZE_BYTES + header_size_bytes..)
    }

    /// The finished message.
    fn seal(mut self, sequence: u32, extra_flags: libc::c_int) -> Vec<u8> {
        let flags = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]) | extra_flags as u16;
        let len = u32::try_from(self.bytes.len()).expect("a message is far below 4 GiB");
        self.bytes[0..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// The attributes in `bytes`, as (type, payload); ends at the first that does not fit.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(bytes.get(0..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & NLA_TYPE_MASK;
        let payload = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, payload))
    })
}

/// The payload of the first attribute of a type.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, payload)| payload)
}

/// One message of an answer.
struct Answer<'a> {
    kind: u16,
    sequence: u32,
    payload: &'a [u8],
}

fn answers(mut bytes: &[u8]) -> impl Iterator<Item = Answer<'_>> {
    std::iter::from_fn(move || {
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let len = word(0)? as usize;
        let (kind, sequence) = (word(4)? as u16, word(8)?);
        let payload = bytes.get(HEADER_SIZE_BYTES..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Answer { kind, sequence, payload })
    })
}

/// The messages in what was received, as (type, payload).
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    answers(bytes).map(|answer| (answer.kind, answer.payload))
}

/// An error answer: none if it is an acknowledgement.
fn refusal(payload: &[u8]) -> Option<Refusal> {
    let errno =
        payload.get(0..4).map_or(libc::EBADMSG, |e| -i32::from_ne_bytes(e.try_into().expect("4 bytes")));
    if errno == 0 {
        return None;
    }
    // Errno, then the header of the refused message (its body is cut by NETLINK_CAP_ACK), then attributes.
    let note = payload.get(4 + HEADER_SIZE_BYTES..).and_then(|rest| attribute(rest, NLMSGERR_ATTR_MSG));
    let note = note.map(|text| String::from_utf8_lossy(text).trim_end_matches('\0').to_string());
    Some(Refusal { source: io::Error::from_raw_os_error(errno), note })
}

/// A socket to the kernel. It stays in the network namespace in which it was opened, whoever uses it.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

impl Socket {
    /// Opens a socket to a subsystem (NETLINK_ROUTE, NETLINK_NETFILTER) in the calling thread's network namespace.
    pub(super) fn open(protocol: libc::c_int) -> io::Result<Socket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: socket touches no memory.
        let fd = check(unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        for option in [NETLINK_CAP_ACK, NETLINK_EXT_ACK] {
            let on: libc::c_int = 1;
            let len = mem::size_of::<libc::c_int>() as libc::socklen_t;
            // SAFETY: `on` has the size that `len` says. A failure costs only the kernel's explanations.
            unsafe {
                libc::setsockopt(fd.as_raw_fd(), libc::SOL_NETLINK, option, (&raw const on).cast(), len)
            };
        }
        Ok(Socket { fd, sequence: 0 })
    }

    /// Sends one request and waits for its acknowledgement.
    pub(super) fn request(&mut self, message: Message) -> Result<(), Refusal> {
        self.sequence += 1;
        let first = self.sequence;
        self.send(&message.seal(first, libc::NLM_F_ACK))?;
        self.acknowledged(first, first)
    }

    /// Sends messages that take effect together, or not at all if one is refused.
    ///
    /// Only the last one asks for an acknowledgement: one for each would overflow the socket's receive buffer.
    pub(super) fn transaction(
        &mut self,
        begin: Message,
        messages: Vec<Message>,
        end: Message,
    ) -> Result<(), Refusal> {
        let first = self.sequence + 1;
        let mut bytes = begin.seal(first, 0);
        let count = messages.len();
        self.sequence = first;
        for (i, message) in messages.into_iter().enumerate() {
            self.sequence += 1;
            bytes.extend(message.seal(self.sequence, if i + 1 == count { libc::NLM_F_ACK } else { 0 }));
        }
        let last = self.sequence;
        self.sequence += 1;
        bytes.extend(end.seal(self.sequence, 0));
        self.send(&bytes)?;
        self.acknowledged(first, last)
    }

    /// Sends one request and returns the payloads of the many messages that answer it.
    pub(super) fn dump(&mut self, message: Message) -> Result<Vec<Vec<u8>>, Refusal> {
        self.sequence += 1;
        self.send(&message.seal(self.sequence, libc::NLM_F_DUMP))?;
        let mut found = Vec::new();
        loop {
            let bytes = self.receive()?;
            for answer in answers(&bytes).filter(|a| a.sequence == self.sequence) {
                match answer.kind {
                    NLMSG_DONE => return Ok(found),
                    NLMSG_ERROR => {
                        return refusal(answer.payload).map_or(Ok(found), Err);
                    }
                    _ => found.push(answer.payload.to_vec()),
                }
            }
        }
    }

    /// Sends messages of which none is answered, unless it is refused.
    pub(super) fn post(&mut self, messages: impl IntoIterator<Item = Message>) -> io::Result<()> {
        let bytes: Vec<u8> = messages.into_iter().flat_map(|message| message.seal(0, 0)).collect();
        self.send(&bytes)
    }

    /// Receives what is there, if anything is; returns its length. What was lost for want of room is passed over.
    pub(super) fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: the pointer and the length describe `buffer`.
        let got = unsafe {
            libc::recv(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
        };
        match usize::try_from(got).map_err(|_| io::Error::last_os_error()) {
            Ok(len) => Ok(Some(len)),
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => self.receive_now(buffer),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Asks for so much room for what is not received yet; the system grants less where its limit is lower.
    pub(super) fn ask_for_room(&self, bytes: libc::c_int) {
        sys::make_room(self.fd.as_fd(), bytes);
    }

    /// Waits for the acknowledgement of message `last`, or for the refusal of any since `first`.
    ///
    /// After a refusal, answers to the later messages of the same transaction may still be queued: the next call skips
    /// them by their sequence numbers.
    fn acknowledged(&mut self, first: u32, last: u32) -> Result<(), Refusal> {
        loop {
            let bytes = self.receive()?;
            for answer in answers(&bytes).filter(|a| a.kind == NLMSG_ERROR && a.sequence >= first) {
                if let Some(refusal) = refusal(answer.payload) {
                    return Err(refusal);
                }
                if answer.sequence == last {
                    return Ok(());
                }
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and the length describe `bytes`; an unconnected netlink socket sends to the kernel.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        if !sys::readable(&[sys::fd(&self.fd)], ANSWER_WAIT)?[0] {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer from the kernel"));
        }
        let mut bytes = vec![0; ANSWER_SIZE_BYTES];
        // SAFETY: the pointer and the length describe `bytes`.
        let got = unsafe {
            libc::recv(self.fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT)
        };
        bytes.truncate(usize::try_from(got).map_err(|_| io::Error::last_os_error())?);
        Ok(bytes)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_read_back_as_written() {
        let mut message = Message::new(16, 0, &[1, 2, 3]);
        message.put_str(3, "br0").nest(18, |m| {
            m.put(1, b"bridge").put(5, &0_u32.to_ne_bytes());
        });
        let sealed = message.seal(7, libc::NLM_F_ACK);
        let all: Vec<Answer<'_>> = answers(&sealed).collect();
        let [answer] = all.as_slice() else { panic!("one message, not {}", all.len()) };
        assert_eq!((answer.kind, answer.sequence), (16, 7));
        let attrs: Vec<(u16, &[u8])> = attributes(&answer.payload[4..]).collect();
        assert_eq!(attrs[0], (3, &b"br0\0"[..]));
        assert_eq!(attribute(attrs[1].1, 1), Some(&b"bridge"[..]));
        assert_eq!(attribute(attrs[1].1, 5), Some(&[0; 4][..]));
    }

    #[test]
    fn broken_answers_end_the_reading() {
        for broken in [&[][..], &[1], &[0, 0, 0, 0], &[200, 0, 1, 0, 5], &[3, 0, 1, 0]] {
            assert_eq!(attributes(broken).count(), 0, "{broken:?}");
            assert_eq!(answers(broken).count(), 0, "{broken:?}");
        }
        assert_eq!(refusal(&[1]).map(|r| r.source.raw_os_error()), Some(Some(libc::EBADMSG)));
    }
}
