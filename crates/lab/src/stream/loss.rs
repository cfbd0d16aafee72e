//! Channels in virtual time.

use super::{Accounting, Direction, Link};
use crate::Error;
use core::time::Duration;
use lightseal_core::{Random, math};
use std::collections::VecDeque;

/// A rule that decides which datagrams are lost.
pub trait Loss {
    /// Whether a datagram of this many bytes is lost, which is sent at time `at` after the first
    /// message.
    fn loses(&mut self, at: Duration, direction: Direction, bytes: usize) -> bool;
}

/// A link without delay on which some datagrams are lost.
#[derive(Debug)]
pub struct LossyLink<L> {
    loss: L,
    accounting: Accounting,
    begun: bool,
    under_way: VecDeque<(Direction, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// Number of the sender's datagrams since the handshake, lost ones included.
    pub offered: u64,
    /// Number of these datagrams that were lost.
    pub lost: u64,
}

impl<L: Loss> LossyLink<L> {
    /// A link on which `loss` decides which datagrams are lost. Their lengths are counted by
    /// `accounting`.
    pub const fn new(loss: L, accounting: Accounting) -> Self {
        Self {
            loss,
            accounting,
            begun: false,
            under_way: VecDeque::new(),
            spare: Vec::new(),
            offered: 0,
            lost: 0,
        }
    }
}

impl<L: Loss> Link for LossyLink<L> {
    fn send(&mut self, at: Duration, direction: Direction, datagram: &[u8]) -> Result<(), Error> {
        if self.begun {
            let lost = self.loss.loses(at, direction, self.accounting.bytes(datagram));
            self.offered += u64::from(direction == Direction::ToReceiver);
            self.lost += u64::from(direction == Direction::ToReceiver && lost);
            if lost {
                return Ok(());
            }
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(datagram);
        self.under_way.push_back((direction, copy));
        Ok(())
    }

    fn receive(&mut self, buf: &mut [u8]) -> Result<Option<(Direction, usize)>, Error> {
        let Some((direction, datagram)) = self.under_way.pop_front() else { return Ok(None) };
        let len = datagram.len();
        buf[..len].copy_from_slice(&datagram);
        self.spare.push(datagram);
        Ok(Some((direction, len)))
    }

    fn begin(&mut self) {
        self.begun = true;
    }
}

/// A random number from 0 to 1.
pub(crate) fn unit(random: &mut Random) -> f64 {
    random.below(1 << 53) as f64 / (1u64 << 53) as f64
}

/// Datagrams are lost independently of each other and of their length.
#[derive(Debug)]
pub struct Bernoulli {
    rate: f64,
    random: Random,
}

impl Bernoulli {
    /// Loss at this rate, from 0 to 1.
    pub fn new(rate: f64, seed: u64) -> Self {
        Self { rate, random: Random::insecure(seed) }
    }
}

impl Loss for Bernoulli {
    fn loses(&mut self, _: Duration, _: Direction, _: usize) -> bool {
        unit(&mut self.random) < self.rate
    }
}

/// Independent loss that increases with a packet's length, as uncorrectable bit errors cause it: a
/// packet of x bytes arrives with probability e^-(fixed + x · per_byte).
#[derive(Debug)]
pub struct BitErrors {
    fixed: f64,
    per_byte: f64,
    random: Random,
}

impl BitErrors {
    /// Loss with these rates at two lengths. `shortest` and `longest` are a length in bytes and a
    /// loss rate.
    pub fn between(shortest: (f64, f64), longest: (f64, f64), seed: u64) -> Self {
        let [short, long] = [shortest.1, longest.1].map(|rate| -math::ln(1.0 - rate));
        let per_byte = (long - short) / (longest.0 - shortest.0);
        Self { fixed: short - shortest.0 * per_byte, per_byte, random: Random::insecure(seed) }
    }

    /// The loss rate of packets of this many bytes.
    pub fn rate(&self, bytes: f64) -> f64 {
        1.0 - math::exp(-(self.fixed + self.per_byte * bytes))
    }
}

impl Loss for BitErrors {
    fn loses(&mut self, _: Duration, _: Direction, bytes: usize) -> bool {
        let rate = self.rate(bytes as f64);
        unit(&mut self.random) < rate
    }
}
