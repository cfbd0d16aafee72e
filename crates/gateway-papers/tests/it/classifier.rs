//! Whether an observer can sort the datagrams of a tunnel into flows, or find hidden values in
//! them.

use testkit::gateway::trials::{self, Make};
use trials::observer::{Capture, Leaks};

const PACKETS: usize = 10_000;
const SEED: u64 = 7;

/// The limit in bits; the flow itself has 3.3 bits. With 10 000 packets, two random assignments
/// differ by some 0.007 bits, and the maximum over 700 features is some five times that.
const CHANCE: f64 = 0.06;

fn hidden(scheme: Make) {
    let mut capture = Capture::of(scheme, SEED, PACKETS);
    assert_eq!(capture.leaks(), Leaks::default());
    assert_eq!(capture.constant_positions(), 0);
    let told = capture.information();
    println!("{told:?}");
    assert!(told.most < CHANCE && told.chance < CHANCE, "{told:?}");
}

#[test]
fn plain_is_sorted_into_flows_at_sight() {
    let mut capture = Capture::of(trials::plain, SEED, PACKETS);
    let Leaks { addresses, scis, pns, ans, ethertypes } = capture.leaks();
    // The source address is also part of the SCI.
    assert!(addresses >= 3 * PACKETS && scis >= PACKETS && pns >= PACKETS);
    assert!(ans > 0 && ethertypes >= PACKETS);
    assert!(capture.constant_positions() >= 3);
    assert!(capture.repeats() > 0);
    let most = capture.information().most;
    assert!(most > 3.0, "{most}");
}

#[test]
fn sealed_tells_nothing_of_flows() {
    hidden(trials::sealed);
}

#[test]
fn short_headers_tell_nothing_of_flows() {
    hidden(trials::compressed);
}

#[test]
fn identifiers_tell_nothing_of_flows_and_never_repeat() {
    hidden(trials::identifier);
    assert_eq!(Capture::of(trials::identifier, SEED, PACKETS).repeats(), 0);
}

#[test]
fn the_papers_encryption_tells_nothing_of_flows_and_never_repeats() {
    hidden(trials::encryption_paper);
    assert_eq!(Capture::of(trials::encryption_paper, SEED, PACKETS).repeats(), 0);
}
