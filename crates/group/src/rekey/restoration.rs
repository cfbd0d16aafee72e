//! The epoch in which a group continues after its controller was restored from a backup.
//!
//! A backup holds the keys of its epoch, but shows neither the epochs after it nor whether it was
//! restored before. If two restorations of one backup continued in the same epoch, they would
//! derive the same epoch key and seal different records under it with the same numbers. Therefore
//! each restoration continues in an epoch of its own, which is computed from the time and, in case
//! the clock was set back, from random bits.

use core::time::Duration;
use lightseal_core::Random;

/// The number of epochs for each second of the clock.
const EPOCHS_A_SECOND: u64 = 1 << 20;
/// The minimum distance in epochs between the stored epoch and the epoch in which a restored group
/// continues. It is more than the group can have used since the backup.
const LEAST: u64 = 1 << 20;
/// Records of `axiom-1.2` carry the low 16 bits of an epoch. In these bits the restored epoch is
/// `WIRE_EPOCH_STEP` above the stored one, so members see that they have missed a rekey.
const WIRE_EPOCH_BITS: u32 = 16;
const WIRE_EPOCH_STEP: u64 = 1 << 10;
/// The number of random offsets, each 2^16 epochs apart, for restorations at the same time.
/// Restorations within a quarter of an hour may therefore be in any order.
const RANDOM_OFFSETS: u64 = 1 << 14;

/// The epoch that a restored controller assigns to the keys that the backup holds for the epoch
/// `stored`. No record may be sealed or opened in this epoch: the controller must make a rekey
/// first.
///
/// With a correct clock, a restoration continues in later epochs than one that was made more than a
/// quarter of an hour before it. `unix_time` is the time since 1970.
pub fn epoch_after_restoration(stored: u64, unix_time: Duration, rng: &mut Random) -> u64 {
    let seen = stored & ((1 << WIRE_EPOCH_BITS) - 1);
    let by_clock = unix_time.as_secs().saturating_mul(EPOCHS_A_SECOND) | seen;
    let place = rng.below(RANDOM_OFFSETS) << WIRE_EPOCH_BITS;
    stored.max(by_clock).saturating_add(LEAST + WIRE_EPOCH_STEP + place)
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
