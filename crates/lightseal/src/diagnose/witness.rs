//! The certificates that a peer presented, and what became of them.

use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
use lightseal_dtls::{BadCertificate, CertificateVerifier, PeerKey, PresentedCertificate};
use lightseal_pki::{Description, SpkiHash};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A verifier that remembers what the peer presented last, for the user.
pub(super) struct Witness {
    /// Decides; `None` accepts everybody.
    verifier: Option<Arc<dyn CertificateVerifier>>,
    /// What peers presented, oldest first.
    seen: Mutex<VecDeque<Presented>>,
}

/// Maximum number of presented chains that are remembered.
const MOST_SEEN: usize = 64;

/// What a peer presented.
#[derive(Clone, Debug)]
pub(super) struct Presented {
    kind: CertificateType,
    entries: Vec<Vec<u8>>,
    /// The hash of the peer's public key, if it was accepted.
    key: Option<SpkiHash>,
    /// Why it was not accepted.
    refused: Option<BadCertificate>,
}

/// The kinds that a verifier accepts that accepts everybody.
const EVERY_KIND: &[CertificateType] = &[CertificateType::X509, CertificateType::RAW_PUBLIC_KEY];

impl Witness {
    pub(super) const fn new(verifier: Option<Arc<dyn CertificateVerifier>>) -> Self {
        Self { verifier, seen: Mutex::new(VecDeque::new()) }
    }

    /// Takes what a peer presented last.
    pub(super) fn take_last(&self) -> Option<Presented> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).pop_back()
    }

    /// Takes what the peer with this public key presented, given by the SHA-256 of its
    /// SubjectPublicKeyInfo.
    pub(super) fn take(&self, key: &[u8; 32]) -> Option<Presented> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let at = seen.iter().position(|presented| presented.key == Some(SpkiHash(*key)))?;
        seen.remove(at)
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl CertificateVerifier for Witness {
    fn kinds(&self) -> &[CertificateType] {
        self.verifier.as_ref().map_or(EVERY_KIND, |verifier| verifier.kinds())
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        let outcome = match &self.verifier {
            Some(verifier) => verifier.verify(presented),
            None => unverified(presented),
        };
        let seen = Presented {
            kind: presented.kind,
            entries: presented.entries.iter().map(|entry| entry.to_vec()).collect(),
            key: outcome.as_ref().ok().map(|(spki, _)| SpkiHash::of(spki)),
            refused: outcome.as_ref().err().copied(),
        };
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MOST_SEEN {
            all.pop_front();
        }
        all.push_back(seen);
        outcome
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        self.verifier.as_ref().is_none_or(|verifier| verifier.still_accepts(peer))
    }

    fn certificate_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.as_ref().map(|verifier| verifier.certificate_schemes()).unwrap_or_default()
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.verifier.as_ref().map(|verifier| verifier.authorities()).unwrap_or_default()
    }
}

/// The public key that a peer presented. Nobody vouches for a name.
fn unverified(
    presented: &PresentedCertificate<'_>,
) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
    let first = presented.entries.first().ok_or(BadCertificate::Malformed)?;
    match presented.kind {
        CertificateType::RAW_PUBLIC_KEY => Ok((first.to_vec(), None)),
        _ => lightseal_pki::description::public_key(first).map(|spki| (spki, None)),
    }
}

impl Presented {
    /// The kind and the entries, as the peer sent them.
    pub(super) fn entries(&self) -> (CertificateType, Vec<Vec<u8>>) {
        (self.kind, self.entries.clone())
    }

    /// The certificates as lines for people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut fact = |name: &str, value: &str| {
            // Formatting into a string cannot fail.
            let _ = writeln!(text, "  {name:<7} {value}");
        };
        for (number, entry) in (1..).zip(&self.entries) {
            if self.kind == CertificateType::RAW_PUBLIC_KEY {
                fact("raw key", &SpkiHash::of(entry).to_string());
                continue;
            }
            fact("cert", &format!("{number} of {}", self.entries.len()));
            match Description::of(entry) {
                Ok(of) => {
                    fact("subject", &of.subject);
                    fact("issuer", &of.issuer);
                    if !of.names.is_empty() {
                        fact("names", &of.names.join(", "));
                    }
                    fact("valid", &format!("{} to {}", of.not_before, of.not_after));
                    fact("key", &of.spki.to_string());
                }
                Err(bad) => fact("", &bad.to_string()),
            }
        }
        if let Some(why) = self.refused {
            fact("refused", &why.to_string());
        }
        text
    }

    /// The certificates for scripts.
    pub(super) fn json(&self) -> Value {
        let entries = self.entries.iter().map(|entry| {
            if self.kind == CertificateType::RAW_PUBLIC_KEY {
                return json!({ "raw_key": SpkiHash::of(entry).to_string() });
            }
            match Description::of(entry) {
                Ok(of) => json!({
                    "subject": of.subject,
                    "issuer": of.issuer,
                    "names": of.names,
                    "not_before": of.not_before.to_string(),
                    "not_after": of.not_after.to_string(),
                    "key": of.spki.to_string(),
                }),
                Err(bad) => json!({ "error": bad.to_string() }),
            }
        });
        entries.collect()
    }
}
