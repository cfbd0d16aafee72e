//! The paper's AES-GCM aggregation in the whole engine: an attacker that flips the same bits in two
//! records of an aggregate goes undetected.

use crate::forgery::Attack;
use crate::setup::Setup;
use lightseal_dtls::Scheme;
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::crypto::dangerous::AES_128_GCM_AGGREGATED;
use lightseal_dtls::crypto::rustcrypto::PROVIDER;

/// A provider with this suite alone, which no configuration offers.
static ALONE: Provider = Provider::new(PROVIDER.name)
    .with_suites(&[&AES_128_GCM_AGGREGATED])
    .with_groups(PROVIDER.groups);

/// The schemes whose aggregates are sums of whole tags. Under R2D2 each record adds different bits
/// of its tag to a sum, so that equal differences do not cancel.
pub const SCHEMES: [&str; 4] = ["agg:2", "agg:4", "agg:8", "agg:16"];

/// The attacks whose changes cancel in a sum of GHASH values.
pub const ATTACKS: [Attack; 2] = [Attack::FlipTwo, Attack::FlipTwoUnequal];

/// A setup of two ends that use this suite.
pub fn setup() -> Setup {
    Setup { provider: &ALONE, ..Setup::new(AES_128_GCM_AGGREGATED.id, Scheme::Plain) }
}
