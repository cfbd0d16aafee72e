//! How soon messages reach a level of security, measured in bits of verified tags.

use crate::Error;
use crate::parallel::parallel;
use crate::stream::loss::{Bernoulli, LossyLink};
use crate::stream::{Accounting, Log, Stream, run};
use ::lightseal_aggregation::Scheme;
use lightseal_dtls::Delivery;

/// The levels of security that are compared, in bits.
pub const LEVELS: [u8; 5] = [1, 32, 64, 96, 128];

/// The four schemes of the paper's Fig. 9.
pub const SCHEMES: [&str; 4] = ["agg:8", "agg:16", "r2d2:100", "r2d2:50"];

/// The delays under one scheme at one level.
#[derive(Clone, Debug)]
pub struct Delays {
    /// How records are tagged.
    pub scheme: Scheme,
    /// The level at which messages are delivered, in bits.
    pub bits: u8,
    /// When each message was sent and delivered.
    pub log: Log,
}

/// Runs every scheme of [`SCHEMES`] at every level of [`LEVELS`]. Payloads have 30 bytes, and the
/// same 0.30 % of packets is lost each time. The engine delivers a message once its security
/// reaches the level.
///
/// # Errors
///
/// Fails when an association ends early.
pub fn delays(messages: usize, seed: u64) -> Result<Vec<Delays>, Error> {
    let cells: Vec<(Scheme, u8)> = SCHEMES
        .into_iter()
        .filter_map(|name| name.parse().ok())
        .flat_map(|scheme| LEVELS.map(|bits| (scheme, bits)))
        .collect();
    let delays = parallel(cells.len(), |cell| {
        let (scheme, bits) = cells[cell];
        let delivery = if bits < 128 { Delivery::Progressive(bits) } else { Delivery::Verified };
        let stream = Stream { delivery, seed, ..Stream::new(scheme, 30, messages) };
        let log = run(&stream, &mut LossyLink::new(Bernoulli::new(0.003, seed), Accounting::Ours))?;
        Ok(Delays { scheme, bits, log })
    });
    delays.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agg_gives_all_or_nothing_and_r2d2_a_little_at_once() {
        let all = delays(800, 1).unwrap();
        let within = |name: &str, bits, follow_ups| {
            let scheme = name.parse().unwrap();
            let found = all.iter().find(|d| d.scheme == scheme && d.bits == bits).unwrap();
            found.log.delivered_within(follow_ups)
        };
        assert_eq!(within("agg:8", 1, 5), within("agg:8", 128, 5));
        assert!((0.65..0.76).contains(&within("agg:8", 128, 5)));
        assert!(within("r2d2:50", 1, 0) > 0.9 && within("r2d2:50", 128, 20) < 0.1);
    }
}
