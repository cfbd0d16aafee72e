//! Tickets of handshakes with certificates.

use super::*;
use crate::certificates12_sessions::ServerOf;
use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::{
    CertifiedKey, ClientAuthentication, KeyStore, Negotiated, PinnedKeys, ProtocolVersion,
};
use testkit::toy_signature::{PROVIDER, ToyKey, ToyVerifier};

const NAME: &str = "server.example";

fn server_keys() -> Arc<dyn KeyStore> {
    Arc::new(ToyKey::new(1).x509(NAME, 2))
}

fn client_key() -> CertifiedKey {
    ToyKey::new(2).raw()
}

fn pinned(numbers: &[u8]) -> Arc<PinnedKeys> {
    Arc::new(PinnedKeys::new(numbers.iter().map(|n| ToyKey::new(*n).pin()).collect()))
}

/// Both ends have certificates: the server an X.509 one, the client a pinned raw key.
fn mutual(keys: &Arc<dyn KeyStore>) -> Configs {
    let mut configs = Configs::new();
    configs.client = client(keys, None);
    configs.server.settings.provider = &PROVIDER;
    configs.server.keys = Some(server_keys());
    configs.server.clients = ClientAuthentication::Required(pinned(&[2]));
    configs
}

fn client(keys: &Arc<dyn KeyStore>, session: Option<&Session>) -> ClientParts {
    let mut client = Configs::new().client;
    client.psk = None;
    client.settings.provider = &PROVIDER;
    client.settings.versions = vec![ProtocolVersion::Dtls13];
    client.verifier = Some(Arc::new(ToyVerifier::new(&[CertificateType::X509])));
    client.server_name = Some(NAME.into());
    client.keys = Some(Arc::clone(keys));
    client.session = session.cloned();
    client
}

fn agreed(pair: &Pair<'_>) -> [Negotiated; 2] {
    [&pair.at_client, &pair.at_server].map(|end| end.connected.clone().unwrap())
}

fn is_resumed(pair: &Pair<'_>) -> bool {
    let [client, server] = agreed(pair);
    assert_eq!(client.resumed, server.resumed);
    assert_eq!(client.peer_key().unwrap().spki_sha256, ToyKey::new(1).pin());
    assert_eq!(client.peer_key().unwrap().name.as_deref(), Some(NAME));
    assert_eq!(server.peer_key().unwrap().spki_sha256, ToyKey::new(2).pin());
    assert_eq!(server.server_name(), Some(NAME));
    assert!(client.psk_identity.is_empty() && server.psk_identity.is_empty());
    client.resumed
}

fn with_sessions(keys: &Arc<dyn KeyStore>) -> (Pair<'static>, [Session; 2]) {
    let mut pair = mutual(keys).pair(1);
    pair.connect().assert_connected();
    assert!(!is_resumed(&pair));
    let sessions = [(); 2].map(|()| pair.client.take_session().expect("two by default"));
    (pair, sessions)
}

#[test]
fn peers_and_names_are_carried_on() {
    let keys: Arc<dyn KeyStore> = Arc::new(client_key());
    let (mut pair, [one, other]) = with_sessions(&keys);
    let next = again(&mut pair, client(&keys, Some(&one)));
    assert!(is_resumed(&next));
    // It takes fewer bytes than a handshake with certificates.
    let bytes = |pair: &Pair<'_>| pair.log.iter().map(|(_, data)| data.len()).sum::<usize>();
    let full = again(&mut pair, client(&keys, Some(&one)));
    assert!(!is_resumed(&full), "it was used");
    assert!(bytes(&next) < bytes(&full));
    assert!(is_resumed(&again(&mut pair, client(&keys, Some(&other)))));
}

#[test]
fn a_client_whose_key_is_accepted_no_more_resumes_nothing() {
    let keys: Arc<dyn KeyStore> = Arc::new(client_key());
    let (mut pair, [session, _]) = with_sessions(&keys);
    let mut config = mutual(&keys).server;
    config.clients = ClientAuthentication::Required(pinned(&[7]));
    pair.server.set_config(config.config()).unwrap();
    let mut next = begin(&mut pair, client(&keys, Some(&session)));
    next.run_for(Duration::from_secs(61));
    assert!(next.at_server.connected.is_none());
}

