//! The paper's AES-GCM aggregation in the whole engine: whoever flips the same
//! bits in two records of an aggregate is believed.

use crate::forgery::Attack;
use crate::world::Setup;
use dtls::Scheme;
use dtls::crypto::Provider;
use dtls::crypto::dangerous::AES_128_GCM_AGGREGATED;
use dtls::crypto::rustcrypto::PROVIDER;

/// A provider that no configuration offers.
static ALONE: Provider = Provider { suites: &[&AES_128_GCM_AGGREGATED], ..PROVIDER };

/// The schemes whose aggregates are sums of whole tags. Under R2D2 each record gives other bits of
/// its tag to a sum, in which the same difference does not cancel.
pub const SCHEMES: [&str; 4] = ["agg:2", "agg:4", "agg:8", "agg:16"];

/// The attacks that cancel in a sum of GHASHes.
pub const ATTACKS: [Attack; 2] = [Attack::FlipTwo, Attack::FlipTwoUnequal];

/// Two ends that agree on it.
pub fn setup() -> Setup {
    Setup { provider: &ALONE, ..Setup::new(AES_128_GCM_AGGREGATED.id, Scheme::Plain) }
}
