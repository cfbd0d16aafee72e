//! The pre-shared keys of DTLS 1.3 handshakes, and their binders (RFC 8446, section 4.2.11).

use crate::codepoints::HandshakeType;
use crate::config::{Lookup, Psk, PskStore};
use crate::credential::imported::ImportedIdentity;
use crate::crypto::{BinderKey, EarlySecret, Hash, HashAlgorithm, HashValue, Transcript};
use crate::messages::fragment::transcript_header;
use crate::parts;
use alloc::vec::Vec;
use lightseal_core::Decode;

/// Where a pre-shared key comes from, which its binder proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PskKind {
    /// It was agreed elsewhere.
    External,
    /// It was agreed elsewhere, and imported (RFC 9258).
    Imported(parts::Importer),
    /// It belongs to a ticket.
    Resumption(parts::Resumption),
}

/// A pre-shared key with the hash of a handshake.
#[derive(Debug)]
pub(crate) struct HandshakePsk {
    /// The identity in the ClientHello.
    pub(crate) identity: Vec<u8>,
    /// `obfuscated_ticket_age`: 0 for a PSK that does not belong to a ticket.
    pub(crate) age: u32,
    pub(crate) kind: PskKind,
    pub(crate) early: EarlySecret,
}

impl HandshakePsk {
    /// A configured PSK, in the one form in which it is used with this hash; `None` if it cannot be
    /// used with it.
    pub(crate) fn of(psk: &Psk, hash: &'static dyn Hash) -> Option<Self> {
        let (kind, early) = secret(psk, hash)?;
        let identity = match (kind, psk.context()) {
            (PskKind::Imported(_), Some(context)) => {
                ImportedIdentity::new(psk.identity(), context, hash.algorithm()).to_bytes()
            }
            _ => psk.identity().to_vec(),
        };
        Some(Self { identity, age: 0, kind, early })
    }

    /// The PSK of a ticket.
    pub(crate) fn of_ticket(part: parts::Resumption, psk: &[u8], hash: &'static dyn Hash) -> Self {
        let (kind, early) = (PskKind::Resumption(part), EarlySecret::from_psk(hash, psk));
        Self { identity: Vec::new(), age: 0, kind, early }
    }

    /// The hash to which the PSK is bound (RFC 8446, section 4.2.11).
    pub(crate) fn hash(&self) -> &'static dyn Hash {
        self.early.hash()
    }

    /// The length of the binder in bytes.
    pub(crate) fn binder_len(&self) -> usize {
        self.early.output_len()
    }

    /// The binder over `hash`, the [hash of a truncated hello](truncated_hash).
    pub(crate) fn binder(&self, hash: &HashValue) -> HashValue {
        binder_key(self.kind, &self.early).verify_data(hash)
    }
}

/// The secret that follows from a configured PSK in the one form in which it is used with this hash;
/// `None` if it cannot be used with it.
pub(crate) fn secret(psk: &Psk, hash: &'static dyn Hash) -> Option<(PskKind, EarlySecret)> {
    let algorithm = hash.algorithm();
    if let (Some(context), Some(part)) = (psk.context(), parts::Importer::INCLUDED) {
        let imported = ImportedIdentity::new(psk.identity(), context, algorithm);
        let early = EarlySecret::from_psk(hash, &imported.import(psk.key(), algorithm));
        return Some((PskKind::Imported(part), early));
    }
    (algorithm == HashAlgorithm::Sha256)
        .then(|| (PskKind::External, EarlySecret::from_psk(hash, psk.key())))
}

/// The key of the binder of a PSK from which `early` follows.
pub(crate) fn binder_key(kind: PskKind, early: &EarlySecret) -> BinderKey {
    match kind {
        PskKind::External => early.external_binder(),
        PskKind::Imported(_) => early.imported_binder(),
        PskKind::Resumption(_) => early.resumption_binder(),
    }
}

/// Looks up the PSK that a client of DTLS 1.3 offers under `identity` for this hash.
pub(crate) fn look_up(psks: &dyn PskStore, identity: &[u8], hash: &'static dyn Hash) -> Lookup {
    match psks.look_up(identity) {
        // A PSK that is imported is not used otherwise in DTLS 1.3.
        Lookup::Found(psk) if psk.context().is_some() => {}
        Lookup::Unknown => {}
        answer => return answer,
    }
    if parts::Importer::INCLUDED.is_some()
        && let Ok(imported) = ImportedIdentity::decode(identity)
        && imported.is_for(hash.algorithm())
    {
        return psks.look_up_imported(imported.external_identity, imported.context);
    }
    Lookup::Unknown
}

/// The hash that binders cover: the transcript before the ClientHello, and the hello's body without
/// the list of binders, which takes its last `binders_len` bytes (RFC 8446, section 4.2.11.2). `hash`
/// is that of the PSK.
pub(crate) fn truncated_hash(
    before: &Transcript,
    body: &[u8],
    binders_len: usize,
    hash: &'static dyn Hash,
) -> HashValue {
    let mut transcript = before.clone();
    transcript.decide(hash);
    transcript.update(&transcript_header(HandshakeType::CLIENT_HELLO, body.len()));
    let covered = body.len().saturating_sub(binders_len);
    transcript.update(body.get(..covered).unwrap_or_default());
    transcript.hash()
}
