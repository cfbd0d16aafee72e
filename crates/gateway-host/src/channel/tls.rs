//! TLS 1.3 between two gateways, each with a raw public key (RFC 7250) or a certificate.

use crate::ErrorLine;
use crate::credential::{Credential, Kind, KnownBy, Trust};
use crate::identity::Identity;
use lightseal_dtls::BadCertificate;
use lightseal_dtls::crypto::Signing;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    AlwaysResolvesServerRawPublicKeys, CertificateType, ClientHello, NoServerSessionStorage,
    ResolvesServerCert,
};
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, CommonState, DigitallySignedStruct,
    DistinguishedName, Error, OtherError, PeerIncompatible, ServerConfig, SignatureAlgorithm,
    SignatureScheme,
};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tokio_rustls::TlsStream;
use zeroize::Zeroizing;

/// The protocol above TLS and its version, for ALPN (RFC 7301).
const ALPN: &[u8] = b"lightseal-gateway/1";
/// The exporter label of the tunnel's secret (RFC 8446, section 7.5).
const EXPORTER: &[u8] = b"EXPORTER-lightseal-tunnel";
/// The bytes before a seed in a PrivateKeyInfo (RFC 8410, section 7).
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// What all connections of this gateway share.
pub(super) struct Credentials {
    own: KnownBy,
    key: Arc<CertifiedKey>,
    provider: Arc<CryptoProvider>,
    trust: Option<Trust>,
    /// The configurations for peers that dial and have raw public keys, and for those that have
    /// certificates.
    accept_raw: Arc<ServerConfig>,
    accept_certificates: Option<Arc<ServerConfig>>,
}

impl Credentials {
    pub(super) fn new(
        credential: &Credential,
        trust: Option<Trust>,
        peers: impl Iterator<Item = KnownBy>,
    ) -> Result<Self, ErrorLine> {
        let failed = |error: Error| ErrorLine::of("TLS", error);
        let provider = Arc::new(CryptoProvider {
            kx_groups: vec![aws_lc_rs::kx_group::X25519MLKEM768],
            ..aws_lc_rs::default_provider()
        });
        let own = credential.known_by();
        let key = match credential.kind() {
            Kind::Ed25519(identity) => ed25519(identity).map_err(failed)?,
            Kind::Files(key, _) => {
                let entries = match own.is_raw() {
                    true => vec![CertificateDer::from(key.key().public_key().to_vec())],
                    false => key.entries().iter().cloned().map(CertificateDer::from).collect(),
                };
                CertifiedKey::new(entries, Arc::new(FileKey(key.clone())))
            }
        };
        let key = Arc::new(key);
        let peers: BTreeSet<KnownBy> = peers.collect();
        let accepting = |trust: Option<&Trust>| {
            let verifier = PeerVerifier::new(peers.clone(), trust.cloned(), &provider);
            let resolver: Arc<dyn ResolvesServerCert> = match own.is_raw() {
                true => Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&key))),
                false => Arc::new(SingleCertAndKey::from(Arc::clone(&key))),
            };
            let mut accept = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&[&rustls::version::TLS13])
                .map_err(failed)?
                .with_client_cert_verifier(Arc::new(verifier))
                .with_cert_resolver(resolver);
            accept.alpn_protocols = vec![ALPN.to_vec()];
            // No session is resumed, so every connection has its own key exchange.
            accept.session_storage = Arc::new(NoServerSessionStorage {});
            accept.send_tls13_tickets = 0;
            Ok::<_, ErrorLine>(Arc::new(accept))
        };
        let accept_raw = accepting(None)?;
        let accept_certificates = trust.as_ref().map(|trust| accepting(Some(trust))).transpose()?;
        Ok(Self { own, key, provider, trust, accept_raw, accept_certificates })
    }

    /// What this gateway is known by.
    pub(super) const fn own(&self) -> &KnownBy {
        &self.own
    }

    /// The configuration for an incoming connection that begins with this hello, and whether the
    /// peer shows a raw public key.
    pub(super) fn accepting(&self, hello: &ClientHello<'_>) -> (Arc<ServerConfig>, bool) {
        let kinds = hello.client_cert_types().unwrap_or_default();
        match &self.accept_certificates {
            Some(config) if !kinds.contains(&CertificateType::RawPublicKey) => {
                (Arc::clone(config), false)
            }
            _ => (Arc::clone(&self.accept_raw), true),
        }
    }

    /// The configuration for connections to this peer, which accepts no other peer.
    pub(super) fn dialling(&self, peer: &KnownBy) -> Result<Arc<ClientConfig>, Error> {
        let trust = self.trust.clone().filter(|_| !peer.is_raw());
        let one = PeerVerifier::new(BTreeSet::from([peer.clone()]), trust, &self.provider);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(one));
        let key = Arc::clone(&self.key);
        let mut config = match self.own.is_raw() {
            true => builder
                .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key))),
            false => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Arc::new(config))
    }
}

