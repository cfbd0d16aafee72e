//! What two ends prove their identities with. The signatures are those of `testkit::toy_signature`,
//! which take no time.

use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::crypto::{Provider, rustcrypto};
use lightseal_dtls::{
    CertifiedKey, ClientAuthentication, ClientConfig, ConfigError, Psk, ServerConfig, Settings,
};
use std::sync::Arc;
use testkit::toy_signature::{self, ToyKey, ToyVerifier};

/// The name of the server.
const NAME: &str = "server.example";

/// The credentials of two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A pre-shared key.
    Psk,
    /// Both ends have raw public keys.
    RawKeys,
    /// Both ends have X.509 certificates, whose chains take several datagrams.
    Certificates,
    /// The server has a raw public key, and the client is not asked for one.
    ServerKey,
    /// The server has an X.509 certificate, and the client is not asked for one.
    ServerCertificate,
}

impl Credentials {
    /// Those other than a pre-shared key.
    pub const CERTIFIED: [Self; 4] =
        [Self::RawKeys, Self::Certificates, Self::ServerKey, Self::ServerCertificate];

    /// The provider of the cryptography.
    pub const fn provider(self) -> &'static Provider {
        match self {
            Self::Psk => &rustcrypto::PROVIDER,
            _ => &toy_signature::PROVIDER,
        }
    }

    /// Whether the server's flight takes several datagrams.
    pub(crate) const fn has_chains(self) -> bool {
        matches!(self, Self::Certificates | Self::ServerCertificate)
    }

    /// The configurations of both ends with these settings.
    pub(crate) fn configs(self, settings: Settings) -> (ClientConfig, ServerConfig) {
        match self {
            Self::Psk => (client(settings.clone()), server(settings)),
            _ => self.certified(settings).expect("the settings are valid"),
        }
    }

    fn certified(self, settings: Settings) -> Result<(ClientConfig, ServerConfig), ConfigError> {
        let kind = match self {
            Self::RawKeys | Self::ServerKey => CertificateType::RAW_PUBLIC_KEY,
            _ => CertificateType::X509,
        };
        let verifier = || Arc::new(ToyVerifier::new(&[kind]));
        let client = ClientConfig::verifying(verifier(), settings.clone())?
            .with_keys(Arc::new(key(1, kind)))?
            .with_server_name(NAME)?;
        let clients = match self {
            Self::RawKeys | Self::Certificates => ClientAuthentication::Required(verifier()),
            _ => ClientAuthentication::Off,
        };
        let server = ServerConfig::certified(Arc::new(key(2, kind)), settings)?
            .with_client_authentication(clients)?;
        Ok((client, server))
    }
}

fn key(number: u8, kind: CertificateType) -> CertifiedKey {
    match kind {
        CertificateType::RAW_PUBLIC_KEY => ToyKey::new(number).raw(),
        _ => ToyKey::new(number).x509(NAME, 2),
    }
}

fn psk() -> Psk {
    Psk::external(b"target", &[0x2b; 32]).expect("identity and key have legal lengths")
}

/// A client with these settings and the key of both ends.
pub(crate) fn client(settings: Settings) -> ClientConfig {
    ClientConfig::with(psk(), settings).expect("the settings are valid")
}

/// A server with these settings and the key of both ends.
pub(crate) fn server(settings: Settings) -> ServerConfig {
    ServerConfig::with(Arc::new(psk()), settings).expect("the settings are valid")
}
