//! The mean length of recent payloads.

/// A running mean of payload lengths, in 1/256 bytes. Goodput is bytes of payload over bytes of
/// records and depends on the mean alone, whatever the mixture of lengths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeanPayload {
    mean: u32,
    seen: u32,
}

/// Number of records over which lengths are averaged.
const HORIZON: u32 = 128;

impl MeanPayload {
    pub(super) fn note(&mut self, payload_bytes: u16) {
        let length = u32::from(payload_bytes) << 8;
        self.seen = (self.seen + 1).min(HORIZON);
        let step = (i64::from(length) - i64::from(self.mean)) / i64::from(self.seen);
        self.mean = (i64::from(self.mean) + step) as u32;
    }

    /// The mean in bytes, rounded, at least 1.
    pub(super) fn bytes(self) -> u16 {
        ((self.mean + 128) >> 8).clamp(1, u32::from(u16::MAX)) as u16
    }

    /// The mean in sixteenths of a byte, at least 1.
    pub(super) fn sixteenths(self) -> u32 {
        (self.mean >> 4).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_has_its_mean_and_extremes_do_not_overflow() {
        let mut mean = MeanPayload::default();
        assert_eq!(mean.bytes(), 1);
        mean.note(30);
        assert_eq!((mean.bytes(), mean.sixteenths()), (30, 480));
        for i in 0..2000u16 {
            mean.note(if i % 2 == 0 { 10 } else { 50 });
        }
        assert!((29..=31).contains(&mean.bytes()), "{mean:?}");
        for _ in 0..5000 {
            mean.note(u16::MAX);
        }
        assert!(mean.bytes() > 65_400);
        for _ in 0..5000 {
            mean.note(0);
        }
        assert_eq!(mean.bytes(), 1);
    }
}
