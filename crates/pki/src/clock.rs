//! The time at which certificates are checked.

use alloc::sync::Arc;
use core::fmt;
use lightseal_dtls::BadCertificate;
use pki_types::UnixTime;

/// The date of this release, 2026-11-01, in seconds since 1970-01-01. A clock that shows an earlier
/// time was never set. It is a constant and not the time of the build, so that two builds of the
/// same source are equal; a release changes it.
pub const RELEASED: u64 = 1_793_491_200;

/// Tells the time in seconds since 1970-01-01 (UTC), or nothing if the device does not know it.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
    earliest: u64,
}

impl Clock {
    /// A clock that is read by calling `now`.
    pub fn new(now: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self { now: Arc::new(now), earliest: RELEASED }
    }

    /// The clock may show times from `unix_seconds` on, in place of [`RELEASED`]: to check
    /// certificates as of a time in the past.
    #[must_use]
    pub fn with_earliest(self, unix_seconds: u64) -> Self {
        Self { earliest: unix_seconds, ..self }
    }

    /// For a device without a clock: it accepts no certificate by its issuer, only pinned keys.
    pub fn none() -> Self {
        Self::new(|| None)
    }

    /// The clock of the operating system.
    #[cfg(feature = "std")]
    pub fn system() -> Self {
        use std::time::{SystemTime, UNIX_EPOCH};
        Self::new(|| Some(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs()))
    }

    /// # Errors
    /// There is no time, or one before the earliest.
    pub(crate) fn now(&self) -> Result<UnixTime, BadCertificate> {
        let now = (self.now)().ok_or(BadCertificate::NoClock)?;
        if now < self.earliest {
            return Err(BadCertificate::ClockBeforeBuild);
        }
        Ok(UnixTime::since_unix_epoch(core::time::Duration::from_secs(now)))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&(self.now)()).finish()
    }
}
