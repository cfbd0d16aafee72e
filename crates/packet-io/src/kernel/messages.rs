//! Many packets in one system call: `recvmmsg(2)` and `sendmmsg(2)`.

use super::checked;
use super::socket::Address;
use crate::pool::{Frame, Pool, TAILROOM};
use libc::c_int;
use std::io;
use std::mem::zeroed;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

/// Room in bytes for the control messages of one packet. The longest set is a traffic class and a
/// segment size.
const CONTROL_BYTES: usize = 96;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// The buffers and structures of system calls that send or receive many packets at once. Their
/// pointers are written before each call and not used after it.
pub(crate) struct Batch {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    controls: Vec<Control>,
    addresses: Vec<Address>,
    /// For `UDP_GRO`: buffers of `SEGMENTED_BYTES` into which coalesced datagrams are received, one
    /// for each message.
    segmented: Vec<u8>,
}

/// Length in bytes of the longest message into which the kernel coalesces datagrams: that of the
/// longest UDP datagram.
pub(crate) const SEGMENTED_BYTES: usize = 65536;

// SAFETY: its pointers refer to its own vectors and to memory borrowed for one call, and none of
// them is dereferenced between calls.
unsafe impl Send for Batch {}

/// A message to send: frames that form one datagram together or, with a segment size, several
/// datagrams.
pub(crate) struct OutgoingMessage<F> {
    /// The frames.
    pub(crate) frames: F,
    /// The destination, on an unconnected socket.
    pub(crate) to: Option<SocketAddr>,
    /// The octet with DSCP and ECN.
    pub(crate) class: u8,
    /// Length in bytes of every datagram of the message but the last, which may be shorter.
    pub(crate) segment: Option<u16>,
}

impl Batch {
    /// A batch of up to `messages` messages, sent from up to `frames` frames.
    pub(crate) fn new(messages: usize, frames: usize) -> Self {
        // SAFETY: null pointers and zeros are a valid header.
        let header: libc::mmsghdr = unsafe { zeroed() };
        let vector = libc::iovec { iov_base: null_mut(), iov_len: 0 };
        Self {
            headers: vec![header; messages],
            vectors: vec![vector; frames.max(messages)],
            controls: vec![Control([0; CONTROL_BYTES]); messages],
            addresses: vec![Address::EMPTY; messages],
            segmented: Vec::new(),
        }
    }

    /// The largest number of messages in one call.
    pub(crate) fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Receives at most one packet into each of these frames, beginning at the offset `at` and
    /// leaving room for tags at the end. Returns the number of packets; 0 is no error.
    pub(crate) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        pool: &mut Pool,
        frames: &[Frame],
        at: usize,
    ) -> io::Result<usize> {
        let count = frames.len().min(self.capacity());
        for (vector, frame) in self.vectors.iter_mut().zip(frames) {
            let buffer = pool.buffer_mut(frame);
            let end = buffer.len() - TAILROOM;
            let room = &mut buffer[at..end];
            *vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        }
        self.receive_into_vectors(fd, count)
    }

    /// As [`receive`](Self::receive), but into buffers of its own, each of which holds a whole
    /// coalesced message.
    pub(crate) fn receive_segmented(
        &mut self,
        fd: BorrowedFd<'_>,
        count: usize,
    ) -> io::Result<usize> {
        let count = count.min(self.capacity());
        if self.segmented.len() < count * SEGMENTED_BYTES {
            self.segmented.resize(count * SEGMENTED_BYTES, 0);
        }
        for (vector, buffer) in
            self.vectors.iter_mut().zip(self.segmented.chunks_exact_mut(SEGMENTED_BYTES))
        {
            *vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        }
        self.receive_into_vectors(fd, count)
    }

    /// Receives into the first `count` vectors, which must point to memory that the caller has
    /// borrowed.
    fn receive_into_vectors(&mut self, fd: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        for i in 0..count {
            let header = &mut self.headers[i].msg_hdr;
            header.msg_name = self.addresses[i].bytes.as_mut_ptr().cast();
            header.msg_namelen = self.addresses[i].bytes.len() as u32;
            header.msg_iov = &mut self.vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES as _;
            header.msg_flags = 0;
        }
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: there are `count` headers, each with one vector of memory that callers have
        // borrowed mutably, and with an address and control buffer of the given lengths. All live
        // until the call returns.
        let answer = unsafe {
            let headers = self.headers.as_mut_ptr();
            libc::recvmmsg(fd.as_raw_fd(), headers, count as u32, flags as _, null_mut())
        };
        none_if_idle(checked(answer))
    }

    /// Message `i` of the last receiving call.
    pub(crate) fn received(&self, i: usize) -> ReceivedMessage<'_> {
        let header = &self.headers[i];
        let control: usize = header.msg_hdr.msg_controllen as _;
        ReceivedMessage {
            len: header.msg_len as usize,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            from: self.addresses[i].parse(),
            control: &self.controls[i].0[..control.min(CONTROL_BYTES)],
        }
    }

    /// Coalesced message `i` of the last call of [`receive_segmented`](Self::receive_segmented).
    pub(crate) fn segmented(&self, i: usize) -> &[u8] {
        let len = (self.headers[i].msg_len as usize).min(SEGMENTED_BYTES);
        &self.segmented[i * SEGMENTED_BYTES..][..len]
    }

    /// Sends messages, as many as fit and the kernel accepts, and returns their number. An error
    /// concerns the first message; none is sent then.
    pub(crate) fn transmit<'a, F: IntoIterator<Item = &'a Frame>>(
        &mut self,
        fd: BorrowedFd<'_>,
        pool: &Pool,
        messages: impl IntoIterator<Item = OutgoingMessage<F>>,
    ) -> io::Result<usize> {
        let mut count = 0;
        let mut used = 0;
        for message in messages {
            if count == self.capacity() {
                break;
            }
            let first = used;
            for frame in message.frames {
                let bytes = pool.bytes(frame);
                // The kernel only reads from these pointers.
                let iov_base = bytes.as_ptr().cast_mut().cast();
                self.vectors[used] = libc::iovec { iov_base, iov_len: bytes.len() };
                used += 1;
            }
            let header = &mut self.headers[count].msg_hdr;
            header.msg_iov = &mut self.vectors[first];
            header.msg_iovlen = (used - first) as _;
            header.msg_flags = 0;
            (header.msg_name, header.msg_namelen) = (null_mut(), 0);
            (header.msg_control, header.msg_controllen) = (null_mut(), 0);
            if let Some(to) = message.to {
                let address = &mut self.addresses[count];
                *address = Address::from(to);
                header.msg_namelen = address.len();
                header.msg_name = address.bytes.as_mut_ptr().cast();
                let control = &mut self.controls[count];
                header.msg_controllen =
                    write_control(control, to, message.class, message.segment) as _;
                if header.msg_controllen != 0 {
                    header.msg_control = control.0.as_mut_ptr().cast();
                }
            }
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: there are `count` headers, with vectors of frames that the pool holds and
        // addresses and control messages of this value. All live until the call returns and are
        // only read.
        let answer = unsafe {
            let headers = self.headers.as_mut_ptr();
            libc::sendmmsg(fd.as_raw_fd(), headers, count as u32, libc::MSG_DONTWAIT as _)
        };
        none_if_idle(checked(answer))
    }
}

