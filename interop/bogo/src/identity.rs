//! Certificates, keys and the verifier.

use crate::Failure;
use crate::flags::{CredentialFlags, Flags};
use crate::keys;
use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, CertifiedKey, KeyStore, OfferedCertificates, PeerKey,
    PresentedCertificate,
};
use pki_types::CertificateDer;
use pki_types::pem::PemObject;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use webpki::EndEntityCert;

/// What happened to certificates in a connection.
#[derive(Debug, Default)]
struct Log(Mutex<Entries>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    /// The peer's certificates, once it has presented some.
    pub(crate) presented: Option<Vec<Vec<u8>>>,
    /// The credential that was chosen, as the runner counts.
    pub(crate) selected: Option<i32>,
    /// The name of the server that the client asked for.
    pub(crate) server_name: Option<String>,
    /// The authorities that the peer trusts.
    pub(crate) authorities: Vec<Vec<u8>>,
}

impl Log {
    fn entries(&self) -> Entries {
        self.0.lock().expect("nobody panics with the lock").clone()
    }

    fn note(&self, note: impl FnOnce(&mut Entries)) {
        note(&mut self.0.lock().expect("nobody panics with the lock"));
    }
}

/// What the end under test authenticates itself and its peers with. It is one for all connections of
/// a case, because a session is resumed only with the keys and the verifier that it was made with.
pub(crate) struct Identities {
    log: Arc<Log>,
    verifier: Arc<Verifier>,
    /// The newest credentials, and the flags that name them.
    credentials: Option<(Vec<CredentialFlags>, Arc<Credentials>)>,
    /// Whether this end's private key still has to sign.
    delay: Arc<keys::Delay>,
}

impl Identities {
    pub(crate) fn new() -> Self {
        let log = Arc::default();
        let verifier = Arc::new(Verifier::new(&log));
        Self { log, verifier, credentials: None, delay: Arc::default() }
    }

    /// Begins a connection with these flags.
    pub(crate) fn begin(&mut self, flags: &Flags) -> Result<(), Failure> {
        self.log.note(|log| *log = Entries::default());
        self.verifier.configure(flags);
        let named: Vec<_> = flags.credentials().map(|(_, flags)| flags.clone()).collect();
        if self.credentials.as_ref().is_none_or(|(before, _)| *before != named) {
            let delay = flags.text("-private-key-delay-ms").map(|_| &self.delay);
            self.credentials = Some((named, Arc::new(Credentials::read(flags, &self.log, delay)?)));
        }
        Ok(())
    }

    /// Whether this end's private key still has to sign.
    pub(crate) fn signs_later(&self) -> bool {
        self.delay.is_outstanding()
    }

    /// What happened in the current connection.
    pub(crate) fn entries(&self) -> Entries {
        self.log.entries()
    }

    pub(crate) fn verifier(&self) -> Arc<Verifier> {
        Arc::clone(&self.verifier)
    }

    /// # Panics
    /// If no connection has begun.
    pub(crate) fn credentials(&self) -> Arc<Credentials> {
        let (_, credentials) = self.credentials.as_ref().expect("a connection has begun");
        Arc::clone(credentials)
    }
}

/// A credential with the runner's conditions.
struct Credential {
    index: i32,
    key: CertifiedKey,
    must_match_issuer: bool,
    /// The issuer of each certificate of the chain, in DER.
    issuers: Vec<Vec<u8>>,
}

/// The credentials of a case, in order of preference.
pub(crate) struct Credentials {
    credentials: Vec<Credential>,
    log: Arc<Log>,
    /// Whether the server says that it has the name that the client wants.
    confirms_name: bool,
}

impl Credentials {
    /// Reads the credentials that the flags name.
    fn read(
        flags: &Flags,
        log: &Arc<Log>,
        delay: Option<&Arc<keys::Delay>>,
    ) -> Result<Self, Failure> {
        let mut credentials = Vec::new();
        for (index, flags) in flags.credentials() {
            credentials.extend(read_credential(index, flags, delay)?);
        }
        // The one without an introduction is the last resort.
        credentials.sort_by_key(|credential| credential.index < 0);
        let confirms_name = !flags.has("-no-server-name-ack");
        Ok(Self { credentials, log: Arc::clone(log), confirms_name })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.credentials.is_empty()
    }
}

