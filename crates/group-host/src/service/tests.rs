//! Tests of the service that need its private parts.

use super::*;
use lightseal_core::{Decode as _, Encode as _, Engine, Output as Wanted, Random, Writer};
use lightseal_dtls::{ClientConfig, Connection, Psk, ServerConfig};
use lightseal_group::control::{Answer, AnswerMessage, GroupName, Reason, Request, RoleSet};

/// The datagrams that an engine sends, and the number of its events.
fn drain<E: Engine>(engine: &mut E) -> (Vec<Vec<u8>>, usize) {
    let (mut datagrams, mut events, mut buf) = (Vec::new(), 0, [0; 2048]);
    loop {
        match engine.poll_output(&mut buf) {
            Wanted::Datagram { payload, .. } => datagrams.push(payload.to_vec()),
            Wanted::Event(_) => events += 1,
            Wanted::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
            Wanted::WakeAt(_) | Wanted::Idle => return (datagrams, events),
        }
    }
}

const LAMP: &str = "lamp";

/// The host of a controller with a group `lights` and the device `lamp`, which has a certificate.
fn host(directory: &Path, now: Instant) -> ControllerHost {
    let store = crate::store::ControllerStore::open(directory).unwrap();
    let mut registry = Registry::open(store, now, Random::insecure(1)).unwrap();
    let create = CreateRequest {
        name: "lights".into(),
        address: "[ff15::1]:5684".parse().unwrap(),
        profile: "compact".into(),
        suite: None,
        authenticity: "group".into(),
        responses: "group".into(),
        freshness: "new-epoch".into(),
        batch_ms: 200,
        activation_ms: 2000,
        retention_s: 10,
        renewal_s: 86_400,
        most_members: 1000,
    };
    registry.create(now, &create).unwrap();
    let enrol = Enrol {
        device: LAMP.into(),
        sender: false,
        listener: true,
        groups: Vec::new(),
        identities: vec!["subject:lamp.example".parse().unwrap()],
        controller: None,
        uses: None,
        expires_s: None,
    };
    registry.enrol(&enrol).unwrap();
    let devices = Arc::clone(registry.devices());
    let interface = Interface::loopback().expect("the loopback interface");
    ControllerHost {
        registry,
        authentication: Authentication::new(devices, Credentials::default()),
        peers: BTreeMap::new(),
        speaks: BTreeMap::new(),
        announcer: Announcer::new(interface, "::".parse().unwrap(), 1),
        unwelcome: Vec::new(),
        changed: Arc::new(Notify::new()),
        counters: metrics::Counters::default(),
        logs: Logs::default(),
    }
}

/// Asks for a join of the lamp, and returns the answers of the next `wait`.
fn join(host: &mut ControllerHost, now: &mut Instant, nonce: u8, wait: Duration) -> Vec<Answer> {
    let keys = lightseal_group::Identity::generate(&mut Random::insecure(nonce.into())).public();
    let (name, address) = (GroupName::new("lights").unwrap(), "::1".parse().unwrap());
    let roles = RoleSet { sender: false, listener: true };
    let join = Request::Join { nonce: [nonce; 8], name, roles, address, keys };
    let mut buf = [0; 700];
    let mut w = Writer::new(&mut buf);
    RequestMessage::new(nonce.into(), join).write(&mut w).unwrap();
    host.registry.handle(*now, LAMP, w.written());
    advance(host, now, wait)
}

fn advance(host: &mut ControllerHost, now: &mut Instant, wait: Duration) -> Vec<Answer> {
    let end = *now + wait;
    while let Some(at) = host.registry.wake_at().filter(|at| *at <= end) {
        *now = at.max(*now);
        host.registry.handle_timeout(*now);
    }
    *now = end;
    let polled = std::iter::from_fn(|| host.registry.poll());
    let answers = polled.filter_map(|(_, output)| match output {
        Output::Answer { answer, .. } => Some(AnswerMessage::decode(&answer).unwrap().answer),
        _ => None,
    });
    answers.collect()
}

/// A thief of the lamp's certificate joins twice and closes its association. Its second join waits
/// until a minute has passed since the first, and by then the certificate is on a revocation list.
#[test]
fn a_join_that_waits_does_not_outlive_a_credential_whose_association_has_closed() {
    for revoked in [false, true] {
        let label = format!("lightseal-closed-{revoked}-{}", std::process::id());
        let directory = std::env::temp_dir().join(label);
        let mut now = Instant::from_micros(5_000_000);
        let mut host = host(&directory, now);
        let place = |host: &mut ControllerHost| {
            let members = host.registry.show("lights").unwrap().roster.unwrap();
            members.iter().map(|member| member.listener_id).collect::<Vec<_>>()
        };
        let first = join(&mut host, &mut now, 1, Duration::from_secs(10));
        assert!(matches!(first[..], [Answer::Admitted(_)]), "{first:?}");
        let second = join(&mut host, &mut now, 2, Duration::from_secs(1));
        assert!(matches!(second[..], [Answer::Refused(Reason::NotNow)]), "{second:?}");
        let before = place(&mut host);
        if revoked {
            assert_eq!(host.end_unless(|_, _| false), 0, "no association is open");
        }
        advance(&mut host, &mut now, Duration::from_secs(7200));
        assert_eq!(before == place(&mut host), revoked);
        drop(host);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn the_log_says_which_groups_a_device_without_a_valid_credential_is_still_in() {
    assert_eq!(still_a_member("lamp", &[]), None);
    let warning = still_a_member("lamp", &["doors".to_owned(), "lights".to_owned()]).unwrap();
    for part in ["\"lamp\"", "doors, lights", "admin evict"] {
        assert!(warning.contains(part), "{warning}");
    }
}

#[test]
fn a_handshake_that_is_held_open_does_not_outlive_a_revocation() {
    let psk = Psk::external(b"thief", &[7; 32]).unwrap();
    let [here, there]: [SocketAddr; 2] = ["[::1]:1", "[::1]:2"].map(|at| at.parse().unwrap());
    for revoked in [false, true] {
        let now = Instant::from_micros(1_000_000);
        let config = Arc::new(ServerConfig::new(Arc::new(psk.clone())));
        let mut endpoint = Endpoint::server(config, Random::insecure(1));
        let config = Arc::new(ClientConfig::new(psk.clone()));
        let mut client = Connection::client(config, here, now, Random::insecure(2));
        // The ClientHello, the ClientHello with the cookie, and the client's last flight, which
        // is held back.
        for _ in 0..2 {
            for mut datagram in drain(&mut client).0 {
                endpoint.handle_datagram(now, there, &mut datagram);
            }
            for mut datagram in drain(&mut endpoint).0 {
                client.handle_datagram(now, here, &mut datagram);
            }
        }
        let (held_back, _) = drain(&mut client);
        assert!(!held_back.is_empty() && endpoint.open_connections() == 1);
        if revoked {
            end_handshakes(&mut endpoint, now);
            drain(&mut endpoint);
        }
        for mut datagram in held_back {
            endpoint.handle_datagram(now, there, &mut datagram);
        }
        drain(&mut endpoint);
        let connected = endpoint.connections().filter(|(_, of)| of.is_connected());
        assert_eq!(connected.count(), usize::from(!revoked));
    }
}
