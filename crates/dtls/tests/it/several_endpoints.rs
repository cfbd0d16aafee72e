//! Endpoints of one service, among which a network shares out the datagrams.

use lightseal_dtls::ProtocolVersion::{self, Dtls12, Dtls13};
use lightseal_dtls::{
    ConnectionId, ConnectionIdGenerator, CookiePolicy, Endpoint, Instant, ProcessOutOfRange,
    Random, TicketSecrets,
};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{self, Configs, Direction, Pair};

const VERSIONS: [ProtocolVersion; 2] = [Dtls12, Dtls13];

/// Connection IDs begin with one of two bytes, and those of one association with the same one.
#[derive(Debug)]
struct OneOfTwo;

impl ConnectionIdGenerator for OneOfTwo {
    fn generate(&self, rng: &mut Random, former: Option<&[u8]>, id: &mut [u8]) {
        rng.fill(id);
        id[0] = former.map_or(0x70 | id[0] & 1, |former| former[0]);
    }
}

fn configs(version: ProtocolVersion) -> Configs {
    let mut configs = Configs::new();
    configs.client.settings.connection_ids = pair::ids(Some(0));
    configs.server.settings.connection_ids = pair::ids(Some(3));
    configs.client.settings.versions = vec![version];
    configs.server.settings.versions = vec![version];
    configs
}

/// The first bytes of the IDs in the datagrams to the server.
fn first_bytes(pair: &Pair<'_>) -> Vec<u8> {
    let to_server = pair.log.iter().filter(|(to, _)| *to == Direction::ToServer);
    to_server
        .filter_map(|(_, datagram)| ConnectionId::of_datagram(datagram, 3))
        .map(|id| id[0])
        .collect()
}

#[test]
fn ids_say_what_the_generator_wants_and_an_association_stays_with_its_first_choice() {
    for version in VERSIONS {
        let mut seen = Vec::new();
        for seed in 0..10 {
            let mut pair = configs(version).pair(seed);
            pair.server.set_connection_id_generator(Arc::new(OneOfTwo));
            pair.connect().assert_connected();
            for port in 50_000..50_004 {
                let now = pair.now;
                let handle = pair.handle.unwrap();
                pair.server.connection_mut(handle).unwrap().rotate_connection_id(now);
                pair.run_for(Duration::from_secs(1));
                pair.client_address.set_port(port);
                pair.client_send(b"here");
                pair.run_for(Duration::from_secs(1));
            }
            assert_eq!(pair.at_server.data.len(), 4);
            let mut bytes = first_bytes(&pair);
            assert!(bytes.len() > 4);
            bytes.dedup();
            assert_eq!(bytes.len(), 1, "seed {seed}");
            seen.extend(bytes);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [0x70, 0x71], "both are drawn");
    }
}

/// Fills in a secret that all endpoints know.
fn shared(generation: u64, secret: &mut [u8; 32]) {
    secret.fill(generation as u8);
}

#[test]
fn a_client_that_one_endpoint_has_asked_for_a_cookie_can_be_answered_by_another() {
    for version in VERSIONS {
        // The clock of the second may be behind the first's, or ahead of it.
        for (generation, knows) in [(6, true), (7, true), (8, true), (9, false)] {
            let with_cookies = || {
                let mut configs = configs(version);
                configs.server.cookies = CookiePolicy::Always;
                configs
            };
            let mut pair = with_cookies().pair(1);
            let config = with_cookies().server.config();
            let mut other = Endpoint::server(config, Random::insecure(2));
            let now: Instant = pair.now;
            pair.server.share_cookies(now, 7, shared);
            other.share_cookies(now, generation, shared);
            let was_asked =
                |pair: &Pair<'_>| pair.log.iter().any(|(to, _)| *to == Direction::ToClient);
            assert!(pair.run_until(was_asked));
            std::mem::swap(&mut pair.server, &mut other);
            pair.run_for(Duration::from_secs(1));
            // A client of DTLS 1.2 may be asked once more (RFC 6347, section 4.2.1).
            let connects = knows || version == Dtls12;
            assert_eq!(pair.client.is_connected(), connects, "{version} {generation}");
            assert_eq!(other.stats().retries, 1);
            let asks_again = !knows && version == Dtls12;
            assert_eq!(pair.server.stats().retries, u64::from(asks_again));
        }
    }
}

/// Secrets of the generations from this one on.
#[derive(Debug)]
struct Secrets {
    oldest: u8,
}

impl TicketSecrets for Secrets {
    fn secret(&self, generation: u8, secret: &mut [u8; 32]) -> bool {
        secret.fill(generation);
        generation >= self.oldest
    }
}

#[test]
fn a_session_is_resumed_at_another_endpoint_while_its_secret_is_there() {
    for version in VERSIONS {
        for (generation, oldest, resumes) in [(3, 3, true), (4, 3, true), (4, 4, false)] {
            let with_tickets = || {
                let mut configs = configs(version);
                for settings in [&mut configs.client.settings, &mut configs.server.settings] {
                    settings.psk_tickets = 1;
                    settings.session_tickets = true;
                }
                configs
            };
            let mut pair = with_tickets().pair(1);
            pair.server.share_tickets(Arc::new(Secrets { oldest: 3 }), 3, 1).unwrap();
            let most = 1 << 24;
            let refused = pair.server.share_tickets(Arc::new(Secrets { oldest: 3 }), 3, most);
            assert_eq!(refused, Err(ProcessOutOfRange), "another process would have its key");
            pair.connect().assert_connected();
            let session = pair.client.take_session().or_else(|| pair.client.session());
            let session = session.expect("a ticket");

            let config = with_tickets().server.config();
            pair.server = Endpoint::server(config, Random::insecure(2));
            pair.server.share_tickets(Arc::new(Secrets { oldest }), generation, 2).unwrap();
            for used_before in [false, true] {
                let mut client = with_tickets().client;
                client.session = Some(session.clone());
                let mut next = pair.reconnect(client, pair.now.as_micros());
                next.connect().assert_connected();
                let resumed = next.at_server.connected.as_ref().unwrap().resumed;
                assert_eq!(resumed, resumes, "{version} {generation} {oldest} {used_before}");
                std::mem::swap(&mut pair.server, &mut next.server);
                pair.now = next.now + Duration::from_secs(1);
            }
        }
    }
}
