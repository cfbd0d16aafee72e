//! Protected records of DTLS 1.3 (RFC 9147, section 4).
//!
//! ```text
//! standard    | unified header | encrypted: content | type | zeros | tag |
//! aggregated  | unified header | encrypted: type | content | own tag, aggregate |
//! ```

mod mask;
#[cfg(feature = "internals")]
mod observe;
mod open;
#[cfg(feature = "passive")]
mod passive;
mod seal;
mod standard;

pub(super) use open::Opening;
#[cfg(feature = "passive")]
pub(super) use passive::Reading13;
pub(super) use seal::Sealing;

use super::number::mask_sample;
use crate::crypto::KeyDerivation;
use lightseal_aggregation::scheme::TAG_BYTES;
use lightseal_aggregation::{Overprovision, RulerOrder, Scheme};

/// The length in bytes of a closing tag record's content: how far back its range begins (1), how
/// many records it covers (1), and the tag.
const CLOSING_CONTENT: usize = 2 + TAG_BYTES;

/// Whether this build has schemes with dependency sets that are drawn.
const HAS_DRAWN_SETS: bool = {
    let r2d2 = Scheme::R2d2(Overprovision::ALL[0]);
    r2d2.can_send() || r2d2.can_receive()
};

/// Passes on the secret order of a scheme's dependency sets in one direction of an epoch.
fn with_order<T>(keys: &KeyDerivation, scheme: Scheme, act: impl FnOnce(&RulerOrder) -> T) -> T {
    static NOT_DRAWN: RulerOrder = RulerOrder::List;
    let drawn;
    let order = if HAS_DRAWN_SETS && scheme.is_drawn() {
        let mut seed = [0; 32];
        keys.expand("agg rulers", &scheme.context(), &mut seed);
        drawn = RulerOrder::Keyed(seed);
        &drawn
    } else {
        &NOT_DRAWN
    };
    act(order)
}