/// Writes the control messages of a datagram and returns their length in bytes.
fn write_control(control: &mut Control, to: SocketAddr, class: u8, segment: Option<u16>) -> usize {
    let mut used = 0;
    if class != 0 {
        let (level, kind) = match to {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        used += put(&mut control.0[used..], level, kind, &c_int::from(class).to_ne_bytes());
    }
    if let Some(segment) = segment {
        used +=
            put(&mut control.0[used..], libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
    }
    used
}

const WORD: usize = size_of::<usize>();
/// Length in bytes of `cmsghdr`: a length (size_t) and two ints, a multiple of the word size on all
/// platforms.
const CONTROL_HEADER: usize = WORD + 8;

/// Writes one control message and returns its length in bytes, padding included.
fn put(into: &mut [u8], level: c_int, kind: c_int, data: &[u8]) -> usize {
    let len = CONTROL_HEADER + data.len();
    into[..WORD].copy_from_slice(&len.to_ne_bytes());
    into[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
    into[WORD + 4..CONTROL_HEADER].copy_from_slice(&kind.to_ne_bytes());
    into[CONTROL_HEADER..len].copy_from_slice(data);
    len.next_multiple_of(WORD)
}

/// A received message, without its payload.
pub(crate) struct ReceivedMessage<'a> {
    /// Length in bytes of the payload.
    pub(crate) len: usize,
    /// Whether the packet was longer than its buffer.
    pub(crate) truncated: bool,
    /// The sender of a datagram.
    pub(crate) from: Option<SocketAddr>,
    control: &'a [u8],
}

impl<'a> ReceivedMessage<'a> {
    /// The control messages: level, type and data.
    pub(crate) fn control(&self) -> impl Iterator<Item = (c_int, c_int, &'a [u8])> + use<'a> {
        let mut rest = self.control;
        std::iter::from_fn(move || {
            let header = rest.get(..CONTROL_HEADER)?;
            let len = usize::from_ne_bytes(header[..WORD].try_into().ok()?);
            let level = c_int::from_ne_bytes(header[WORD..WORD + 4].try_into().ok()?);
            let kind = c_int::from_ne_bytes(header[WORD + 4..].try_into().ok()?);
            let data = rest.get(CONTROL_HEADER..len)?;
            rest = rest.get(len.next_multiple_of(WORD)..).unwrap_or_default();
            Some((level, kind, data))
        })
    }
}

/// Reads an int at the beginning of control data.
pub(crate) fn int(data: &[u8]) -> Option<c_int> {
    Some(c_int::from_ne_bytes(data.get(..4)?.try_into().ok()?))
}

fn none_if_idle(answer: io::Result<c_int>) -> io::Result<usize> {
    match answer {
        Ok(count) => Ok(count as usize),
        Err(error) if is_idle(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Whether an error only means that the call would have to wait.
pub(crate) fn is_idle(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_come_back_as_they_were_written() {
        let mut control = Control([0; CONTROL_BYTES]);
        let to = "[::1]:1".parse().unwrap();
        let used = write_control(&mut control, to, 0xB8, Some(1200));
        let received =
            ReceivedMessage { len: 0, truncated: false, from: None, control: &control.0[..used] };
        let read: Vec<_> = received.control().collect();
        assert_eq!(read[0].0, libc::IPPROTO_IPV6);
        assert_eq!(int(read[0].2), Some(0xB8));
        assert_eq!(read[1], (libc::SOL_UDP, libc::UDP_SEGMENT, &1200_u16.to_ne_bytes()[..]));
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn cut_control_messages_end_the_list() {
        let mut control = Control([0; CONTROL_BYTES]);
        let used = write_control(&mut control, "[::1]:1".parse().unwrap(), 1, Some(9));
        for cut in 0..used {
            let control = &control.0[..cut];
            let received = ReceivedMessage { len: 0, truncated: false, from: None, control };
            assert!(received.control().count() <= 2);
        }
        let endless = [0; CONTROL_BYTES];
        let received = ReceivedMessage { len: 0, truncated: false, from: None, control: &endless };
        assert_eq!(received.control().count(), 0, "a length shorter than its header");
    }
}