#[test]
fn a_server_that_asks_for_keys_resumes_no_anonymous_client() {
    let keys: Arc<dyn KeyStore> = Arc::new(client_key());
    let mut configs = mutual(&keys);
    configs.server.clients = ClientAuthentication::Off;
    let mut pair = configs.pair(2);
    pair.connect().assert_connected();
    let session = pair.client.take_session().unwrap();
    assert!(agreed(&pair)[1].peer_key().is_none());
    pair.server.set_config(mutual(&keys).server.config()).unwrap();
    assert!(!is_resumed(&again(&mut pair, client(&keys, Some(&session)))));
}

#[test]
fn a_client_with_other_keys_or_another_name_does_not_offer_the_session() {
    let keys: Arc<dyn KeyStore> = Arc::new(client_key());
    let (mut pair, [session, _]) = with_sessions(&keys);
    let same: Arc<dyn KeyStore> = Arc::new(client_key());
    assert!(!is_resumed(&again(&mut pair, client(&same, Some(&session)))), "another store");
    let mut none = client(&keys, Some(&session));
    none.server_name = None;
    let next = again(&mut pair, none);
    assert!(!agreed(&next)[0].resumed);
    assert!(is_resumed(&again(&mut pair, client(&keys, Some(&session)))));
}

#[test]
fn a_client_with_a_ticket_and_a_psk_offers_the_ticket_first() {
    let keys: Arc<dyn KeyStore> = Arc::new(client_key());
    let (mut pair, [session, _]) = with_sessions(&keys);
    let both = |session: Option<&Session>| {
        let mut both = client(&keys, session);
        both.psk = Some(psk());
        both
    };
    assert!(is_resumed(&again(&mut pair, both(Some(&session)))));
    // The ticket is used; the server takes the PSK that it knows, without certificates.
    let next = again(&mut pair, both(Some(&session)));
    let [client, server] = agreed(&next);
    assert!(!client.resumed && client.psk_identity == psk().identity());
    assert!(server.peer_key().is_none());
    // A server that knows neither proves its identity with a certificate.
    let mut config = mutual(&keys).server;
    config.psks = Arc::new(vec![]);
    pair.server.set_config(config.config()).unwrap();
    assert!(!is_resumed(&again(&mut pair, both(Some(&session)))));
}

/// RFC 6066, section 3: the server confirms the name in a whole handshake only. In the server's
/// flight, which is encrypted, the confirmation takes four bytes.
#[test]
fn the_server_s_name_is_not_confirmed_when_a_session_is_resumed() {
    let keys: Arc<dyn KeyStore> = Arc::new(client_key());
    let flight = |pair: &Pair<'_>| {
        let mut to_client = pair.log.iter().filter(|(way, _)| *way == Direction::ToClient);
        to_client.nth(1).expect("the flight after the HelloRetryRequest").1.len()
    };
    let [named, nameless] = [true, false].map(|is_named| {
        let named = |mut client: ClientParts| {
            client.server_name = client.server_name.filter(|_| is_named);
            client
        };
        let mut configs = mutual(&keys);
        configs.server.keys = Some(Arc::new(ServerOf(ToyKey::new(1).x509(NAME, 0))));
        configs.client = named(configs.client);
        let mut pair = configs.pair(1);
        pair.connect().assert_connected();
        let session = pair.client.take_session().unwrap();
        let next = again(&mut pair, named(client(&keys, Some(&session))));
        assert!(agreed(&next)[0].resumed && !agreed(&pair)[0].resumed);
        [flight(&pair), flight(&next)]
    });
    assert_eq!(named[0], nameless[0] + 4);
    assert_eq!(named[1], nameless[1]);
}

/// A server that resumes only with a key exchange gives no tickets to a client that cannot.
#[test]
fn no_ticket_is_given_that_could_not_be_resumed() {
    let keys: Arc<dyn KeyStore> = Arc::new(client_key());
    for (mode, tickets) in [(PskKeyExchangeMode::PSK_KE, 0), (PskKeyExchangeMode::PSK_DHE_KE, 2)] {
        let mut configs = mutual(&keys);
        configs.server.settings.psk_modes = vec![PskKeyExchangeMode::PSK_DHE_KE];
        configs.client.settings.psk_modes = vec![mode];
        let mut pair = configs.pair(3);
        pair.connect().assert_connected();
        pair.run_for(Duration::from_secs(2));
        let received = std::iter::from_fn(|| pair.client.take_session()).count();
        assert_eq!(received, tickets, "{mode}");
    }
}
