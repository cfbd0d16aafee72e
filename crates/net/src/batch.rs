//! Datagrams in batches: several are received in one system call, and several of one length are sent
//! as one message, which the system cuts into datagrams.
//!
//! Buffers belong to the thread that works, not to a socket: a program with thousands of sockets has
//! one set of them for each of its threads.

use crate::blocking::DATAGRAM_BYTES;
use lightseal_core::AddressPair;
use quinn_udp::{BATCH_SIZE, RecvMeta};
use std::cell::RefCell;
use std::io::IoSliceMut;
use std::ops::Range;

/// Length in bytes of the room for one datagram of a [`ReceiveBatch`]. With a multiple of 4096 the
/// first bytes of all datagrams would compete for few lines of the processor's cache.
const SLOT_BYTES: usize = DATAGRAM_BYTES.next_multiple_of(64) + 192;

/// The largest number of datagrams in one message (`UDP_MAX_SEGMENTS` of Linux 4.18).
const MOST_SEGMENTS: usize = 64;

/// The largest payload in bytes of one message: with IPv6 headers it is a packet of less than
/// 64 KiB.
const MOST_BYTES: usize = 65_000;

/// How many spare buffers a thread keeps.
const MOST_SPARE: usize = 4;

thread_local! {
    static RECEIVING: RefCell<Option<Box<ReceiveBatch>>> = const { RefCell::new(None) };
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Datagrams that were received together.
#[derive(Debug)]
pub struct ReceiveBatch {
    /// Rooms of `SLOT_BYTES`. Only those pages take memory into which something was received.
    bytes: Vec<u8>,
    arrived: Vec<(AddressPair, Range<usize>)>,
    more: bool,
}

impl ReceiveBatch {
    /// Lends this thread's batch to `work`.
    pub fn with<R>(work: impl FnOnce(&mut Self) -> R) -> R {
        let mut batch = RECEIVING.take().unwrap_or_else(|| {
            Box::new(Self {
                bytes: vec![0; BATCH_SIZE * SLOT_BYTES],
                arrived: Vec::with_capacity(BATCH_SIZE),
                more: false,
            })
        });
        let result = work(&mut batch);
        RECEIVING.set(Some(batch));
        result
    }

    /// The number of datagrams.
    pub const fn len(&self) -> usize {
        self.arrived.len()
    }

    /// Whether there is no datagram.
    pub const fn is_empty(&self) -> bool {
        self.arrived.is_empty()
    }

    /// Whether more datagrams may wait at the socket. A task that receives gives way to others then:
    /// a socket at which something always waits would keep its thread for ever.
    pub const fn more_may_wait(&self) -> bool {
        self.more
    }

    /// The source of a datagram and the address at which it arrived.
    pub fn addresses(&self, index: usize) -> Option<AddressPair> {
        self.arrived.get(index).map(|(addresses, _)| *addresses)
    }

    /// The payload of a datagram; empty if `index` is beyond the last datagram.
    pub fn payload(&mut self, index: usize) -> &mut [u8] {
        let range = self.arrived.get(index).map(|(_, range)| range.clone());
        self.bytes.get_mut(range.unwrap_or_default()).unwrap_or_default()
    }

    /// Has `receive` fill the rooms. It returns how many of them it has filled, and whether more
    /// datagrams may wait.
    pub(crate) fn fill<E>(
        &mut self,
        receive: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> Result<(usize, bool), E>,
        addresses: impl Fn(&RecvMeta) -> AddressPair,
    ) -> Result<(), E> {
        self.arrived.clear();
        self.more = false;
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let mut rooms = self.bytes.chunks_exact_mut(SLOT_BYTES);
        let mut rooms: [_; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(rooms.next().unwrap_or_default()));
        let count;
        (count, self.more) = receive(&mut rooms, &mut meta)?;
        for (slot, meta) in meta.iter().enumerate().take(count) {
            // Nobody can be answered at port 0: the attempt would be an error of this socket.
            if meta.addr.port() == 0 {
                continue;
            }
            let (start, len) = (slot * SLOT_BYTES, meta.len.min(SLOT_BYTES));
            self.push(addresses(meta), start..start + len, meta.stride);
        }
        Ok(())
    }

    /// Adds the datagrams of a message, of which each but the last is `stride` bytes long.
    fn push(&mut self, addresses: AddressPair, message: Range<usize>, stride: usize) {
        let Range { mut start, end } = message;
        let stride = if stride == 0 { end - start } else { stride };
        loop {
            let next = end.min(start + stride);
            self.arrived.push((addresses, start..next));
            start = next;
            if start >= end {
                return;
            }
        }
    }
}

/// Datagrams of one length that go the same way, and are sent as one message. The last one may be
/// shorter.
#[derive(Debug)]
pub struct SendBatch {
    /// A buffer that this thread lends while the batch is in use, else empty.
    buf: Vec<u8>,
    /// Number of bytes at the front of `buf` that are datagrams of the batch.
    len: usize,
    /// Length of each datagram but the last one.
    segment: usize,
    count: usize,
    /// Whether the last datagram is shorter than the others, so that none can follow.
    closed: bool,
    addresses: Option<AddressPair>,
}

impl Default for SendBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl SendBatch {
    /// A batch without datagrams. It has no buffer yet.
    pub const fn new() -> Self {
        Self { buf: Vec::new(), len: 0, segment: 0, count: 0, closed: false, addresses: None }
    }

    /// Whether it has no datagram.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of datagrams.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The datagrams, one behind the other.
    pub fn contents(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    /// The datagrams behind the first `skip` of them.
    pub fn datagrams(&self, skip: usize) -> impl Iterator<Item = &[u8]> {
        // An empty datagram is alone in its batch.
        let empty = (self.segment == 0).then_some(&[][..]);
        let all = self.contents().chunks(self.segment.max(1)).chain(empty);
        all.take(self.count).skip(skip)
    }

    /// Length in bytes of each datagram but the last one.
    pub const fn segment(&self) -> usize {
        self.segment
    }

    /// The way of all datagrams.
    pub const fn addresses(&self) -> Option<AddressPair> {
        self.addresses
    }

    /// The room for another datagram.
    pub fn room(&mut self) -> &mut [u8] {
        if self.buf.is_empty() {
            let spare = SPARE.with_borrow_mut(Vec::pop);
            self.buf = spare.unwrap_or_else(|| vec![0; DATAGRAM_BYTES]);
        }
        self.buf.get_mut(self.len..).unwrap_or_default()
    }

    /// Makes the room at least `needed` bytes long. The batch must be empty.
    pub(crate) fn grow(&mut self, needed: usize) {
        if self.room().len() < needed {
            self.buf.resize(self.len + needed, 0);
        }
    }

    /// Whether a datagram can be added.
    pub fn takes(&self, len: usize, addresses: AddressPair) -> bool {
        self.is_empty()
            || !self.closed
                && (1..=self.segment).contains(&len)
                && self.count < MOST_SEGMENTS
                && self.len + len <= MOST_BYTES.min(self.buf.len())
                && self.addresses == Some(addresses)
    }

    /// Adds the datagram of `len` bytes that lies at the front of the [room](Self::room). The batch
    /// must [take](Self::takes) it.
    pub fn add(&mut self, len: usize, addresses: AddressPair) {
        debug_assert!(self.takes(len, addresses), "the caller has asked");
        if self.is_empty() {
            (self.segment, self.addresses) = (len, Some(addresses));
        }
        self.closed = len < self.segment || len == 0;
        self.len += len;
        self.count += 1;
    }

    /// Copies a datagram of these parts into the room and adds it. Returns `false`, and changes
    /// nothing, if the batch does not take it.
    pub fn append(&mut self, parts: [&[u8]; 2], addresses: AddressPair) -> bool {
        let len = parts[0].len() + parts[1].len();
        if !self.takes(len, addresses) {
            return false;
        }
        let Some(room) = self.room().get_mut(..len) else { return false };
        let (front, back) = room.split_at_mut(parts[0].len());
        front.copy_from_slice(parts[0]);
        back.copy_from_slice(parts[1]);
        self.add(len, addresses);
        true
    }

    /// Forgets the datagrams and begins again with one of `len` bytes, which lies in the room at the
    /// offset `at`.
    pub(crate) fn begin_with(&mut self, at: usize, len: usize, addresses: AddressPair) {
        let start = self.len + at;
        self.buf.copy_within(start..start + len, 0);
        self.forget();
        self.add(len, addresses);
    }

    /// Forgets the datagrams; the buffer stays.
    pub fn forget(&mut self) {
        (self.len, self.count, self.closed, self.addresses) = (0, 0, false, None);
    }

    /// Forgets the datagrams and gives the buffer back to this thread.
    pub fn clear(&mut self) {
        self.forget();
        let buf = std::mem::take(&mut self.buf);
        if buf.len() == DATAGRAM_BYTES {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < MOST_SPARE {
                    spare.push(buf);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(port: u16) -> AddressPair {
        AddressPair::to(([127, 0, 0, 1], port).into())
    }

    #[test]
    fn a_batch_has_one_way_and_one_length_and_a_shorter_datagram_is_its_last() {
        let mut batch = SendBatch::new();
        assert!(batch.append([b"ab", b"cd"], to(1)));
        assert!(batch.append([b"", b"efgh"], to(1)));
        assert!(!batch.append([b"efgh", b""], to(2)), "another way");
        assert!(!batch.append([b"efghi", b""], to(1)), "longer");
        assert!(!batch.append([b"", b""], to(1)), "empty");
        assert!(batch.append([b"ij", b""], to(1)));
        assert!(!batch.append([b"kl", b""], to(1)), "behind a shorter one");
        assert_eq!((batch.contents(), batch.count(), batch.segment()), (&b"abcdefghij"[..], 3, 4));
        batch.room()[..3].copy_from_slice(b"xyz");
        batch.begin_with(1, 2, to(2));
        assert_eq!((batch.contents(), batch.count(), batch.segment()), (&b"yz"[..], 1, 2));
        batch.clear();
        assert!(batch.is_empty() && batch.append([b"", b""], to(1)));
        assert!(!batch.append([b"", b""], to(1)), "an empty datagram is alone");
    }

    #[test]
    fn a_batch_is_as_long_as_one_message() {
        let mut batch = SendBatch::new();
        let taken = (0..100).take_while(|_| batch.append([&[7; 10], b""], to(1)));
        assert_eq!(taken.count(), MOST_SEGMENTS);
        batch.clear();
        let taken = (0..100).take_while(|_| batch.append([&[7; 9000], b""], to(1)));
        assert_eq!(taken.count(), 7);
    }

    #[test]
    fn a_message_is_cut_into_its_datagrams_and_none_is_from_port_0() {
        /// Content, length of a datagram, and port.
        const MESSAGES: [(&[u8], usize, u16); 4] =
            [(b"aabbc", 2, 7), (b"", 0, 7), (b"ddd", 3, 7), (b"eee", 3, 0)];
        ReceiveBatch::with(|batch| {
            let mut all = Vec::new();
            // Some systems give out one message at a time.
            for messages in MESSAGES.chunks(BATCH_SIZE) {
                let fill = |rooms: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]| {
                    for (at, (content, stride, port)) in messages.iter().enumerate() {
                        rooms[at][..content.len()].copy_from_slice(content);
                        (meta[at].len, meta[at].stride) = (content.len(), *stride);
                        meta[at].addr.set_port(*port);
                    }
                    Ok::<_, ()>((messages.len(), false))
                };
                batch.fill(fill, |meta| AddressPair::to(meta.addr)).unwrap();
                all.extend((0..batch.len()).map(|at| batch.payload(at).to_vec()));
                let beyond = batch.len();
                assert!(batch.payload(beyond).is_empty() && batch.addresses(beyond).is_none());
            }
            assert_eq!(all, [&b"aa"[..], b"bb", b"c", b"", b"ddd"]);
            assert!(!batch.more_may_wait());
            batch
                .fill(
                    |_, meta| {
                        meta.iter_mut().for_each(|meta| meta.addr.set_port(0));
                        Ok::<_, ()>((BATCH_SIZE, true))
                    },
                    |meta| AddressPair::to(meta.addr),
                )
                .unwrap();
            assert!(batch.is_empty() && batch.more_may_wait(), "also if all are from port 0");
        });
    }
}
