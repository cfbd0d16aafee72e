//! Fuzz targets: functions that take any bytes and must not panic.
//!
//! Each target is a plain function, so that libFuzzer and the seeded driver run the same code. Each
//! asserts more than the absence of panics.

mod codec;
mod codec12;
mod compact;
mod control;
mod ends;
mod macsec;
mod opener;
mod rekey;
mod saved;

use attacks::mutate;
use core::fmt;
use lightseal_core::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the target.
    pub name: &'static str,
    /// Takes an input; panics if it finds a fault.
    pub run: fn(&[u8]),
    /// Returns inputs that reach much of the code. The driver alters them.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.name)
    }
}

/// The list of all fuzz targets.
pub const TARGETS: [Target; 12] = [
    Target { name: "messages", run: codec::messages, seeds: codec::message_seeds },
    Target { name: "messages12", run: codec12::messages, seeds: codec12::seeds },
    Target { name: "headers", run: codec::headers, seeds: codec::header_seeds },
    Target { name: "client", run: ends::client, seeds: ends::client_seeds },
    Target { name: "server", run: ends::server, seeds: ends::server_seeds },
    Target { name: "plaintext", run: ends::plaintext, seeds: ends::plaintext_seeds },
    Target { name: "opener", run: opener::opener, seeds: opener::seeds },
    Target { name: "group_records", run: compact::records, seeds: compact::seeds },
    Target { name: "group_control", run: control::messages, seeds: control::seeds },
    Target { name: "macsec", run: macsec::frames, seeds: macsec::seeds },
    Target { name: "rekey", run: rekey::messages, seeds: rekey::seeds },
    Target { name: "saved", run: saved::restores, seeds: saved::seeds },
];

/// The target with this name.
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// An input that made a target panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The index of the input in the seeded run.
    pub iteration: u64,
    /// The input.
    pub input: Vec<u8>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "input {}: ", self.iteration)?;
        self.input.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Feeds a target its seeds and then altered copies of them, while `go_on` returns true for the
/// index of the next input. `seed` determines all inputs. Returns the number of inputs.
///
/// # Errors
/// The first input that made it panic.
pub fn drive(target: &Target, seed: u64, mut go_on: impl FnMut(u64) -> bool) -> Result<u64, Found> {
    let mut rng = Random::insecure(seed);
    let corpus = (target.seeds)();
    let mut iteration = 0;
    while go_on(iteration) {
        let input = match corpus.get(iteration as usize) {
            Some(genuine) => genuine.clone(),
            None if rng.below(16) == 0 => mutate::noise(&mut rng),
            None => mutate::altered(&mut rng, &corpus),
        };
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
            return Err(Found { iteration, input });
        }
        iteration += 1;
    }
    Ok(iteration)
}
