//! Whether an association is restored whose peer was verified by another process.

use crate::world::{Ca, DAY, End, NOW, PROVIDER, crl, days, params, root, settings_at, trusting};
use lightseal_core::Random;
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, CertifiedKey, ClientAuthentication, Connection, Endpoint,
    KeyStore, Psk, RestoreError, SavedAssociation,
};
use lightseal_pki::{Evidence, RecordingVerifier, Trust, certified_key, raw_key};
use rcgen::SerialNumber;
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{ClientParts, Configs, Pair, ServerParts};

const SERVER: &str = "server.example";

/// What the tests let a peer do: it has a certificate with this serial number for ten days.
const SERIAL: u64 = 7;

struct Ends {
    ca: Ca,
    client: End,
    server: End,
}

impl Ends {
    fn new() -> Self {
        let ca = root("Root");
        let mut client = params("client", &["client.example"]);
        client.serial_number = Some(SerialNumber::from(SERIAL));
        client.not_after = days(10);
        let mut server = params("server", &[SERVER]);
        server.serial_number = Some(SerialNumber::from(SERIAL));
        server.not_after = days(10);
        Self { client: End::new(&client, &ca), server: End::new(&server, &ca), ca }
    }

    fn verifier(&self, trust: Trust, now: u64) -> Arc<dyn CertificateVerifier> {
        Arc::new(settings_at(Some(now)).verifier(trust))
    }

    /// Configurations with these keys, where both ends have `verifier`.
    fn configs(&self, verifier: &Arc<dyn CertificateVerifier>, raw: bool) -> Configs {
        let key = |end: &End| -> Arc<dyn KeyStore> {
            let pem = end.key.serialize_pem();
            let chain = end.certificate.pem();
            let key: CertifiedKey = match raw {
                true => raw_key(&PROVIDER, pem.as_bytes()).unwrap(),
                false => certified_key(&PROVIDER, chain.as_bytes(), pem.as_bytes()).unwrap(),
            };
            Arc::new(key)
        };
        let psk = Psk::external(b"unused", &[1; 32]).unwrap();
        let mut client = ClientParts::new(psk.clone());
        client.psk = None;
        client.verifier = Some(Arc::clone(verifier));
        client.keys = Some(key(&self.client));
        client.server_name = Some(SERVER.into());
        let mut server = ServerParts::new(Arc::new(psk));
        server.keys = Some(key(&self.server));
        server.clients = ClientAuthentication::Required(Arc::clone(verifier));
        Configs { client, server }
    }
}

/// Both ends, client first, as another process finds them: the association, and what the peer had
/// presented.
type Saved = [(SavedAssociation, Option<Evidence>); 2];

fn saved(ends: &Ends, verifier: Arc<dyn CertificateVerifier>, raw: bool) -> (Pair<'static>, Saved) {
    let recording = Arc::new(RecordingVerifier::new(verifier));
    let shared: Arc<dyn CertificateVerifier> = Arc::clone(&recording) as _;
    let mut pair = ends.configs(&shared, raw).pair(5);
    pair.connect().assert_connected();
    pair.client_send(b"up");
    pair.run_for(Duration::from_secs(1));
    let handle = pair.handle.unwrap();
    let server_key = pair.client.negotiated().unwrap().peer_key().unwrap().clone();
    let client_key =
        pair.server.connection(handle).unwrap().negotiated().unwrap().peer_key().unwrap().clone();
    let server = pair.server.save(pair.now, handle).unwrap().unwrap();
    let client = pair.client.save(pair.now).unwrap();
    let (of_server, of_client) = (recording.take(&server_key), recording.take(&client_key));
    assert_eq!(recording.take(&client_key), None, "it was taken");
    // It goes through a store.
    let stored = |evidence: Option<Evidence>| {
        evidence.map(|evidence| Evidence::from_bytes(&evidence.to_bytes()).unwrap())
    };
    (pair, [(client, stored(of_server)), (server, stored(of_client))])
}

