//! TLS 1.3 between two keys: raw public keys in both directions (RFC 7250), without certificates.

use crate::ErrorLine;
use crate::identity::{Identity, PublicKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, CommonState, DigitallySignedStruct,
    DistinguishedName, Error, PeerIncompatible, ServerConfig, SignatureScheme,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_rustls::TlsStream;
use zeroize::Zeroizing;

/// The protocol above TLS and its version, for ALPN (RFC 7301).
const ALPN: &[u8] = b"lightseal-gateway/1";
/// The exporter label of the tunnel's secret (RFC 8446, section 7.5).
const EXPORTER: &[u8] = b"EXPORTER-lightseal-tunnel";
/// The bytes before an Ed25519 public key in a SubjectPublicKeyInfo (RFC 8410, section 4).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The bytes before a seed in a PrivateKeyInfo (RFC 8410, section 7).
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// What all connections of this gateway share.
pub(super) struct Credentials {
    own: PublicKey,
    key: Arc<CertifiedKey>,
    provider: Arc<CryptoProvider>,
    accept: Arc<ServerConfig>,
}

impl Credentials {
    pub(super) fn new(
        identity: &Identity,
        peers: impl Iterator<Item = PublicKey>,
    ) -> Result<Self, ErrorLine> {
        let failed = |error: Error| ErrorLine::of("TLS", error);
        let provider = Arc::new(CryptoProvider {
            kx_groups: vec![aws_lc_rs::kx_group::X25519MLKEM768],
            ..aws_lc_rs::default_provider()
        });
        let mut der = Zeroizing::new([0; 48]);
        der[..16].copy_from_slice(&PKCS8);
        der[16..].copy_from_slice(identity.seed());
        let key = aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&der[..]));
        let own = identity.public_key();
        let public = CertificateDer::from(spki(&own));
        let key = Arc::new(CertifiedKey::new(vec![public], key.map_err(failed)?));
        let one_of = AllowedKeys { peers: peers.collect(), algorithms: algorithms(&provider) };
        let accept = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(failed)?
            .with_client_cert_verifier(Arc::new(one_of))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&key))));
        let mut accept = accept;
        accept.alpn_protocols = vec![ALPN.to_vec()];
        // No session is resumed, so every connection has its own key exchange.
        accept.session_storage = Arc::new(NoServerSessionStorage {});
        accept.send_tls13_tickets = 0;
        Ok(Self { own, key, provider, accept: Arc::new(accept) })
    }

    /// The public key of this gateway.
    pub(super) const fn own(&self) -> PublicKey {
        self.own
    }

    /// The configuration for incoming connections.
    pub(super) fn accepting(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.accept)
    }

    /// The configuration for connections to this peer, which accepts no other peer.
    pub(super) fn dialling(&self, peer: PublicKey) -> Result<Arc<ClientConfig>, Error> {
        let one =
            AllowedKeys { peers: BTreeSet::from([peer]), algorithms: algorithms(&self.provider) };
        let resolver = AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&self.key));
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(one))
            .with_client_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Arc::new(config))
    }
}

/// A placeholder name, which is never sent.
pub(super) fn placeholder_name() -> ServerName<'static> {
    ServerName::from(std::net::IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED))
}

fn spki(key: &PublicKey) -> Vec<u8> {
    [&SPKI[..], key.as_bytes()].concat()
}

/// The key in a SubjectPublicKeyInfo, if it is an Ed25519 key.
fn from_spki(der: &[u8]) -> Option<PublicKey> {
    let key = der.strip_prefix(&SPKI)?;
    PublicKey::from_bytes(key.try_into().ok()?)
}

fn algorithms(provider: &CryptoProvider) -> WebPkiSupportedAlgorithms {
    provider.signature_verification_algorithms
}

/// The public key of the other end, after the handshake.
pub(super) fn peer_of<IO>(stream: &TlsStream<IO>) -> Option<PublicKey> {
    let state: &CommonState = stream.get_ref().1;
    // Without this ALPN identifier the other end speaks another protocol.
    (state.alpn_protocol() == Some(ALPN)).then_some(())?;
    match state.peer_certificates()? {
        [only] => from_spki(only),
        _ => None,
    }
}

/// The tunnel's secret R of this connection, which is the same at both ends.
pub(super) fn exporter<IO>(
    stream: &TlsStream<IO>,
    ends: [PublicKey; 2],
) -> Result<Zeroizing<[u8; 32]>, Error> {
    let mut ends = ends;
    ends.sort();
    let context = ends.map(|key| *key.as_bytes()).concat();
    let secret = Zeroizing::new([0; 32]);
    match stream {
        TlsStream::Client(s) => {
            s.get_ref().1.export_keying_material(secret, EXPORTER, Some(&context))
        }
        TlsStream::Server(s) => {
            s.get_ref().1.export_keying_material(secret, EXPORTER, Some(&context))
        }
    }
}

