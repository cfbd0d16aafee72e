//! dimpl as a peer, over AWS-LC. It leaves the check of certificates to the application, which uses our
//! verifier.

use super::{End, Make, Settings, lightseal};
use crate::driven::Event;
use crate::peers::files::SERVER_NAME;
use crate::peers::{Credential, Group, Role, Suite, Version};
use crate::race;
use ::dimpl::crypto::{Dtls12CipherSuite, Dtls13CipherSuite, aws_lc_rs};
use ::dimpl::{Config, Dtls, DtlsCertificate, NamedGroup, Output as DimplOutput, PskResolver};
use lightseal_core::{Engine, Instant, Output};
use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::{CertificateVerifier, PresentedCertificate};
use lightseal_pki::X509Verifier;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// dimpl's name of a suite of DTLS 1.2; `None` if it does not have the suite.
const fn suite_12(suite: Suite) -> Option<Dtls12CipherSuite> {
    match suite {
        Suite::PskCcm8 => Some(Dtls12CipherSuite::PSK_AES128_CCM_8),
        Suite::EcdsaGcm => Some(Dtls12CipherSuite::ECDHE_ECDSA_AES128_GCM_SHA256),
        Suite::EcdsaGcm256 => Some(Dtls12CipherSuite::ECDHE_ECDSA_AES256_GCM_SHA384),
        Suite::EcdsaChacha => Some(Dtls12CipherSuite::ECDHE_ECDSA_CHACHA20_POLY1305_SHA256),
        _ => None,
    }
}

/// dimpl's name of a suite of DTLS 1.3; `None` if it does not have the suite.
const fn suite_13(suite: Suite) -> Option<Dtls13CipherSuite> {
    match suite {
        Suite::Gcm => Some(Dtls13CipherSuite::AES_128_GCM_SHA256),
        Suite::Gcm256 => Some(Dtls13CipherSuite::AES_256_GCM_SHA384),
        Suite::Chacha => Some(Dtls13CipherSuite::CHACHA20_POLY1305_SHA256),
        _ => None,
    }
}

/// Whether dimpl has the suite.
pub const fn has(suite: Suite) -> bool {
    suite_12(suite).is_some() || suite_13(suite).is_some()
}

const fn group(group: Group) -> Option<NamedGroup> {
    match group {
        Group::X25519 => Some(NamedGroup::X25519),
        Group::P256 => Some(NamedGroup::Secp256r1),
        Group::P384 => Some(NamedGroup::Secp384r1),
        Group::X25519MlKem768 => None,
    }
}

struct Key {
    identity: Vec<u8>,
    key: Vec<u8>,
}

impl PskResolver for Key {
    fn resolve(&self, identity: &[u8]) -> Option<Vec<u8>> {
        (identity == self.identity).then(|| self.key.clone())
    }
}

/// One end of a connection.
pub struct Dimpl {
    dtls: Dtls,
    role: Role,
    /// dimpl's clock at our time zero.
    zero: std::time::Instant,
    /// The other end's address. A server learns it from the first datagram.
    to: Option<SocketAddr>,
    verifier: Option<Rc<X509Verifier>>,
    events: VecDeque<Event>,
    closed: bool,
}

