//! What the ends of simulated handshakes prove their identities with.

use crate::Error;
use lightseal_dtls::crypto::rustcrypto::PROVIDER;
use lightseal_dtls::{
    CertificateVerifier, CertifiedKey, ClientAuthentication, ClientConfig, PinnedKeys, Psk,
    ServerConfig, Settings,
};
use lightseal_pki::{Clock, SpkiHash, Trust};
use std::sync::Arc;

/// What the ends prove their identities with. All keys are of ECDSA with P-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    /// Both ends have a pre-shared key.
    Psk,
    /// Each end has pinned the other's public key.
    RawKeys,
    /// Each end has a certificate that one authority has issued.
    Certificates,
    /// The server has a certificate, and the client remains anonymous.
    ServerCertificate,
}

/// A certificate with its private key, in PEM.
struct Identity {
    certificate: &'static [u8],
    key: &'static [u8],
}

const SERVER: Identity = Identity {
    certificate: include_bytes!("identities/server.pem"),
    key: include_bytes!("identities/server.key"),
};
const SENSOR: Identity = Identity {
    certificate: include_bytes!("identities/sensor.pem"),
    key: include_bytes!("identities/sensor.key"),
};
/// The authority that has issued both certificates.
const AUTHORITY: &[u8] = include_bytes!("identities/plant.pem");
const SERVER_NAME: &str = "server.plant-7.example";
/// The time at which certificates are checked, in seconds since 1970: in 2028.
const NOW: u64 = 1_830_000_000;

impl Identity {
    fn raw(&self) -> Result<CertifiedKey, Error> {
        lightseal_pki::raw_key(&PROVIDER, self.key).map_err(|_| UNREADABLE)
    }

    fn certified(&self) -> Result<CertifiedKey, Error> {
        let key = lightseal_pki::certified_key(&PROVIDER, self.certificate, self.key);
        key.map_err(|_| UNREADABLE)
    }

    /// Accepts this identity's public key alone.
    fn pin(&self) -> Result<Arc<dyn CertificateVerifier>, Error> {
        let hash = SpkiHash::of(self.raw()?.key().public_key());
        Ok(Arc::new(PinnedKeys::new(vec![hash.0])))
    }
}

const UNREADABLE: Error = Error::Stream("an identity of the laboratory is unreadable");

/// Accepts what the authority has issued.
fn issued() -> Result<Arc<dyn CertificateVerifier>, Error> {
    let trust = Trust::new().with_authorities(AUTHORITY).map_err(|_| UNREADABLE)?;
    let settings = lightseal_pki::Settings::new(&PROVIDER, Clock::new(|| Some(NOW)));
    Ok(Arc::new(settings.verifier(trust)))
}

fn psk() -> Psk {
    Psk::external(b"Client_identity", b"secretPSKsecretP").expect("valid lengths")
}

impl Credential {
    pub(super) fn client(self, settings: Settings) -> Result<ClientConfig, Error> {
        let verifying = |verifier| ClientConfig::verifying(verifier, settings.clone());
        let config = match self {
            Self::Psk => ClientConfig::with(psk(), settings),
            Self::RawKeys => {
                let key = Arc::new(SENSOR.raw()?);
                verifying(SERVER.pin()?).and_then(|client| client.with_keys(key))
            }
            Self::Certificates => {
                let key = Arc::new(SENSOR.certified()?);
                verifying(issued()?)
                    .and_then(|client| client.with_keys(key))
                    .and_then(|client| client.with_server_name(SERVER_NAME))
            }
            Self::ServerCertificate => {
                verifying(issued()?).and_then(|client| client.with_server_name(SERVER_NAME))
            }
        };
        config.map_err(Error::Engine)
    }

    pub(super) fn server(self, settings: Settings) -> Result<ServerConfig, Error> {
        let certified = |key: CertifiedKey, clients| {
            ServerConfig::certified(Arc::new(key), settings.clone())
                .and_then(|server| server.with_client_authentication(clients))
        };
        let config = match self {
            Self::Psk => ServerConfig::with(Arc::new(psk()), settings),
            Self::RawKeys => {
                certified(SERVER.raw()?, ClientAuthentication::Required(SENSOR.pin()?))
            }
            Self::Certificates => {
                certified(SERVER.certified()?, ClientAuthentication::Required(issued()?))
            }
            Self::ServerCertificate => certified(SERVER.certified()?, ClientAuthentication::Off),
        };
        config.map_err(Error::Engine)
    }

    /// Multiplications on the curve of the signatures at the client and at the server: one to sign,
    /// and two to verify a signature of the handshake or of a certificate.
    pub(super) const fn curve_multiplications(self) -> Ends<u32> {
        match self {
            Self::Psk => Ends { client: 0, server: 0 },
            Self::RawKeys => Ends { client: 3, server: 3 },
            Self::Certificates => Ends { client: 5, server: 5 },
            Self::ServerCertificate => Ends { client: 4, server: 1 },
        }
    }
}

/// Something of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends<T> {
    pub(super) client: T,
    pub(super) server: T,
}
