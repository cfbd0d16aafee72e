//! What the configurations of clients and servers have for certificates and raw public keys.

use crate::codepoints::CertificateType;
use crate::config::Settings;
use crate::credential::{CertificateVerifier, KeyStore, PeerKey, PeerLookup};
use crate::error::ConfigError;
use crate::messages::certificate_extensions::is_host_name;
use crate::parts;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::net::IpAddr;
pub(crate) use lightseal_core::parts::PartState;

/// Certificates in the configuration of a client.
pub(crate) type ForClient = PartState<parts::Certificates, Arc<ClientCertificates>>;
/// Certificates in the configuration of a server.
pub(crate) type ForServer = PartState<parts::Certificates, Arc<ServerCertificates>>;

/// What a client has for certificates.
#[derive(Clone)]
pub(crate) struct ClientCertificates {
    pub(crate) part: parts::Certificates,
    /// Checks the server's certificate.
    pub(crate) verifier: Arc<dyn CertificateVerifier>,
    /// The client's own keys, if it has any.
    pub(crate) keys: Option<Arc<dyn KeyStore>>,
    /// The name that the server's certificate must prove.
    pub(crate) server_name: Option<String>,
}

impl ClientCertificates {
    /// The host name that is sent to the server: IP addresses are not (RFC 6066, section 3).
    pub(crate) fn sent_name(&self) -> Option<&str> {
        self.server_name.as_deref().filter(|name| name.parse::<IpAddr>().is_err())
    }

    /// Whether a server is still accepted that was verified before, when the client asked for
    /// `server_name`.
    pub(crate) fn still_accept(&self, peer: Option<&PeerKey>, server_name: Option<&str>) -> bool {
        self.server_name.as_deref() == server_name
            && peer.is_some_and(|peer| self.verifier.still_accepts(peer))
    }
}

impl fmt::Debug for ClientCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificates")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// What a server has for certificates.
#[derive(Clone)]
pub(crate) struct ServerCertificates {
    pub(crate) part: parts::Certificates,
    /// The server's own keys.
    pub(crate) keys: Arc<dyn KeyStore>,
    /// Whether clients are asked for certificates.
    pub(crate) clients: ClientAuthentication,
}

impl ServerCertificates {
    /// Whether a client is still accepted that was verified before; `None` stands for a client that
    /// has proved no identity.
    pub(crate) fn still_accept(&self, peer: Option<&PeerKey>) -> bool {
        match (peer, self.clients.verifier()) {
            (Some(peer), Some(verifier)) => verifier.still_accepts(peer),
            (Some(_), None) => false,
            (None, _) => !self.clients.is_required(),
        }
    }

    /// Whether a client is accepted that has proved its key.
    pub(crate) fn look_up(&self, client: &PeerKey) -> PeerLookup {
        self.clients.verifier().map_or(PeerLookup::Accepted, |verifier| verifier.look_up(client))
    }

    /// Whether a session of this client may be resumed. If the verifier has to ask elsewhere, the
    /// client authenticates itself anew.
    pub(crate) fn resumes(&self, client: Option<&PeerKey>) -> bool {
        let is_accepted = |client| self.look_up(client) == PeerLookup::Accepted;
        self.still_accept(client) && client.is_none_or(is_accepted)
    }
}

impl fmt::Debug for ServerCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCertificates").field("clients", &self.clients).finish_non_exhaustive()
    }
}

/// Whether a server that authenticates itself with a certificate or raw public key asks the client
/// for one.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ClientAuthentication {
    /// The client is not asked.
    #[default]
    Off,
    /// The client is asked, and may have none. If it has one, the verifier must accept it.
    Requested(Arc<dyn CertificateVerifier>),
    /// The client must have one that the verifier accepts.
    Required(Arc<dyn CertificateVerifier>),
}

impl ClientAuthentication {
    /// The verifier; `None` if the client is not asked.
    pub(crate) const fn verifier(&self) -> Option<&Arc<dyn CertificateVerifier>> {
        match self {
            Self::Off => None,
            Self::Requested(verifier) | Self::Required(verifier) => Some(verifier),
        }
    }

    /// Whether a client without a certificate is refused.
    pub(crate) const fn is_required(&self) -> bool {
        matches!(self, Self::Required(_))
    }
}

impl fmt::Debug for ClientAuthentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "Off",
            Self::Requested(_) => "Requested",
            Self::Required(_) => "Required",
        })
    }
}

/// Checks that handshakes with certificates are possible with these settings: they need signature
/// schemes and key exchange groups.
pub(crate) fn check(settings: &Settings) -> Result<(), ConfigError> {
    if settings.provider.signatures.is_empty() {
        return Err(ConfigError::SignatureSchemes);
    }
    let known = settings.groups.iter().all(|id| settings.provider.group(*id).is_some());
    if settings.groups.is_empty() || !known {
        return Err(ConfigError::Groups);
    }
    Ok(())
}

/// The name of a server in lower case: a host name or an IP address.
pub(crate) fn checked_server_name(name: &str) -> Result<String, ConfigError> {
    match is_host_name(name.as_bytes()) || name.parse::<IpAddr>().is_ok() {
        true => Ok(name.to_ascii_lowercase()),
        false => Err(ConfigError::ServerName),
    }
}

/// Whether `kinds` are X.509 certificates alone, which need no negotiation (RFC 7250, section 4.1).
pub(crate) fn is_default(kinds: &[CertificateType]) -> bool {
    kinds.iter().all(|kind| *kind == CertificateType::X509)
}