/// What another process with this verifier makes of both associations: what it says to the chain,
/// and whether it restores the association.
fn restored(
    ends: &Ends,
    pair: &Pair<'_>,
    saved: &Saved,
    verifier: &Arc<dyn CertificateVerifier>,
    raw: bool,
) -> [(Option<BadCertificate>, Result<(), RestoreError>); 2] {
    let Configs { client, server } = ends.configs(verifier, raw);
    let judged = saved.each_ref().map(|(_, evidence)| {
        evidence.as_ref().and_then(|evidence| evidence.judge(&**verifier).err())
    });
    let now = pair.now;
    let [(client_saved, _), (server_saved, _)] = saved;
    let restored = Connection::restore(client.config(), client_saved, now, Random::insecure(8));
    let mut endpoint = Endpoint::server(server.config(), Random::insecure(9));
    let [of_server, of_client] = judged;
    [(of_server, restored.map(drop)), (of_client, endpoint.restore(now, server_saved).map(drop))]
}

#[test]
fn a_peer_whose_chain_is_not_accepted_any_more_is_not_restored() {
    let ends = Ends::new();
    let with_list = |revoked: &[u64]| {
        trusting(&ends.ca).with_revocation_lists(&crl(&ends.ca, revoked, 20)).unwrap()
    };
    let (pair, saved) = saved(&ends, ends.verifier(with_list(&[]), NOW), false);
    assert!(saved.iter().all(|(_, evidence)| evidence.is_some()));
    let refused = Err(RestoreError::PeerNotAccepted);
    for (what, trust, now, judged, outcome) in [
        ("nothing changed", with_list(&[]), NOW, None, Ok(())),
        ("on its last day", with_list(&[]), NOW + 10 * DAY, None, Ok(())),
        ("expired", with_list(&[]), NOW + 10 * DAY + 1, Some(BadCertificate::Expired), refused),
        ("revoked", with_list(&[SERIAL]), NOW, Some(BadCertificate::Revoked), refused),
        ("another one is revoked", with_list(&[SERIAL + 1]), NOW, None, Ok(())),
        (
            "its authority is gone",
            trusting(&root("Other")),
            NOW,
            Some(BadCertificate::UnknownIssuer),
            refused,
        ),
    ] {
        let verifier = ends.verifier(trust, now);
        let both = restored(&ends, &pair, &saved, &verifier, false);
        assert_eq!(both, [(judged, outcome); 2], "{what}");
    }
}

#[test]
fn without_evidence_no_chain_is_remembered() {
    let ends = Ends::new();
    let verifier = || ends.verifier(trusting(&ends.ca), NOW);
    let (pair, mut saved) = saved(&ends, verifier(), false);
    for (_, evidence) in &mut saved {
        *evidence = None;
    }
    let both = restored(&ends, &pair, &saved, &verifier(), false);
    assert_eq!(both, [(None, Err(RestoreError::PeerNotAccepted)); 2]);
}

#[test]
fn a_raw_key_is_restored_as_long_as_it_is_pinned() {
    let ends = Ends::new();
    let (client, server) = (ends.client.hash(), ends.server.hash());
    let both = || Trust::new().with_accepted_keys([client, server]);
    let (pair, saved) = saved(&ends, ends.verifier(both(), NOW), true);
    assert!(saved.iter().all(|(_, evidence)| evidence.is_none()), "a pin needs none");
    let refused = Err(RestoreError::PeerNotAccepted);
    for (trust, [at_client, at_server]) in [
        (both(), [Ok(()), Ok(())]),
        (Trust::new().with_accepted_keys([server]), [Ok(()), refused]),
        (Trust::new().with_accepted_keys([client]), [refused, Ok(())]),
    ] {
        let verifier = ends.verifier(trust, NOW);
        let both = restored(&ends, &pair, &saved, &verifier, true);
        assert_eq!(both, [(None, at_client), (None, at_server)]);
    }
}

#[test]
fn a_client_that_wants_another_server_does_not_go_on_with_this_one() {
    let ends = Ends::new();
    let verifier = ends.verifier(trusting(&ends.ca), NOW);
    let (pair, saved) = saved(&ends, Arc::clone(&verifier), false);
    let mut client = ends.configs(&verifier, false).client;
    client.server_name = Some("other.example".into());
    let restored = Connection::restore(client.config(), &saved[0].0, pair.now, Random::insecure(1));
    assert_eq!(restored.map(drop), Err(RestoreError::PeerNotAccepted));
}