/// An Ed25519 key as rustls takes it.
fn ed25519(identity: &Identity) -> Result<CertifiedKey, Error> {
    let mut der = Zeroizing::new([0; 48]);
    der[..16].copy_from_slice(&PKCS8);
    der[16..].copy_from_slice(identity.seed());
    let key = aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&der[..]))?;
    let public = CertificateDer::from(identity.public_key().spki());
    Ok(CertifiedKey::new(vec![public], key))
}

/// A key from a file, with which rustls signs.
#[derive(Debug)]
struct FileKey(lightseal_dtls::CertifiedKey);

impl SigningKey for FileKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = self.0.key().schemes().iter().copied();
        let mut scheme = scheme.filter(|own| offered.contains(&SignatureScheme::from(own.0)));
        Some(Box::new(FileSigner { key: self.0.clone(), scheme: scheme.next()? }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(self.0.key().public_key()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        let first = self.0.key().schemes().first();
        match first.map(|scheme| SignatureScheme::from(scheme.0)) {
            Some(SignatureScheme::ED25519) => SignatureAlgorithm::ED25519,
            Some(
                SignatureScheme::ECDSA_NISTP256_SHA256 | SignatureScheme::ECDSA_NISTP384_SHA384,
            ) => SignatureAlgorithm::ECDSA,
            _ => SignatureAlgorithm::RSA,
        }
    }
}

#[derive(Debug)]
struct FileSigner {
    key: lightseal_dtls::CertifiedKey,
    scheme: lightseal_dtls::codepoints::SignatureScheme,
}

impl Signer for FileSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = || Error::General("the private key cannot sign".into());
        let mut rng = lightseal_core::Random::from_os().map_err(|_| failed())?;
        match self.key.key().sign(self.scheme, message, &mut rng) {
            Signing::Done(signature) => Ok(signature),
            _ => Err(failed()),
        }
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::from(self.scheme.0)
    }
}

/// A placeholder name, which is never sent.
pub(super) fn placeholder_name() -> ServerName<'static> {
    ServerName::from(std::net::IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED))
}

/// What the other end is known by, after the handshake; `is_raw`: it was asked for a raw public key.
pub(super) fn peer_of<IO>(stream: &TlsStream<IO>, is_raw: bool) -> Option<KnownBy> {
    let state: &CommonState = stream.get_ref().1;
    // Without this ALPN identifier the other end speaks another protocol.
    (state.alpn_protocol() == Some(ALPN)).then_some(())?;
    match (state.peer_certificates()?, is_raw) {
        ([only], true) => Some(KnownBy::raw_key(only)),
        // The verifier has accepted the certificate for the same name.
        ([own, ..], false) => lightseal_pki::Names::of(own).ok()?.identity().map(KnownBy::Subject),
        _ => None,
    }
}

/// The tunnel's secret R of this connection, which is the same at both ends.
pub(super) fn exporter<IO>(
    stream: &TlsStream<IO>,
    ends: [&KnownBy; 2],
) -> Result<Zeroizing<[u8; 32]>, Error> {
    let mut ends = ends.map(|end| end.id().0);
    ends.sort_unstable();
    let context = ends.concat();
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
        Some(Error::InvalidCertificate(CertificateError::Other(OtherError(why)))) => {
            why.to_string()
        }
        Some(Error::InvalidCertificate(_)) => {
            "the peer has another key than the configured one".into()
        }
        Some(Error::PeerIncompatible(
            PeerIncompatible::IncorrectCertificateTypeExtension
            | PeerIncompatible::UnsolicitedCertificateTypeExtension,
        ))
        | Some(Error::AlertReceived(AlertDescription::UnsupportedCertificate)) => OTHER_KIND.into(),
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
            "the peer does not accept the key exchange X25519MLKEM768, the kind of our key or \
             certificate, or anything else we offer"
                .into()
        }
        Some(error) => format!("TLS: {error}"),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the peer closed the connection during TLS".into()
        }
        None => error.to_string(),
    }
}

/// What is said if one end has a raw public key where the other one expects a certificate.
const OTHER_KIND: &str = "one gateway has a raw public key where the other one expects a certificate, \
                          or a certificate where it expects a key";

/// Why a peer is refused whose key or certificate is in order.
#[derive(Debug)]
enum Unexpected {
    /// It is another one than the configured ones.
    Certificate(KnownBy),
    /// A certificate that is not accepted.
    Refused(BadCertificate),
    /// An Ed25519 key, which the configuration must have as `public_key`.
    NamedByHash(KnownBy),
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(known_by) => {
                write!(f, "the peer has another name than the configured one, it is {known_by}")
            }
            Self::Refused(bad) => bad.fmt(f),
            Self::NamedByHash(key) => write!(
                f,
                "the peer has an Ed25519 key: configure it with public_key = \"{key}\" instead of identity"
            ),
        }
    }
}