/// The text of a TLS error for administrators.
pub(super) fn describe_error(error: &std::io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match tls {
        Some(Error::InvalidCertificate(_)) => {
            "the peer has another key than the configured one".into()
        }
        Some(Error::AlertReceived(
            AlertDescription::AccessDenied
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA,
        )) => "the peer does not know our key".into(),
        Some(Error::PeerIncompatible(
            PeerIncompatible::NoKxGroupsInCommon | PeerIncompatible::NamedGroupsExtensionRequired,
        )) => "the peer does not offer the key exchange X25519MLKEM768".into(),
        Some(Error::AlertReceived(AlertDescription::HandshakeFailure)) => {
            "the peer does not accept the key exchange X25519MLKEM768, or anything else we offer"
                .into()
        }
        Some(error) => format!("TLS: {error}"),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the peer closed the connection during TLS".into()
        }
        None => error.to_string(),
    }
}

/// A verifier that accepts the keys of certain peers, and nothing else.
#[derive(Debug)]
struct AllowedKeys {
    peers: BTreeSet<PublicKey>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AllowedKeys {
    fn check(&self, key: &[u8], more: &[CertificateDer<'_>]) -> Result<(), Error> {
        match from_spki(key) {
            Some(key) if self.peers.contains(&key) && more.is_empty() => Ok(()),
            _ => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }
}

/// What the verifiers of clients and of servers have in common.
macro_rules! answers_of_both_sides {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2 is not supported".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for AllowedKeys {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key, more).map(|()| ServerCertVerified::assertion())
    }

    answers_of_both_sides!();
}

impl ClientCertVerifier for AllowedKeys {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key, more).map(|()| ClientCertVerified::assertion())
    }

    answers_of_both_sides!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_are_exchanged_in_a_way_that_quantum_computers_do_not_open() {
        let [a, b] = [1, 2].map(|seed| Identity::from_seed(Zeroizing::new([seed; 32])));
        let (ka, kb) = (a.public_key(), b.public_key());
        let left = Credentials::new(&a, [kb].into_iter()).unwrap();
        let right = Credentials::new(&b, [ka].into_iter()).unwrap();
        let (one, other) = tokio::io::duplex(65_536);
        let dial = tokio_rustls::TlsConnector::from(left.dialling(kb).unwrap());
        let accept = tokio_rustls::TlsAcceptor::from(right.accepting());
        let (one, other) =
            tokio::join!(dial.connect(placeholder_name(), one), accept.accept(other));
        let (one, other) = (TlsStream::from(one.unwrap()), TlsStream::from(other.unwrap()));
        let group = one.get_ref().1.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(group, rustls::NamedGroup::X25519MLKEM768);
        assert_eq!((peer_of(&one), peer_of(&other)), (Some(kb), Some(ka)));
        assert_eq!(exporter(&one, [ka, kb]).unwrap(), exporter(&other, [kb, ka]).unwrap());
    }

    /// Connects this gateway with a peer that supports only these groups, once with the peer
    /// dialling and once with this gateway dialling. Returns this gateway's error for each, or an
    /// empty string.
    async fn against(groups: &[&'static dyn rustls::crypto::SupportedKxGroup]) -> [String; 2] {
        let [a, b] = [1, 2].map(|seed| Identity::from_seed(Zeroizing::new([seed; 32])));
        let (ka, kb) = (a.public_key(), b.public_key());
        let own = Credentials::new(&a, [kb].into_iter()).unwrap();
        let mut other = Credentials::new(&b, [ka].into_iter()).unwrap();
        let provider =
            CryptoProvider { kx_groups: groups.to_vec(), ..aws_lc_rs::default_provider() };
        other.provider = Arc::new(provider);
        let (one, far) = tokio::io::duplex(65_536);
        let dial = tokio_rustls::TlsConnector::from(other.dialling(ka).unwrap());
        let accept = tokio_rustls::TlsAcceptor::from(own.accepting());
        let (_, accepted) = tokio::join!(dial.connect(placeholder_name(), one), accept.accept(far));
        let (one, far) = tokio::io::duplex(65_536);
        let accepting = ServerConfig::builder_with_provider(Arc::clone(&other.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(Arc::new(AllowedKeys {
                peers: BTreeSet::from([ka]),
                algorithms: algorithms(&other.provider),
            }))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(
                &other.key,
            ))));
        let dial = tokio_rustls::TlsConnector::from(own.dialling(kb).unwrap());
        let accept = tokio_rustls::TlsAcceptor::from(Arc::new(accepting));
        let (dialled, _) = tokio::join!(dial.connect(placeholder_name(), one), accept.accept(far));
        let said = |ended: Result<(), std::io::Error>| {
            ended.map_or_else(|e| describe_error(&e), |()| "".into())
        };
        [said(accepted.map(drop)), said(dialled.map(drop))]
    }

    #[tokio::test]
    async fn a_peer_without_the_hybrid_key_exchange_is_refused_and_told_why() {
        use aws_lc_rs::kx_group::{SECP256R1, SECP384R1, X25519, X25519MLKEM768};
        assert_eq!(against(&[X25519, X25519MLKEM768]).await, ["", ""]);
        for said in against(&[X25519, SECP256R1, SECP384R1]).await {
            assert!(said.contains("key exchange X25519MLKEM768"), "{said}");
        }
    }

    #[test]
    fn only_ed25519_is_a_key() {
        let key = Identity::from_seed(Zeroizing::new([1; 32])).public_key();
        let der = spki(&key);
        assert_eq!(from_spki(&der), Some(key));
        for len in 0..der.len() {
            assert_eq!(from_spki(&der[..len]), None);
        }
        let mut other = der;
        other[8] = 0x6e; // X25519
        assert_eq!(from_spki(&other), None);
    }
}
