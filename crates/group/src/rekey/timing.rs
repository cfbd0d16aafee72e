//! When members move from one epoch to the next.

use core::time::Duration;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

/// The maximum time for which an old epoch is received after the activation of the new one.
pub const MAX_RETENTION: Duration = Duration::from_secs(60);

/// When senders switch to a new epoch, and how long the old one is received after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    tenths: u16,
    seconds: u8,
}

impl Timing {
    /// A timing, with the activation rounded up to tenths of a second and the retention to seconds.
    /// `None` if the activation is above 6553.5 s or the retention above [`MAX_RETENTION`].
    pub fn new(activation: Duration, retention: Duration) -> Option<Self> {
        let tenths = u16::try_from(activation.as_millis().div_ceil(100)).ok()?;
        let seconds = u8::try_from(retention.as_millis().div_ceil(1000)).ok()?;
        (u64::from(seconds) <= MAX_RETENTION.as_secs()).then_some(Self { tenths, seconds })
    }

    /// The time from the arrival of the rekey message until members send in the new epoch.
    pub fn activation(&self) -> Duration {
        let tenths = u32::from(self.tenths);
        Duration::new((tenths / 10).into(), tenths % 10 * 100_000_000)
    }

    /// The time from the activation of the new epoch to the end of the old epoch.
    pub fn retention(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// As [`Self::activation`], in microseconds.
    pub(crate) const fn activation_micros(&self) -> u64 {
        self.tenths as u64 * 100_000
    }

    /// As [`Self::retention`], in microseconds.
    pub(crate) const fn retention_micros(&self) -> u64 {
        self.seconds as u64 * 1_000_000
    }

    pub(super) fn write(self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u16(self.tenths)?;
        w.u8(self.seconds)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (tenths, seconds) = (reader.u16()?, reader.u8()?);
        if u64::from(seconds) > MAX_RETENTION.as_secs() {
            return Err(DecodeError::invalid("retention of the old epoch"));
        }
        Ok(Self { tenths, seconds })
    }
}
