//! What stands for a device's source of random numbers, which the board has not.
//!
//! A device reads its hardware here. The images count on, so that they repeat to the byte: each end has
//! a source of its own, so that one end alone draws what it draws beside its peer.

use core::sync::atomic::{AtomicU32, Ordering};
use lightseal_dtls::Random;

static CLIENT: AtomicU32 = AtomicU32::new(0);
static SERVER: AtomicU32 = AtomicU32::new(0);

/// A client, or a member of a group. Each one draws the same numbers.
pub fn client() -> Random {
    CLIENT.store(1, Ordering::Relaxed);
    Random::from_device(|out| fill(&CLIENT, out))
}

/// A server, or a controller.
pub fn server() -> Random {
    SERVER.store(2, Ordering::Relaxed);
    Random::from_device(|out| fill(&SERVER, out))
}

/// A linear congruential generator: no randomness at all.
fn fill(state: &AtomicU32, out: &mut [u8]) {
    for byte in out {
        let next =
            state.load(Ordering::Relaxed).wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.store(next, Ordering::Relaxed);
        *byte = (next >> 24) as u8;
    }
}
