//! Random histories under each scheme.

use lightseal_core::{Instant, Random};
use lightseal_gateway::flows::FlowLimits;
use lightseal_gateway::schemes::Scheme;
use lightseal_gateway::schemes::compressed::Compressed;
use lightseal_gateway::schemes::identifier::{Identifier, IdentifierSettings};
use testkit::gateway::history::histories;
use testkit::gateway::world::sealed;

const START: Instant = Instant::from_micros(1_000_000);

fn compressed(random: &mut Random) -> Box<dyn Scheme> {
    Box::new(Compressed::new(FlowLimits::default(), random, START).unwrap())
}

/// A scheme with small windows, so that histories exceed them.
fn identifier(random: &mut Random) -> Box<dyn Scheme> {
    let mut settings = IdentifierSettings::default();
    (settings.ahead, settings.behind) = (32, 16);
    Box::new(Identifier::new(settings, random, START).unwrap())
}

#[test]
fn sealed_delivers_nothing_twice_or_altered_and_recovers() {
    histories(sealed, true);
}

#[test]
fn short_headers_deliver_nothing_twice_or_altered_and_recover() {
    histories(compressed, true);
}

#[test]
fn identifiers_deliver_nothing_twice_or_altered_and_recover() {
    histories(identifier, true);
}
