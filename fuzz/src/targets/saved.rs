//! Saved associations. Whatever the bytes are, restoring them ends with an error or with an association
//! that acts, and that can be saved and restored again.

use lightseal_core::{Engine, Instant, Output, Random, Reader};
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::tuning::{RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES};
use lightseal_dtls::{
    Connection, Endpoint, Handle, Marks, ProtocolVersion, SaveError, SavedAssociation, Scheme,
};
use std::time::Duration;
use testkit::pair::{Configs, Pair, client_address, server_address};

/// The kinds of associations.
const KINDS: [fn() -> Configs; 4] = [plain, sets, bits, dtls12];
/// The bit of an input's first byte that says that a server is restored.
const SERVER: u8 = 4;
/// The most events and datagrams that are taken at a time.
const MOST_OUTPUTS: usize = 200;

fn plain() -> Configs {
    of(Configs::new(), ProtocolVersion::Dtls13, CipherSuiteId::AES_128_CCM_SHA256)
}

fn sets() -> Configs {
    let configs = Configs::aggregated("agg:8");
    of(configs, ProtocolVersion::Dtls13, CipherSuiteId::AES_128_CCM_SHA256)
}

fn bits() -> Configs {
    let configs = Configs::aggregated("r2d2:100+check");
    of(configs, ProtocolVersion::Dtls13, CipherSuiteId::AES_128_CCM_SHA256)
}

fn dtls12() -> Configs {
    of(Configs::new(), ProtocolVersion::Dtls12, CipherSuiteId::PSK_WITH_AES_128_CCM)
}

fn of(mut configs: Configs, version: ProtocolVersion, suite: CipherSuiteId) -> Configs {
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.versions = vec![version];
        settings.suites = vec![suite];
        settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(8);
    }
    configs
}

/// Restores what an input says: which end of which kind, marks with a length, and the state.
pub(super) fn restores(input: &[u8]) {
    let mut r = Reader::new(input);
    let (Ok(which), Ok(bytes)) = (r.u8(), r.vec8()) else { return };
    let Ok(marks) = Marks::from_bytes(bytes) else { return };
    assert_eq!(marks.to_bytes(), bytes, "marks have one form");
    let saved = SavedAssociation::new(marks, r.rest().to_vec());
    let _ = saved.route();
    if let Some(again) = restored(which, &saved) {
        assert!(restored(which, &again).is_some(), "what was restored is saved in a valid form");
    }
}

/// Restores an association, lets it act, and saves it again. `None` if it is not restored.
fn restored(which: u8, saved: &SavedAssociation) -> Option<SavedAssociation> {
    let configs = KINDS[usize::from(which) % KINDS.len()]();
    let (mut now, rng) = (Instant::from_micros(1_000_000), Random::insecure(3));
    let again = if which & SERVER == 0 {
        let mut client = Connection::restore(configs.client.config(), saved, now, rng).ok()?;
        let _ = client.send(now, b"payload", &mut []);
        act(&mut client, &mut now);
        client.save(now)
    } else {
        let mut server = Endpoint::server(configs.server.config(), rng);
        let handle = server.restore(now, saved).ok()?;
        if let Some(mut connection) = server.connection_mut(handle) {
            let _ = connection.send(now, b"payload", &mut []);
        }
        act(&mut server, &mut now);
        server.save(now, handle).unwrap_or(Err(SaveError::NotConnected))
    };
    // One that cannot be saved now is not restored again.
    Some(again.unwrap_or_else(|_| saved.clone()))
}

/// Lets an engine act, with junk among what it receives.
fn act<E: Engine + Holds>(engine: &mut E, now: &mut Instant) {
    let mut buf = vec![0; 2048];
    for round in 0..3 {
        for _ in 0..MOST_OUTPUTS {
            let needed = match engine.poll_output(&mut buf) {
                Output::Datagram { .. } | Output::Event(_) => 0,
                Output::BufferTooSmall { needed } => needed,
                Output::WakeAt(_) | Output::Idle => break,
            };
            buf.resize(buf.len().max(needed), 0);
        }
        assert!(engine.held() <= RECEIVE_BUFFER_BYTES + SEND_BUFFER_BYTES);
        let mut junk = [0x2f, round, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18];
        engine.handle_datagram(*now, client_address(), &mut junk);
        engine.handle_datagram(*now, server_address(), &mut junk);
        *now += Duration::from_secs(2);
        engine.handle_timeout(*now);
    }
}

/// An engine with buffers.
trait Holds {
    /// The bytes in its buffers.
    fn held(&self) -> usize;
}

impl Holds for Connection {
    fn held(&self) -> usize {
        self.buffered_bytes()
    }
}

impl Holds for Endpoint {
    fn held(&self) -> usize {
        self.buffered_bytes()
    }
}

/// Both ends of each kind, after changes of keys and schemes.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let kinds = KINDS.iter().zip(0..);
    kinds.flat_map(|(configs, kind)| saved(configs().pair(5), kind)).collect()
}

fn saved(mut pair: Pair<'_>, kind: u8) -> [Vec<u8>; 2] {
    pair.connect().assert_connected();
    let (now, handle): (_, Handle) = (pair.now, pair.handle.expect("it is connected"));
    pair.client.update_keys(now);
    // One direction goes on with shared tags. Ends without them have no scheme to request.
    let _ = match (kind % 2, pair.server.connection_mut(handle)) {
        (0, Some(mut server)) => server.request_aggregation(now, Scheme::Plain),
        _ => pair.client.request_aggregation(now, Scheme::Plain),
    };
    for _ in 0..3 {
        pair.client_send(b"up");
        pair.server_send(b"down");
        pair.run_for(Duration::from_secs(1));
    }
    let server = pair.server.save(pair.now, handle).expect("it is there").expect("it is at rest");
    let client = pair.client.save(pair.now).expect("it is at rest");
    [(kind, client), (kind | SERVER, server)].map(|(which, saved)| {
        let marks = saved.marks.to_bytes();
        let state = saved.state().expect("a clean save has the state");
        [&[which, marks.len() as u8], &marks[..], state].concat()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_restored() {
        for seed in seeds() {
            let mut r = Reader::new(&seed);
            let (which, marks) = (r.u8().unwrap(), Marks::from_bytes(r.vec8().unwrap()).unwrap());
            let saved = SavedAssociation::new(marks, r.rest().to_vec());
            assert!(restored(which, &saved).is_some(), "{which}");
        }
    }
}
