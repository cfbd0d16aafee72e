//! Requests to stop this process.

use crate::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code that shells report for a program ended by SIGINT.
const ENDED: i32 = 130;

/// Whether SIGINT or SIGTERM asked this process to stop. Long operations check it from time to time
/// and return, so that namespaces and programs are removed. A second signal ends the process at
/// once.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// The system does not allow it.
    pub fn watch() -> Result<Self, Failure> {
        let own = Self::default();
        let failed = |error| Failure::not_here("signals", error);
        for signal in [SIGINT, SIGTERM] {
            // In this order the first signal only sets the flag, and the second one ends the
            // process.
            flag::register_conditional_shutdown(signal, ENDED, Arc::clone(&own.0))
                .map_err(failed)?;
            flag::register(signal, Arc::clone(&own.0)).map_err(failed)?;
        }
        Ok(own)
    }

    /// Succeeds if no signal asked us to stop.
    ///
    /// # Errors
    /// [`Failure::Interrupted`] if one did.
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
