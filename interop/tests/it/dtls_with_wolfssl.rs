//! Lightseal's DTLS 1.3 against wolfSSL's, in both roles, in virtual time.

use interop::driven::{Driven, Event};
use interop::meeting::{HERE, Meeting};
use interop::ours::Ours;
use interop::wolfssl::{Context, Mode, Role, Settings, Suite};
use lightseal_core::Instant;
use lightseal_dtls::{AggregationPolicy, Scheme};
use lightseal_net::{Impairments, Probability};
use std::time::Duration;

fn settings(suite: Suite, mode: Mode, cookie: bool) -> Settings {
    Settings { suite, mode, cookie, identity: b"sensor-7".to_vec(), key: vec![0x5a; 32] }
}

fn plain(settings: &Settings, our_role: Role, seed: u64) -> Meeting {
    Meeting::new(settings, our_role, &AggregationPolicy::default(), seed)
}

#[test]
fn every_suite_and_mode_in_both_roles_with_and_without_cookie() {
    for role in Role::BOTH {
        for suite in Suite::ALL {
            for mode in Mode::ALL {
                for cookie in [false, true] {
                    let what = format!("we are {role:?}, {suite:?} {mode:?} cookie {cookie}");
                    let mut meeting = plain(&settings(suite, mode, cookie), role, 1);
                    meeting.run_for(10);
                    assert!(meeting.connected(), "{what}: {:?}", meeting.events());
                    assert!(meeting.exchange_data(), "{what}: {:?}", meeting.events());
                    let sent_again = meeting.ours(|ours, _| {
                        ours.connection().expect("open").stats().sent.retransmissions
                    });
                    assert_eq!(sent_again, 0, "{what}");
                }
            }
        }
    }
}

#[test]
fn either_end_may_close() {
    for role in Role::BOTH {
        let settings = settings(Suite::Aes128Gcm, Mode::Psk, true);
        let mut meeting = plain(&settings, role, 1);
        meeting.run_for(5);
        meeting.ours(Ours::close);
        meeting.run_for(5);
        let events = meeting.events();
        assert!(matches!(&events[1][1..], [Event::Closed(_)]), "{events:?}");

        let mut meeting = plain(&settings, role, 1);
        meeting.run_for(5);
        meeting.theirs(Driven::close);
        meeting.run_for(5);
        let events = meeting.events();
        assert!(matches!(&events[0][1..], [Event::Closed(_)]), "{events:?}");
    }
}

#[test]
fn their_new_keys_are_followed() {
    for role in Role::BOTH {
        let mut meeting = plain(&settings(Suite::Aes128Gcm, Mode::Psk, true), role, 1);
        meeting.run_for(5);
        for round in 0..3 {
            meeting.theirs(|theirs| theirs.peer().update_keys()).expect("connected");
            meeting.run_for(5);
            assert!(meeting.exchange_data(), "round {round}: {:?}", meeting.events());
        }
    }
}

/// A peer that does not know the aggregation extension gets plain DTLS 1.3.
#[test]
fn who_wants_shared_tags_falls_back_to_plain_ones() {
    let policy = AggregationPolicy::both("agg:8".parse().expect("a scheme"));
    for role in Role::BOTH {
        let mut meeting =
            Meeting::new(&settings(Suite::Aes128Gcm, Mode::Psk, true), role, &policy, 1);
        meeting.run_for(5);
        assert!(meeting.connected(), "{:?}", meeting.events());
        let schemes =
            meeting.ours(|ours, _| ours.negotiated().map(|agreed| (agreed.send, agreed.receive)));
        assert_eq!(schemes, Some((Scheme::Plain, Scheme::Plain)));
        assert!(meeting.exchange_data(), "{:?}", meeting.events());
    }
}

#[test]
fn another_key_connects_nobody() {
    for role in Role::BOTH {
        let settings = settings(Suite::Aes128Gcm, Mode::Psk, true);
        let mut meeting = plain(&settings, role, 1);
        let theirs = Settings { key: vec![0x5b; 32], ..settings };
        let end = match role {
            Role::Client => Driven::server(&Context::new(Role::Server, &theirs)),
            Role::Server => {
                Driven::client(&Context::new(Role::Client, &theirs), HERE, Instant::ZERO)
            }
        };
        meeting.theirs(|slot| *slot = end);
        meeting.run_for(70);
        let events = meeting.events();
        assert!(!events[0].contains(&Event::Connected), "{events:?}");
        // wolfSSL learns of it in either role, by an alert or from the binder itself.
        assert!(matches!(&events[1][..], [Event::Closed(_)]), "{events:?}");
    }
}

#[test]
fn a_fifth_lost_the_handshake_still_ends() {
    for role in Role::BOTH {
        for seed in 0..4 {
            let mode = Mode::ALL[seed as usize % Mode::ALL.len()];
            let mut meeting = plain(&settings(Suite::Aes128Gcm, mode, true), role, seed);
            meeting.impair(&Impairments {
                loss: Probability::ratio(1, 5),
                delay: Duration::from_millis(30),
                ..Impairments::NONE
            });
            meeting.run_for(55);
            let events = meeting.events();
            assert!(meeting.connected(), "we are {role:?}, seed {seed}: {events:?}");
        }
    }
}