impl std::error::Error for Unexpected {}

impl From<Unexpected> for Error {
    fn from(why: Unexpected) -> Self {
        CertificateError::Other(OtherError(Arc::new(why))).into()
    }
}

/// A verifier that accepts certain peers, and nothing else.
#[derive(Debug)]
struct PeerVerifier {
    peers: BTreeSet<KnownBy>,
    /// Verifies certificates; without it peers show raw public keys.
    trust: Option<Trust>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PeerVerifier {
    fn new(peers: BTreeSet<KnownBy>, trust: Option<Trust>, provider: &CryptoProvider) -> Self {
        Self { peers, trust, algorithms: provider.signature_verification_algorithms }
    }

    fn check(&self, first: &[u8], more: &[CertificateDer<'_>]) -> Result<(), Error> {
        let Some(trust) = &self.trust else {
            let key = KnownBy::raw_key(first);
            if self.peers.contains(&key) && more.is_empty() {
                return Ok(());
            }
            let by_hash = KnownBy::Key(lightseal_pki::SpkiHash::of(first));
            return Err(match self.peers.contains(&by_hash) && more.is_empty() {
                true => Unexpected::NamedByHash(key).into(),
                false => CertificateError::ApplicationVerificationFailure.into(),
            });
        };
        let chain: Vec<&[u8]> =
            std::iter::once(first).chain(more.iter().map(|entry| &**entry)).collect();
        let known_by = trust.verify(&chain).map_err(Unexpected::Refused)?;
        match self.peers.contains(&known_by) {
            true => Ok(()),
            false => Err(Unexpected::Certificate(known_by).into()),
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
            if self.trust.is_some() {
                return verify_tls13_signature(message, key, signed, &self.algorithms);
            }
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }

        fn requires_raw_public_keys(&self) -> bool {
            self.trust.is_none()
        }
    };
}

impl ServerCertVerifier for PeerVerifier {
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

impl ClientCertVerifier for PeerVerifier {
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
        let [ka, kb] = [&a, &b].map(|key| KnownBy::from(key.public_key()));
        let left = Credentials::new(&a.into(), None, [kb.clone()].into_iter()).unwrap();
        let right = Credentials::new(&b.into(), None, [ka.clone()].into_iter()).unwrap();
        let (one, other) = tokio::io::duplex(65_536);
        let dial = tokio_rustls::TlsConnector::from(left.dialling(&kb).unwrap());
        let accept = tokio_rustls::TlsAcceptor::from(Arc::clone(&right.accept_raw));
        let (one, other) =
            tokio::join!(dial.connect(placeholder_name(), one), accept.accept(other));
        let (one, other) = (TlsStream::from(one.unwrap()), TlsStream::from(other.unwrap()));
        let group = one.get_ref().1.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(group, rustls::NamedGroup::X25519MLKEM768);
        let known = (peer_of(&one, true), peer_of(&other, true));
        assert_eq!(known, (Some(kb.clone()), Some(ka.clone())));
        assert_eq!(exporter(&one, [&ka, &kb]).unwrap(), exporter(&other, [&kb, &ka]).unwrap());
    }

    /// Connects this gateway with a peer that supports only these groups, once with the peer
    /// dialling and once with this gateway dialling. Returns this gateway's error for each, or an
    /// empty string.
    async fn against(groups: &[&'static dyn rustls::crypto::SupportedKxGroup]) -> [String; 2] {
        let [a, b] = [1, 2].map(|seed| Identity::from_seed(Zeroizing::new([seed; 32])));
        let [ka, kb] = [&a, &b].map(|key| KnownBy::from(key.public_key()));
        let own = Credentials::new(&a.into(), None, [kb.clone()].into_iter()).unwrap();
        let mut other = Credentials::new(&b.into(), None, [ka.clone()].into_iter()).unwrap();
        let provider =
            CryptoProvider { kx_groups: groups.to_vec(), ..aws_lc_rs::default_provider() };
        other.provider = Arc::new(provider);
        let (one, far) = tokio::io::duplex(65_536);
        let dial = tokio_rustls::TlsConnector::from(other.dialling(&ka).unwrap());
        let accept = tokio_rustls::TlsAcceptor::from(Arc::clone(&own.accept_raw));
        let (_, accepted) = tokio::join!(dial.connect(placeholder_name(), one), accept.accept(far));
        let (one, far) = tokio::io::duplex(65_536);
        let accepting = ServerConfig::builder_with_provider(Arc::clone(&other.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(Arc::new(PeerVerifier::new(
                BTreeSet::from([ka]),
                None,
                &other.provider,
            )))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(
                &other.key,
            ))));
        let dial = tokio_rustls::TlsConnector::from(own.dialling(&kb).unwrap());
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
}
