//! A client that begins a session, stays for some time, and leaves.

use core::net::SocketAddr;
use core::time::Duration;
use lightseal_core::{Instant, Random, math};
use lightseal_dtls::Connection;

/// The phase that a client is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientPhase {
    /// The client has no session and waits for its next attempt.
    Idle,
    /// The client's handshake is under way. The server may refuse it.
    Connecting,
    /// The client has a session and will leave.
    Connected,
}

/// One of many clients.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) phase: ClientPhase,
    /// The connection, unless the client is idle. It is boxed because there may be many idle
    /// clients.
    pub(super) connection: Option<Box<Connection>>,
    /// When the client acts next of its own accord. An entry of the agenda for another time is
    /// obsolete.
    pub(super) planned: Option<Instant>,
    /// When the client's engine wants to be woken.
    pub(super) wake: Option<Instant>,
    /// When the client leaves.
    pub(super) leaves: Instant,
    /// Whether the client is in the queue of clients to be polled.
    pub(super) queued: bool,
}

impl Client {
    pub(super) const fn new() -> Self {
        Self {
            phase: ClientPhase::Idle,
            connection: None,
            planned: None,
            wake: None,
            leaves: Instant::MAX,
            queued: false,
        }
    }
}

/// A random time with an exponential distribution of this mean, rounded down to microseconds.
pub(super) fn exponential(random: &mut Random, mean: Duration) -> Duration {
    // 53 random bits, plus one because 0 has no logarithm.
    let uniform = (random.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64;
    Duration::from_micros((-math::ln(uniform) * mean.as_micros() as f64) as u64)
}

/// The address of the client with this number.
pub(super) fn address(number: usize) -> SocketAddr {
    let number = number as u32;
    let [high, low] = [(number >> 16) as u16, number as u16];
    SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 1, high, low], 40_000))
}

/// The number of the client with this address.
pub(super) fn number(address: SocketAddr) -> Option<usize> {
    match address {
        SocketAddr::V6(v6) => {
            let [.., high, low] = v6.ip().segments();
            Some(usize::from(high) << 16 | usize::from(low))
        }
        SocketAddr::V4(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_mean_and_no_memory() {
        let mut random = Random::insecure(1);
        let mean = Duration::from_secs(100);
        let times: Vec<f64> =
            (0..100_000).map(|_| exponential(&mut random, mean).as_secs_f64()).collect();
        let over = |least: f64| times.iter().filter(|time| **time > least).count() as f64;
        assert!((times.iter().sum::<f64>() / 100_000.0 - 100.0).abs() < 1.5);
        for least in [0.0, 50.0, 200.0] {
            let share = over(least + 100.0) / over(least);
            assert!((share - math::exp(-1.0)).abs() < 0.02, "{share} after {least} s");
        }
    }

    #[test]
    fn addresses_are_told_apart() {
        for client in [0, 1, 65_535, 65_536, 1_000_000] {
            assert_eq!(number(address(client)), Some(client));
        }
    }
}
