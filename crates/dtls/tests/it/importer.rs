//! External PSKs that are imported for DTLS 1.3 (RFC 9258).

use lightseal_dtls::codepoints::{AlertDescription, PskKeyExchangeMode};
use lightseal_dtls::{
    CloseReason, ConfigError, Fault, Incompatibility, Lookup, ProtocolVersion, Psk, PskStore,
};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{Configs, Direction, Pair, client_address};

const CONTEXT: &[u8] = b"client: sensor 7, server: hub";
const KEY: [u8; 32] = [0x2a; 32];

fn imported(context: &[u8]) -> Psk {
    Psk::imported(b"sensor 7", &KEY, context).unwrap()
}

fn external() -> Psk {
    Psk::external(b"sensor 7", &KEY).unwrap()
}

/// A handshake between a client with this PSK and a server with these.
fn handshake(
    client: Psk,
    server: Arc<dyn PskStore>,
    change: impl Fn(&mut Configs),
) -> Pair<'static> {
    let mut configs = Configs::new();
    configs.client.psk = Some(client);
    configs.server.psks = server;
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.handshake_deadline = Duration::from_secs(30);
    }
    change(&mut configs);
    let mut pair = configs.pair(7);
    pair.connect();
    pair
}

#[track_caller]
fn assert_works(mut pair: Pair<'_>) -> Pair<'_> {
    pair.assert_connected();
    for agreed in [&pair.at_client.connected, &pair.at_server.connected] {
        let agreed = agreed.as_ref().unwrap();
        assert_eq!(agreed.psk_identity, b"sensor 7", "the application sees the external identity");
    }
    pair.client_send(b"23.5 C");
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.at_server.data, [b"23.5 C"]);
    pair
}

#[track_caller]
fn assert_refused(pair: &Pair<'_>, because: Fault) {
    assert!(pair.at_client.connected.is_none() && pair.at_server.connected.is_none());
    assert_eq!(pair.server.stats().last_refusal, Some((client_address(), because)));
    let alert = match because {
        Fault::Incompatible(_) => AlertDescription::UNKNOWN_PSK_IDENTITY,
        _ => AlertDescription::DECRYPT_ERROR,
    };
    assert_eq!(pair.at_client.closed, Some(CloseReason::PeerAlert(alert)));
}

fn contains(pair: &Pair<'_>, bytes: &[u8]) -> bool {
    let to_server = pair.log.iter().filter(|(to, _)| *to == Direction::ToServer);
    to_server.into_iter().any(|(_, data)| data.windows(bytes.len()).any(|part| part == bytes))
}

#[test]
fn both_ends_import_the_key_in_either_mode() {
    for mode in [PskKeyExchangeMode::PSK_KE, PskKeyExchangeMode::PSK_DHE_KE] {
        for context in [&b""[..], CONTEXT] {
            let pair = handshake(imported(context), Arc::new(imported(context)), |configs| {
                configs.client.settings.psk_modes = vec![mode];
            });
            let pair = assert_works(pair);
            // RFC 9258, section 5.1: protocol 0xfefc and KDF 1 follow identity and context.
            let [high, low] = (context.len() as u16).to_be_bytes();
            let identity =
                [&b"\x00\x08sensor 7"[..], &[high, low], context, &[0xfe, 0xfc, 0, 1]].concat();
            assert!(contains(&pair, &identity));
        }
    }
}

#[test]
fn another_context_is_another_key() {
    let pair = handshake(imported(b"client: hub"), Arc::new(imported(CONTEXT)), |_| {});
    assert_refused(&pair, Incompatibility::UnknownIdentity.into());
}

#[test]
fn a_server_accepts_only_the_form_that_it_has() {
    let pair = handshake(external(), Arc::new(imported(CONTEXT)), |_| {});
    assert_refused(&pair, Incompatibility::UnknownIdentity.into());
    let pair = handshake(imported(CONTEXT), Arc::new(external()), |_| {});
    assert_refused(&pair, Incompatibility::UnknownIdentity.into());
}

