//! Where a group goes on whose controller was restored from a backup.
//!
//! A backup holds the keys of its epoch, and knows neither the epochs after it nor whether it was
//! restored before. Two restorations of one backup that went on in the same epoch would derive the
//! same epoch key, and would seal different records with it from the same number on. So each
//! restoration goes on in an epoch of its own: it follows from the time, and from randomness in case
//! the clock was set back.

use core::time::Duration;
use vocabulary::Random;

/// Epochs for each second of the clock.
const EPOCHS_A_SECOND: u64 = 1 << 20;
/// A restored group goes on so many epochs behind the stored one, at least: more than it can have had
/// since the backup.
const LEAST: u64 = 1 << 20;
/// Records of `axiom-1.2` carry 16 bits of an epoch. By these 16 bits the restored group is a little
/// later than the backup, so its members see that they have missed something.
const SEEN_BITS: u32 = 16;
const SEEN_LATER: u64 = 1 << 10;
/// Places at which restorations at one time may go on. Those within a quarter of an hour may therefore
/// come in any order.
const PLACES: u64 = 1 << 14;

/// The epoch in which a restored controller holds the keys that a backup holds of the epoch `stored`.
/// No record is to be read there: its first rekey comes before anything else.
///
/// By a clock that is right, a restoration goes on in later epochs than one that was more than a quarter
/// of an hour before it. `unix_time` is the time since 1970.
pub fn epoch_after_restoration(stored: u64, unix_time: Duration, rng: &mut Random) -> u64 {
    let seen = stored & ((1 << SEEN_BITS) - 1);
    let by_clock = unix_time.as_secs().saturating_mul(EPOCHS_A_SECOND) | seen;
    let place = rng.below(PLACES) << SEEN_BITS;
    stored.max(by_clock).saturating_add(LEAST + SEEN_LATER + place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const YEAR_2026: Duration = Duration::from_secs(1_780_000_000);

    #[test]
    fn a_restored_group_is_far_behind_its_backup_and_looks_later() {
        let mut rng = Random::insecure(1);
        for clock in [Duration::ZERO, YEAR_2026] {
            for stored in [0, 3, 65_000, 1 << 40, (YEAR_2026.as_secs() + 5) << 20] {
                let epoch = epoch_after_restoration(stored, clock, &mut rng);
                assert!(epoch > stored + (1 << 20), "{stored}");
                assert_eq!((epoch as u16).wrapping_sub(stored as u16), 1 << 10, "{stored}");
            }
        }
        assert_eq!(epoch_after_restoration(u64::MAX, YEAR_2026, &mut rng), u64::MAX);
    }

    #[test]
    fn restorations_of_one_backup_are_in_the_order_of_the_clock() {
        let mut rng = Random::insecure(2);
        let mut last = 0;
        for hour in 0..1000 {
            let clock = YEAR_2026 + Duration::from_secs(3600) * hour;
            let epoch = epoch_after_restoration(7, clock, &mut rng);
            assert!(epoch > last + (1 << 20));
            last = epoch;
        }
    }

    #[test]
    fn restorations_without_a_clock_go_on_apart() {
        let mut rng = Random::insecure(3);
        let mut restored = || epoch_after_restoration(7, Duration::ZERO, &mut rng);
        let epochs: BTreeSet<u64> = (0..20).map(|_| restored()).collect();
        assert_eq!(epochs.len(), 20);
    }
}