/// What makes ends of connections by dimpl with these settings.
///
/// # Errors
/// The settings that do not fit.
pub fn ends(role: Role, settings: &Settings) -> Result<impl Make<Dimpl> + use<>, String> {
    let with_psk = settings.credential == Credential::Psk;
    let mut builder = Config::builder()
        .with_crypto_provider(aws_lc_rs::default_provider())
        .require_client_certificate(settings.mutual)
        .use_server_cookie(true)
        .mtu(race::DATAGRAM_BYTES);
    let version = settings.suite.version();
    match version {
        Version::Dtls12 => {
            let suite = suite_12(settings.suite).ok_or("not a suite of this peer")?;
            builder = builder.dtls12_cipher_suites(&[suite]);
        }
        Version::Dtls13 => {
            let suite = suite_13(settings.suite).ok_or("not a suite of this peer")?;
            builder = builder.dtls13_cipher_suites(&[suite]);
        }
    }
    let mut groups = settings.groups(role);
    if version == Version::Dtls12 && role == Role::Client {
        // The groups of DTLS 1.2 are those of certificates too (RFC 8422, section 5.1).
        let more = [Group::P256, Group::P384].into_iter();
        groups.extend(more.filter(|more| *more != settings.group));
    }
    let groups: Vec<_> = groups.into_iter().filter_map(group).collect();
    if with_psk {
        let key = Arc::new(Key { identity: settings.identity.clone(), key: settings.key.clone() });
        builder = match role {
            Role::Client => builder.with_psk_client(settings.identity.clone(), key),
            Role::Server => builder.with_psk_server(None, key),
        };
    } else {
        builder = builder.kx_groups(&groups);
    }
    let config = Arc::new(builder.build().map_err(|error| error.to_string())?);
    let certificate = if with_psk {
        None
    } else {
        let (certificate, private_key) = (settings.file(role, "crt")?, settings.file(role, "der")?);
        Some(DtlsCertificate { certificate, private_key })
    };
    let verifies = !with_psk && (role == Role::Client || settings.mutual);
    let verifier = verifies
        .then(|| lightseal::verifier(role, settings, &lightseal_dtls_aws_lc::PROVIDER))
        .transpose()?;
    let verifier = verifier.map(Rc::new);
    Ok(move |address: SocketAddr, now: Instant, _: Option<&mut Dimpl>| {
        let zero = std::time::Instant::now() - (now - Instant::ZERO);
        let its_now = zero + (now - Instant::ZERO);
        let config = Arc::clone(&config);
        let mut dtls = match (certificate.clone(), version) {
            (None, _) => Dtls::new_12_psk(config, its_now),
            (Some(certificate), Version::Dtls12) => Dtls::new_12(config, certificate, its_now),
            (Some(certificate), Version::Dtls13) => Dtls::new_13(config, certificate, its_now),
        };
        dtls.set_active(role == Role::Client);
        dtls.handle_timeout(its_now).map_err(|error| error.to_string())?;
        let to = (role == Role::Client).then_some(address);
        let (verifier, events) = (verifier.clone(), VecDeque::new());
        Ok(Dimpl { dtls, role, zero, to, verifier, events, closed: false })
    })
}

impl Dimpl {
    /// Checks the certificate of the other end.
    fn verify(&self, certificate: &[u8]) -> Result<(), String> {
        let Some(verifier) = &self.verifier else { return Ok(()) };
        let entries = [certificate];
        let mut presented = PresentedCertificate::new(CertificateType::X509, &entries);
        presented.server_name = (self.role == Role::Client).then_some(SERVER_NAME);
        presented.from_client = self.role == Role::Server;
        verifier.verify(&presented).map(drop).map_err(|error| error.to_string())
    }

    fn fail(&mut self, reason: String) {
        if !std::mem::replace(&mut self.closed, true) {
            self.events.push_back(Event::Closed(reason));
        }
    }
}

impl End for Dimpl {
    fn send(&mut self, _: Instant, payload: &[u8]) -> Result<(), String> {
        self.dtls.send_application_data(payload).map(drop).map_err(|error| error.to_string())
    }

    fn close(&mut self, _: Instant) {
        // An error means that the connection has ended before.
        let _ = self.dtls.close();
    }
}

impl Engine for Dimpl {
    type Event<'a> = Event;

    fn handle_datagram(&mut self, _: Instant, from: SocketAddr, datagram: &mut [u8]) {
        if *self.to.get_or_insert(from) != from || self.closed {
            return;
        }
        if let Err(error) = self.dtls.handle_packet(datagram) {
            self.fail(error.to_string());
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.closed {
            return;
        }
        if let Err(error) = self.dtls.handle_timeout(self.zero + (now - Instant::ZERO)) {
            self.fail(error.to_string());
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Output::Event(event);
            }
            let outcome = match self.dtls.poll_output(buf) {
                DimplOutput::Packet(packet) => {
                    let length = packet.len();
                    let Some(to) = self.to else { continue };
                    return Output::Datagram { to, payload: &buf[..length] };
                }
                DimplOutput::BufferTooSmall { needed } => return Output::BufferTooSmall { needed },
                DimplOutput::Timeout(at) => {
                    let after = at.saturating_duration_since(self.zero);
                    return if self.closed || self.to.is_none() {
                        Output::Idle
                    } else {
                        Output::WakeAt(Instant::ZERO + after)
                    };
                }
                DimplOutput::Connected => Ok(Some(Event::Connected)),
                DimplOutput::ApplicationData(payload) => Ok(Some(Event::Data(payload.to_vec()))),
                DimplOutput::CloseNotify => Err("closed by the peer".to_owned()),
                DimplOutput::PeerCert(certificate) => {
                    let certificate = certificate.to_vec();
                    self.verify(&certificate).map(|()| None)
                }
                _ => Ok(None),
            };
            match outcome {
                Ok(event) => self.events.extend(event),
                Err(reason) => self.fail(reason),
            }
        }
    }
}
