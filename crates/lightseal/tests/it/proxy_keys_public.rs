//! Public keys and names of certificates that a server proxy looks up one by one.

use crate::dtls_clients::{Client, Service, VERSIONS};
use crate::program::{Running, eventually, fails};
use crate::proxy_credentials::Files;
use crate::proxy_keys::Source;
use crate::proxy_state::Place;
use lightseal_dtls::{CertifiedKey, ProtocolVersion};
use lightseal_dtls_aws_lc::PROVIDER;
use lightseal_pki::SpkiHash;
use lightseal_pki::file::CredentialForm;

/// Clients with public keys, and a server that they know.
pub(crate) struct Peers {
    files: Files,
    server: (String, SpkiHash),
    /// The key of each client, and its identity in the form of access lists.
    clients: Vec<(String, String)>,
}

impl Peers {
    /// Clients of which `raw` have a raw public key, and a last one a certificate.
    pub(crate) fn new(raw: u64) -> Self {
        let files = Files::new();
        let (server, pin) = files.raw("server-raw");
        let mut clients: Vec<_> = (0..raw).map(|n| files.raw(&format!("device-{n}"))).collect();
        let certificate = files.issue("meter", "root", "client", "meter.example");
        clients.push((certificate, "subject:meter.example".to_owned()));
        Self { files, server: (server, pin.parse().unwrap()), clients }
    }

    pub(crate) fn identity(&self, client: u64) -> &str {
        &self.clients[client as usize].1
    }

    pub(crate) fn client(&self, place: &Place, client: u64, version: ProtocolVersion) -> Client {
        let form: CredentialForm = self.clients[client as usize].0.parse().unwrap();
        let key: CertifiedKey = form.key_files().unwrap().load(&PROVIDER).unwrap();
        Client::with_key(client, place.listen.parse().unwrap(), version, key, self.server.1)
    }

    /// Such a client with an association, as soon as it is let in. In DTLS 1.3 it is connected before it
    /// hears that it is not.
    pub(crate) fn connected(&self, place: &Place, client: u64, version: ProtocolVersion) -> Client {
        eventually(|| {
            let mut client = self.client(place, client, version);
            client.until(|client| client.closed + client.handshakes > 0);
            if client.closed == 0 {
                client.send();
                client.until(|client| client.closed > 0 || !client.received.is_empty());
            }
            (client.closed == 0).then_some(client)
        })
    }

    /// A proxy that lets in whom the source lets in.
    pub(crate) fn start(&self, source: &Source, place: &Place, service: &Service) -> Running {
        let ([flag, value], root) = (source.peer_flag(), self.files.root());
        let flags = ["--credential", &self.server.0, "--ca", &root, &flag, &value];
        place.start(&service.address(), &flags)
    }
}

#[test]
fn a_client_that_is_not_let_in_any_more_ends_and_the_others_go_on() {
    for source in Source::all() {
        for (version_name, version) in VERSIONS {
            let what = format!("{}, DTLS {version_name}", source.peer_flag()[0]);
            let (peers, place, service) = (Peers::new(3), Place::new(0), Service::start());
            // The last raw key is not let in.
            [0, 1, 3].into_iter().for_each(|n| source.let_in(peers.identity(n)));
            let mut proxy = peers.start(&source, &place, &service);
            let mut clients = [0, 1, 3].map(|n| peers.client(&place, n, version));
            clients.iter_mut().for_each(Client::connect);
            clients.iter_mut().for_each(Client::echo);
            let mut stranger = peers.client(&place, 2, version);
            stranger.until(|stranger| stranger.closed == 1);
            let line = proxy.wait_for("is not let in by --allow-");
            assert!(line.contains(peers.identity(2)), "{what}: {line}");
            // A raw key and a name.
            for ended in [0, 2] {
                source.turn_away(peers.identity(clients[ended].number));
                clients[ended].until(|client| client.closed == 1);
            }
            clients[1].echo();
            assert_eq!((clients[1].handshakes, clients[1].closed), (1, 0), "{what}");
            let keys = place.statistics(&proxy)["keys"].clone();
            assert_eq!((&keys["revoked"], &keys["in_use"]), (&2.into(), &1.into()), "{keys:#}");
            source.let_in(peers.identity(0));
            peers.connected(&place, 0, version);
            proxy.signal("TERM");
            assert_eq!(proxy.wait(), Some(0), "{what}");
        }
    }
}

#[test]
fn stored_associations_of_public_keys_are_looked_up_and_wait_while_the_source_is_away() {
    let Some(mut source) = Source::table() else { return };
    let (peers, place, service) = (Peers::new(2), Place::new(0), Service::start());
    (0..3).for_each(|n| source.let_in(peers.identity(n)));
    let mut proxy = peers.start(&source, &place, &service);
    let version = ProtocolVersion::Dtls13;
    let mut clients = [0, 1, 2].map(|n| peers.client(&place, n, version));
    clients.iter_mut().for_each(Client::connect);
    clients.iter_mut().for_each(Client::echo);
    proxy.signal("KILL");
    proxy.wait();
    source.turn_away(peers.identity(1));
    proxy = peers.start(&source, &place, &service);
    for number in [0, 2] {
        clients[number].echo();
        assert_eq!((clients[number].handshakes, clients[number].closed), (1, 0));
    }
    let state = place.statistics(&proxy)["state"].clone();
    let refused = serde_json::json!({ "the peer is not accepted any more": 1 });
    assert_eq!((&state["restored"], &state["refused"]), (&2.into(), &refused), "{state:#}");
    // While the source is away, associations go on, and a client waits.
    source.go();
    proxy.wait_for("no association begins until it answers");
    clients[0].echo();
    let mut waiting = peers.client(&place, 0, version);
    for _ in 0..200 {
        waiting.turn();
    }
    assert_eq!(place.statistics(&proxy)["endpoint"]["refused"], 0);
    assert_eq!(place.statistics(&proxy)["flows"]["opened"], 0);
    let gone = peers.identity(2).to_owned();
    source.come_back(&gone, |source| source.turn_away(&gone));
    clients[2].until(|client| client.closed == 1);
    waiting.connect();
    waiting.echo();
    assert_eq!((waiting.handshakes, waiting.closed, clients[0].closed), (1, 0, 0));
}

#[test]
fn clients_that_are_looked_up_have_to_prove_who_they_are() {
    let source = Source::directory();
    let ([flag, value], files) = (source.peer_flag(), Files::new());
    let (key, _) = files.raw("server-raw");
    let server = ["proxy", "server", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
    let looked_up = [&server[..], &[&flag, &value]].concat();
    fails(&[&looked_up[..], &["--psk-file", "keys"]].concat(), &["keys"]);
    fails(&looked_up, &["--allow-", "need a --credential"]);
    let anonymous = ["--credential", &key, "--anonymous-clients"];
    fails(&[&looked_up[..], &anonymous].concat(), &["refuse clients that prove no identity"]);
}
