//! Ports in memory, for tests. Packets sent at one end are received at the other, in order; no
//! other traffic appears.
//!
//! ```
//! use lightseal_packet_io::{LanPort, Pool, PoolSettings, memory};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut pool = Pool::new(PoolSettings::new(4096, 16))?;
//! let (mut near, mut far) = memory::lan(64);
//! let mut frames = vec![pool.allocate_with(b"frame").expect("a new pool has frames")];
//! near.transmit(&mut pool, &mut frames)?;
//! far.receive(&mut pool, &mut frames)?;
//! assert_eq!(pool.bytes(&frames[0]), b"frame");
//! pool.release_all(frames);
//! # Ok(())
//! # }
//! ```

use crate::pool::{Frame, Pool};
use crate::port::{
    BATCH, Datagram, LanPort, Pollable, Refusal, RefusalCause, Refusals, Statistics, Underlay,
};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Packets in transit, in a queue that holds at most `capacity`.
#[derive(Debug)]
struct Queue<T> {
    packets: VecDeque<T>,
    capacity: usize,
}

type Shared<T> = Arc<Mutex<Queue<T>>>;

fn queue<T>(capacity: usize) -> Shared<T> {
    Arc::new(Mutex::new(Queue { packets: VecDeque::new(), capacity }))
}

/// Locks a queue. If a test on another thread panicked, the queue is still valid.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One end of a wire between two Ethernet ports.
#[derive(Debug)]
pub struct MemoryLan {
    inward: Shared<Vec<u8>>,
    outward: Shared<Vec<u8>>,
    statistics: Statistics,
}

/// Makes a wire that holds `capacity` frames in each direction. Returns its two ends, which may be
/// on different threads and have different pools.
pub fn lan(capacity: usize) -> (MemoryLan, MemoryLan) {
    let (one, other) = (queue(capacity), queue(capacity));
    let statistics = Statistics::default();
    let far = MemoryLan { inward: other.clone(), outward: one.clone(), statistics };
    (MemoryLan { inward: one, outward: other, statistics }, far)
}