#[test]
fn a_server_can_have_both_forms_of_one_key() {
    for psks in [vec![imported(CONTEXT), external()], vec![external(), imported(CONTEXT)]] {
        for client in [imported(CONTEXT), external()] {
            assert_works(handshake(client, Arc::new(psks.clone()), |_| {}));
        }
        let pair = handshake(imported(b"other"), Arc::new(psks), |_| {});
        assert_refused(&pair, Incompatibility::UnknownIdentity.into());
    }
}

/// The binders of the two forms differ, so that nobody passes off one as the other.
#[test]
fn an_external_psk_with_the_identity_and_key_of_an_imported_one_is_another_psk() {
    use lightseal_dtls::credential::imported::ImportedIdentity;
    use lightseal_dtls::crypto::HashAlgorithm;
    let identity = ImportedIdentity::new(b"sensor 7", CONTEXT, HashAlgorithm::Sha256);
    let key = identity.import(&KEY, HashAlgorithm::Sha256);
    let client = Psk::external(&identity.to_bytes(), &key).unwrap();
    let pair = handshake(client, Arc::new(imported(CONTEXT)), |_| {});
    let wrong = lightseal_dtls::Misbehaviour::WrongBinder;
    assert_refused(&pair, wrong.into());
}

/// RFC 9258, section 7: PSKs are not imported for DTLS 1.2.
#[test]
fn in_dtls_12_the_key_is_used_as_it_is() {
    let only_12 = |configs: &mut Configs| {
        configs.client.settings.versions = vec![ProtocolVersion::Dtls12];
    };
    assert_works(handshake(imported(CONTEXT), Arc::new(imported(CONTEXT)), only_12));
    assert_works(handshake(external(), Arc::new(imported(CONTEXT)), only_12));
    assert_works(handshake(imported(CONTEXT), Arc::new(external()), only_12));
}

/// A store whose answer comes later, and which has only one form of each PSK.
#[derive(Default)]
struct Late(std::sync::atomic::AtomicBool);

impl PskStore for Late {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        match self.0.load(std::sync::atomic::Ordering::Relaxed) {
            _ if identity != b"sensor 7" => Lookup::Unknown,
            false => Lookup::Later,
            true => Lookup::Found(imported(CONTEXT)),
        }
    }
}

#[test]
fn imported_keys_may_be_looked_up_later() {
    let store = Arc::new(Late::default());
    let mut configs = Configs::new();
    configs.client.psk = Some(imported(CONTEXT));
    configs.server.psks = Arc::clone(&store) as Arc<dyn PskStore>;
    let mut pair = configs.pair(8);
    pair.run_for(Duration::from_millis(500));
    assert_eq!(pair.server.waiting_for_lookups(), 1);
    store.0.store(true, std::sync::atomic::Ordering::Relaxed);
    pair.server.lookups_answered(pair.now);
    pair.connect();
    assert_works(pair);
}

#[test]
fn contexts_and_identities_have_their_lengths() {
    let longest = Psk::imported(&[b'i'; 256], &KEY, &[b'c'; 512]).unwrap();
    let pair = handshake(longest.clone(), Arc::new(longest), |_| {});
    pair.assert_connected();
    let too_long = Psk::imported(b"i", &KEY, &[b'c'; 513]).map(drop);
    assert_eq!(too_long, Err(ConfigError::PskContextLength(513)));
    assert_eq!(Psk::imported(b"", &KEY, b"").map(drop), Err(ConfigError::PskIdentityLength(0)));
    assert_eq!(Psk::imported(b"i", &[1; 15], b"").map(drop), Err(ConfigError::PskLength(15)));
    assert_eq!(imported(CONTEXT).context(), Some(CONTEXT));
    assert_eq!(external().context(), None);
}
