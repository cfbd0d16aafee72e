//! Records of DTLS 1.3 under keys (RFC 9147, section 4).
//!
//! ```text
//! standard    | unified header | encrypted: content | type | zeros | tag |
//! aggregated  | unified header | encrypted: type | content | own tag, aggregate |
//! ```

mod mask;
mod open;
#[cfg(feature = "passive")]
mod passive;
mod seal;

pub(super) use open::Opening;
#[cfg(feature = "passive")]
pub(super) use passive::Reading13;
pub(super) use seal::Sealing;

use crate::crypto::TrafficSecret;
use aggregation::scheme::TAG_BYTES;
use aggregation::{Order, Scheme};

/// Bytes of a closing tag's content: how far back its range begins, how many
/// records it covers, the tag.
const CLOSING_CONTENT: usize = 2 + TAG_BYTES;

/// A record's bytes from which its number's mask is made (RFC 9147, section
/// 4.2.3). A shorter record is filled with zeros and its length in the last
/// byte, which is injective.
fn mask_sample(body: &[u8]) -> [u8; 16] {
    let mut sample = [0; 16];
    match body.first_chunk() {
        Some(chunk) => sample = *chunk,
        None => {
            sample[..body.len()].copy_from_slice(body);
            sample[15] = body.len() as u8;
        }
    }
    sample
}

/// The secret order of a scheme's dependency sets in one direction of an epoch.
fn order(secret: &TrafficSecret, scheme: Scheme) -> Order {
    let mut seed = [0; 32];
    if scheme.is_drawn() {
        secret.expand("agg rulers", &scheme.context(), &mut seed);
    }
    Order::Keyed(seed)
}