fn read_credential(
    index: i32,
    flags: &CredentialFlags,
    delay: Option<&Arc<keys::Delay>>,
) -> Result<Option<Credential>, Failure> {
    let (Some(chain), Some(key)) = (flags.text("-cert-file"), flags.text("-key-file")) else {
        return Ok(None);
    };
    let failed = |error: &dyn std::fmt::Debug| Failure::Failed(format!("{chain}: {error:?}"));
    let chain: Vec<Vec<u8>> = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(&error))?
        .into_iter()
        .map(|certificate| certificate.to_vec())
        .collect();
    let schemes = flags.numbers("-signing-prefs")?.into_iter().map(SignatureScheme).collect();
    let key = keys::read(key, schemes, delay.cloned())?;
    let issuers = chain.iter().filter_map(|certificate| issuer(certificate)).collect();
    let key = CertifiedKey::x509(chain, key).map_err(|error| failed(&error))?;
    Ok(Some(Credential { index, key, must_match_issuer: flags.must_match_issuer, issuers }))
}

/// The name of a certificate's issuer, in DER with its header.
fn issuer(certificate: &[u8]) -> Option<Vec<u8>> {
    let certificate = CertificateDer::from(certificate);
    let parsed = EndEntityCert::try_from(&certificate).ok()?;
    let content = parsed.issuer();
    let len = content.len();
    let mut name = vec![0x30];
    match len {
        ..0x80 => name.push(u8::try_from(len).ok()?),
        0x80..0x100 => name.extend([0x81, u8::try_from(len).ok()?]),
        _ => {
            name.push(0x82);
            name.extend(u16::try_from(len).ok()?.to_be_bytes());
        }
    }
    name.extend(content);
    Some(name)
}

impl KeyStore for Credentials {
    fn choose(&self, offered: &OfferedCertificates<'_>) -> Option<CertifiedKey> {
        let issued = |credential: &&Credential| {
            !credential.must_match_issuer
                || credential.issuers.iter().any(|name| offered.authorities.contains(&&name[..]))
        };
        let mut usable = self.credentials.iter().filter(issued);
        let chosen = usable.find(|credential| offered.scheme_for(&credential.key).is_some());
        self.log.note(|log| {
            log.selected = chosen.map(|credential| credential.index);
            log.server_name = offered.server_name.map(str::to_owned);
            log.authorities = offered.authorities.iter().map(|name| name.to_vec()).collect();
        });
        chosen.map(|credential| credential.key.clone())
    }

    fn kinds(&self) -> Vec<CertificateType> {
        vec![CertificateType::X509]
    }

    fn has_name(&self, _: &str) -> Option<bool> {
        self.confirms_name.then_some(true)
    }
}

/// Accepts every certificate that has a public key, or none.
#[derive(Debug)]
pub(crate) struct Verifier {
    accepts: AtomicBool,
    /// Whether a session is resumed only if its certificate is still accepted.
    verifies_sessions: AtomicBool,
    log: Arc<Log>,
}

impl Verifier {
    fn new(log: &Arc<Log>) -> Self {
        let verifies_sessions = AtomicBool::new(false);
        Self { accepts: AtomicBool::new(true), verifies_sessions, log: Arc::clone(log) }
    }

    /// Does what the flags of the next connection want.
    fn configure(&self, flags: &Flags) {
        // Without the other flags, BoringSSL only notes that the certificate did not verify.
        let counts = ["-verify-peer", "-require-any-client-certificate"];
        let counts =
            counts.iter().any(|flag| flags.has(flag)) || flags.has("-use-custom-verify-callback");
        self.accepts.store(!(flags.has("-verify-fail") && counts), Ordering::Relaxed);
        self.verifies_sessions.store(flags.has("-reverify-on-resume"), Ordering::Relaxed);
    }
}

impl CertificateVerifier for Verifier {
    fn kinds(&self) -> &[CertificateType] {
        &[CertificateType::X509]
    }

    fn still_accepts(&self, _: &PeerKey) -> bool {
        !self.verifies_sessions.load(Ordering::Relaxed) || self.accepts.load(Ordering::Relaxed)
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        let [own, ..] = presented.entries else { return Err(BadCertificate::Malformed) };
        let entries = presented.entries.iter().map(|entry| entry.to_vec()).collect();
        self.log.note(|log| log.presented = Some(entries));
        let certificate = CertificateDer::from(*own);
        let parsed =
            EndEntityCert::try_from(&certificate).map_err(|_| BadCertificate::Malformed)?;
        match self.accepts.load(Ordering::Relaxed) {
            true => Ok((parsed.subject_public_key_info().to_vec(), None)),
            false => Err(BadCertificate::Other("the case wants it so")),
        }
    }
}
