//! Being asked to stop.

use crate::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a shell says of a program that SIGINT ended.
const ENDED: i32 = 130;

/// Whether somebody asked this process to stop. Whoever works looks now and then, and returns, so
/// that what it made is taken down; the second time the process ends at once.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Notes SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// When the system does not let us.
    pub fn watch() -> Result<Self, Failure> {
        let own = Self::default();
        let failed = |error| Failure::not_here("signals", error);
        for signal in [SIGINT, SIGTERM] {
            // In this order, the first signal only sets the flag.
            flag::register_conditional_shutdown(signal, ENDED, Arc::clone(&own.0))
                .map_err(failed)?;
            flag::register(signal, Arc::clone(&own.0)).map_err(failed)?;
        }
        Ok(own)
    }

    /// That nobody did.
    ///
    /// # Errors
    /// [`Failure::Interrupted`] when somebody did.
    pub fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_was_asked_stops() {
        let interrupt = Interrupt::default();
        assert_eq!(interrupt.check(), Ok(()));
        interrupt.0.store(true, Ordering::Relaxed);
        assert_eq!(interrupt.clone().check(), Err(Failure::Interrupted));
    }
}