impl Pollable for MemoryLan {
    #[cfg(unix)]
    fn descriptors(&self, _visit: &mut dyn FnMut(BorrowedFd<'_>)) {}

    fn is_ready(&self) -> bool {
        !lock(&self.inward).packets.is_empty()
    }
}

impl LanPort for MemoryLan {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Frame>) -> io::Result<usize> {
        let mut inward = lock(&self.inward);
        let mut count = 0;
        while count < BATCH
            && let Some(bytes) = inward.packets.pop_front()
        {
            if let Some(frame) = fill(pool, &bytes, &mut self.statistics) {
                into.push(frame);
                count += 1;
            }
        }
        Ok(count)
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) -> io::Result<usize> {
        let mut outward = lock(&self.outward);
        let room = outward.capacity.saturating_sub(outward.packets.len());
        let count = room.min(frames.len());
        for frame in frames.drain(..count) {
            outward.packets.push_back(pool.bytes(&frame).to_vec());
            pool.release(frame);
        }
        self.statistics.transmitted += count as u64;
        Ok(count)
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}

/// A frame with these bytes, or `None`; the reason is counted.
fn fill(pool: &mut Pool, bytes: &[u8], statistics: &mut Statistics) -> Option<Frame> {
    if bytes.len() > pool.max_packet() {
        statistics.too_long += 1;
        return None;
    }
    let frame = pool.allocate_with(bytes);
    *(if frame.is_some() { &mut statistics.received } else { &mut statistics.starved }) += 1;
    frame
}

/// A datagram in transit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramInTransit {
    /// The address of the sender.
    pub from: SocketAddr,
    /// The octet with DSCP and ECN, as in [`Datagram::class`].
    pub class: u8,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A network of hosts with addresses, between which datagrams are sent. Clones of this value are
/// the same network.
#[derive(Clone, Debug)]
pub struct MemoryNetwork {
    hosts: Arc<Mutex<BTreeMap<SocketAddr, Shared<DatagramInTransit>>>>,
    max_payload: usize,
    capacity: usize,
}

impl MemoryNetwork {
    /// A network that accepts payloads of up to `max_payload` bytes and queues up to `capacity`
    /// datagrams for each address.
    pub fn new(max_payload: usize, capacity: usize) -> Self {
        Self { hosts: Arc::default(), max_payload, capacity }
    }

    /// Attaches a host with this address and returns its port. A port attached earlier with the
    /// same address receives nothing any more.
    pub fn attach(&self, address: SocketAddr) -> MemoryUnderlay {
        let inward = queue(self.capacity);
        lock(&self.hosts).insert(address, inward.clone());
        MemoryUnderlay {
            address,
            inward,
            network: self.clone(),
            statistics: Statistics::default(),
            refusals: Refusals::default(),
        }
    }

    /// Delivers a datagram as if its sender had sent it. Returns `false` if no host has the
    /// address, or its queue is full.
    pub fn inject(&self, to: SocketAddr, datagram: DatagramInTransit) -> bool {
        let Some(host) = lock(&self.hosts).get(&to).cloned() else { return false };
        let mut inward = lock(&host);
        let room = inward.packets.len() < inward.capacity;
        if room {
            inward.packets.push_back(datagram);
        }
        room
    }

    /// Removes the datagrams in transit to an address, for tests that lose, alter or reorder them.
    pub fn intercept(&self, to: SocketAddr) -> Vec<DatagramInTransit> {
        let host = lock(&self.hosts).get(&to).cloned();
        host.map_or_else(Vec::new, |host| lock(&host).packets.drain(..).collect())
    }
}

/// A host on a [`MemoryNetwork`].
#[derive(Debug)]
pub struct MemoryUnderlay {
    address: SocketAddr,
    inward: Shared<DatagramInTransit>,
    network: MemoryNetwork,
    statistics: Statistics,
    refusals: Refusals,
}

impl MemoryUnderlay {
    /// The address of this host.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Pollable for MemoryUnderlay {
    #[cfg(unix)]
    fn descriptors(&self, _visit: &mut dyn FnMut(BorrowedFd<'_>)) {}

    fn is_ready(&self) -> bool {
        !lock(&self.inward).packets.is_empty()
    }
}

impl Underlay for MemoryUnderlay {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Datagram>) -> io::Result<usize> {
        let mut inward = lock(&self.inward);
        let mut count = 0;
        while count < BATCH
            && let Some(DatagramInTransit { from, class, payload }) = inward.packets.pop_front()
        {
            if let Some(frame) = fill(pool, &payload, &mut self.statistics) {
                into.push(Datagram { frame, remote: from, class, from_shared_port: false });
                count += 1;
            }
        }
        Ok(count)
    }

    fn transmit(&mut self, pool: &mut Pool, datagrams: &mut Vec<Datagram>) -> io::Result<usize> {
        let count = datagrams.len();
        for Datagram { frame, remote, class, .. } in datagrams.drain(..) {
            let bytes = frame.len();
            if bytes > self.network.max_payload {
                let cause = RefusalCause::TooLong;
                self.refusals.push(Refusal { remote, bytes, cause });
                self.statistics.refused += 1;
            } else {
                let payload = pool.bytes(&frame).to_vec();
                // A datagram to an address without a host is lost without an error, as on any
                // network.
                self.network
                    .inject(remote, DatagramInTransit { from: self.address, class, payload });
                self.statistics.transmitted += 1;
            }
            pool.release(frame);
        }
        Ok(count)
    }

    fn refusals(&mut self, into: &mut Vec<Refusal>) {
        self.refusals.drain(into);
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::PoolSettings;

    fn pool(frames: usize) -> Pool {
        Pool::new(PoolSettings::new(2048, frames)).unwrap()
    }

    #[test]
    fn a_full_wire_leaves_frames_to_the_caller() {
        let mut pool = pool(4);
        let (mut near, mut far) = lan(2);
        let mut frames: Vec<_> =
            (0..3).map(|byte: u8| pool.allocate_with(&[byte]).unwrap()).collect();
        assert_eq!(near.transmit(&mut pool, &mut frames).unwrap(), 2);
        assert_eq!(pool.bytes(&frames[0]), [2]);
        assert!(far.is_ready() && !near.is_ready());
        assert_eq!(far.receive(&mut pool, &mut frames).unwrap(), 2);
        assert_eq!(frames.iter().map(|f| pool.bytes(f)[0]).collect::<Vec<_>>(), [2, 0, 1]);
        pool.release_all(frames);
        assert_eq!((pool.lent(), far.statistics().received), (0, 2));
    }

    #[test]
    fn a_pool_without_frames_drops_and_counts() {
        let (mut sender, mut receiver) = (pool(3), pool(1));
        let (mut near, mut far) = lan(8);
        let mut frames: Vec<_> = (0..3).map(|_| sender.allocate_with(b"x").unwrap()).collect();
        near.transmit(&mut sender, &mut frames).unwrap();
        assert_eq!(far.receive(&mut receiver, &mut frames).unwrap(), 1);
        assert_eq!(far.statistics().starved, 2);
        receiver.release_all(frames);
    }

    #[test]
    fn datagrams_reach_their_address_with_class_and_sender() {
        let mut pool = pool(8);
        let network = MemoryNetwork::new(100, 8);
        let (a, b) = ("192.0.2.1:1".parse().unwrap(), "[2001:db8::2]:2".parse().unwrap());
        let (mut near, mut far) = (network.attach(a), network.attach(b));
        let mut datagrams = Vec::new();
        for len in [100, 101] {
            let frame = pool.allocate_with(&vec![1; len]).unwrap();
            datagrams.push(Datagram { frame, remote: b, class: 0xB8, from_shared_port: false });
        }
        assert_eq!(near.transmit(&mut pool, &mut datagrams).unwrap(), 2);
        assert_eq!(far.receive(&mut pool, &mut datagrams).unwrap(), 1);
        let datagram = datagrams.pop().unwrap();
        assert_eq!((datagram.remote, datagram.class, datagram.frame.len()), (a, 0xB8, 100));
        pool.release(datagram.frame);
        let mut refusals = Vec::new();
        near.refusals(&mut refusals);
        assert_eq!(refusals, [Refusal { remote: b, bytes: 101, cause: RefusalCause::TooLong }]);
        assert_eq!(pool.lent(), 0);
    }

    #[test]
    fn what_is_on_its_way_can_be_taken_and_put_back() {
        let mut pool = pool(8);
        let network = MemoryNetwork::new(100, 8);
        let (a, b) = ("192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
        let (mut near, mut far) = (network.attach(a), network.attach(b));
        let frame = pool.allocate_with(b"once").unwrap();
        let mut datagrams = vec![Datagram { frame, remote: b, class: 0, from_shared_port: false }];
        near.transmit(&mut pool, &mut datagrams).unwrap();
        let taken = network.intercept(b);
        assert_eq!(taken.len(), 1);
        assert_eq!(far.receive(&mut pool, &mut datagrams).unwrap(), 0);
        assert!(network.inject(b, taken[0].clone()) && network.inject(b, taken[0].clone()));
        assert!(!network.inject("192.0.2.9:9".parse().unwrap(), taken[0].clone()));
        assert_eq!(far.receive(&mut pool, &mut datagrams).unwrap(), 2);
        pool.release_all(datagrams.into_iter().map(|datagram| datagram.frame));
    }
}
