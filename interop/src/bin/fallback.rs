//! Checks that a standard peer gets standard DTLS 1.3 from an end that prefers shared tags.

use clap::Parser;
use interop::meeting::Meeting;
use interop::wolfssl::{Mode, Role, Settings, Suite, version};
use lightseal_dtls::{AggregationPolicy, Scheme};
use serde_json::json;

/// Connects Lightseal, asking for agg:8, with wolfSSL in every role, suite and mode, with and
/// without cookie, and exchanges data.
#[derive(Parser)]
struct Arguments {
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

fn main() {
    let json = Arguments::parse().json;
    let policy = AggregationPolicy::both("agg:8".parse().expect("a scheme"));
    let (mut tried, mut wrong) = (0, Vec::new());
    for role in Role::BOTH {
        for suite in Suite::ALL {
            for mode in Mode::ALL {
                for cookie in [false, true] {
                    let (identity, key) = (b"sensor-7".to_vec(), vec![0x5a; 32]);
                    let settings = Settings { suite, mode, cookie, identity, key };
                    tried += 1;
                    if !falls_back(&settings, role, &policy) {
                        wrong.push(format!("we are {role:?}, {suite:?} {mode:?} cookie {cookie}"));
                    }
                }
            }
        }
    }
    let peer = format!("wolfSSL {}", version());
    if json {
        println!("{}", json!({ "peer": peer, "tried": tried, "wrong": wrong.len() }));
    } else {
        println!("{tried} associations with {peer}, {} wrong", wrong.len());
        wrong.iter().for_each(|wrong| println!("wrong: {wrong}"));
    }
}

/// Whether both ends agree on plain tags and on the suite of `settings`, and data passes.
fn falls_back(settings: &Settings, our_role: Role, policy: &AggregationPolicy) -> bool {
    let mut meeting = Meeting::new(settings, our_role, policy, 1);
    meeting.run_for(10);
    let agreed = meeting.ours(|ours, _| {
        ours.negotiated().map(|agreed| (agreed.suite.0, agreed.send, agreed.receive))
    });
    meeting.connected()
        && agreed == Some((settings.suite.code(), Scheme::Plain, Scheme::Plain))
        && meeting.exchange_data()
}
