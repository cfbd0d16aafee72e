//! The key schedule (RFC 8446, section 7.1, with SHA-256), one type a stage.
//!
//! ```text
//! EarlySecret ──► HandshakeSecret ──► MasterSecret
//!   └ BinderKey     └ TrafficSecret     ├ TrafficSecret
//!                                       ├ ExporterSecret
//!                                       └ ResumptionSecret
//! ```
//!
//! A stage is consumed by the next one, so a secret lives no longer than the
//! handshake state that may use it. Every secret is zeroized when dropped.

use super::SharedSecret;
use core::fmt;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// Length of the hash, and of every secret, in bytes.
const LEN: usize = 32;
/// What DTLS 1.3 puts before every label (RFC 9147, section 5.9): no space at the end.
const PREFIX: &[u8] = b"dtls13";
/// The longest output of HKDF-Expand: 255 blocks of the hash.
const LONGEST: usize = 255 * LEN;

/// A secret of the schedule and the one way to derive from it.
#[derive(Clone, ZeroizeOnDrop)]
struct Secret([u8; LEN]);

impl Secret {
    /// HKDF-Extract.
    fn extract(salt: &[u8], ikm: &[u8]) -> Self {
        let (prk, _) = Hkdf::<Sha256>::extract(Some(salt), ikm);
        Self(prk.into())
    }

    /// HKDF-Expand-Label (RFC 8446, section 7.1).
    fn expand(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> Result<(), ExportTooLong> {
        let length = u16::try_from(out.len()).map_err(|_| ExportTooLong)?;
        let label_len = u8::try_from(PREFIX.len() + label.len()).map_err(|_| ExportTooLong)?;
        let context_len = u8::try_from(context.len()).map_err(|_| ExportTooLong)?;
        let info: [&[u8]; 6] =
            [&length.to_be_bytes(), &[label_len], PREFIX, label, &[context_len], context];
        let hkdf = Hkdf::<Sha256>::from_prk(&self.0).expect("the secret is as long as the hash");
        hkdf.expand_multi_info(&info, out).map_err(|_| ExportTooLong)
    }

    /// HKDF-Expand-Label to a new secret, for labels and contexts of the schedule's own.
    fn derive(&self, label: &[u8], context: &[u8]) -> Self {
        let mut out = Self([0; LEN]);
        self.expand(label, context, &mut out.0).expect("labels of the schedule are short");
        out
    }

    /// Derive-Secret(., "derived", ""), the salt of the next stage.
    fn derived(&self) -> Self {
        self.derive(b"derived", &empty_hash())
    }
}

fn empty_hash() -> [u8; LEN] {
    Sha256::digest([]).into()
}

/// Hides the content of secrets from `Debug`.
macro_rules! opaque {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    )*};
}
opaque!(
    BinderKey,
    EarlySecret,
    ExporterSecret,
    FinishedKey,
    HandshakeSecret,
    MasterSecret,
    ResumptionSecret,
    TrafficSecret
);

/// The output, label or context is longer than HKDF-Expand-Label can take:
/// 8160, 249 and 255 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportTooLong;

impl fmt::Display for ExportTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "label over 249 bytes or output over {LONGEST} bytes")
    }
}

impl core::error::Error for ExportTooLong {}

/// The first stage: the pre-shared key, or nothing.
pub struct EarlySecret(Secret);

impl EarlySecret {
    /// The stage for a handshake under `psk`, external or resumed.
    pub fn from_psk(psk: &[u8]) -> Self {
        Self(Secret::extract(&[0; LEN], psk))
    }

    /// The stage for a handshake without a pre-shared key.
    pub fn without_psk() -> Self {
        Self::from_psk(&[0; LEN])
    }

    /// What binds an external pre-shared key to a ClientHello.
    pub fn external_binder(&self) -> BinderKey {
        BinderKey::new(&self.0, b"ext binder")
    }

    /// What binds a resumption pre-shared key to a ClientHello.
    pub fn resumption_binder(&self) -> BinderKey {
        BinderKey::new(&self.0, b"res binder")
    }

    /// The next stage; `None` for a handshake with the pre-shared key alone (psk_ke).
    pub fn into_handshake(self, shared: Option<&SharedSecret>) -> HandshakeSecret {
        let ikm: &[u8] = shared.map_or(&[0; LEN], SharedSecret::as_bytes);
        HandshakeSecret(Secret::extract(&self.0.derived().0, ikm))
    }
}

/// The second stage.
pub struct HandshakeSecret(Secret);

impl HandshakeSecret {
    /// The client's secret for epoch 2; `hash` ends with the ServerHello.
    pub fn client_traffic(&self, hash: &[u8; LEN]) -> TrafficSecret {
        TrafficSecret(self.0.derive(b"c hs traffic", hash))
    }

    /// The server's secret for epoch 2; `hash` ends with the ServerHello.
    pub fn server_traffic(&self, hash: &[u8; LEN]) -> TrafficSecret {
        TrafficSecret(self.0.derive(b"s hs traffic", hash))
    }

    /// The last stage.
    pub fn into_master(self) -> MasterSecret {
        MasterSecret(Secret::extract(&self.0.derived().0, &[0; LEN]))
    }
}

/// The last stage.
pub struct MasterSecret(Secret);

impl MasterSecret {
    /// The client's secret for epoch 3; `hash` ends with the server's Finished.
    pub fn client_traffic(&self, hash: &[u8; LEN]) -> TrafficSecret {
        TrafficSecret(self.0.derive(b"c ap traffic", hash))
    }

    /// The server's secret for epoch 3; `hash` ends with the server's Finished.
    pub fn server_traffic(&self, hash: &[u8; LEN]) -> TrafficSecret {
        TrafficSecret(self.0.derive(b"s ap traffic", hash))
    }

    /// The exporter's secret; `hash` ends with the server's Finished.
    pub fn exporter(&self, hash: &[u8; LEN]) -> ExporterSecret {
        ExporterSecret(self.0.derive(b"exp master", hash))
    }

    /// What session tickets derive from; `hash` ends with the client's Finished.
    pub fn resumption(&self, hash: &[u8; LEN]) -> ResumptionSecret {
        ResumptionSecret(self.0.derive(b"res master", hash))
    }
}

/// The secret of one direction of one epoch.
#[derive(Clone)]
pub struct TrafficSecret(Secret);

impl TrafficSecret {
    /// A secret that was agreed on elsewhere, for vectors and for engines with
    /// a key schedule of their own.
    pub const fn new(secret: [u8; LEN]) -> Self {
        Self(Secret(secret))
    }

    /// Fills `out` with HKDF-Expand-Label of this secret, prefix `dtls13`
    /// included, for keys of a fixed length.
    ///
    /// # Panics
    /// Beyond 249 bytes of label, 255 of context or 8160 of output.
    pub fn expand(&self, label: &str, context: &[u8], out: &mut [u8]) {
        self.0.expand(label.as_bytes(), context, out).expect("labels of keys are short");
    }

    /// What Finished messages in this direction are computed with.
    pub fn finished_key(&self) -> FinishedKey {
        FinishedKey(self.0.derive(b"finished", &[]))
    }

    /// The secret of the next epoch after a KeyUpdate (RFC 8446, section 7.2).
    #[must_use]
    pub fn next(&self) -> Self {
        Self(self.0.derive(b"traffic upd", &[]))
    }

    /// The bytes, for a key log alone.
    #[allow(dead_code, reason = "the key log is a host's choice")]
    pub(crate) const fn as_bytes(&self) -> &[u8; LEN] {
        &self.0.0
    }
}

/// Computes and checks `verify_data` (RFC 8446, section 4.4.4).
pub struct FinishedKey(Secret);

impl FinishedKey {
    /// The HMAC of the transcript's hash.
    pub fn verify_data(&self, hash: &[u8; LEN]) -> [u8; LEN] {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0.0).expect("HMAC takes any key");
        mac.chain_update(hash).finalize().into_bytes().into()
    }

    /// Whether `verify_data` is right, in constant time.
    pub fn verify(&self, hash: &[u8; LEN], verify_data: &[u8]) -> bool {
        self.verify_data(hash).ct_eq(verify_data).into()
    }
}

/// Computes and checks PSK binders (RFC 8446, section 4.2.11.2).
pub struct BinderKey(FinishedKey);

impl BinderKey {
    fn new(early: &Secret, label: &[u8]) -> Self {
        Self(FinishedKey(early.derive(label, &empty_hash()).derive(b"finished", &[])))
    }

    /// The binder over the hash of the truncated ClientHello.
    pub fn verify_data(&self, hash: &[u8; LEN]) -> [u8; LEN] {
        self.0.verify_data(hash)
    }

    /// Whether `binder` is right, in constant time.
    pub fn verify(&self, hash: &[u8; LEN], binder: &[u8]) -> bool {
        self.0.verify(hash, binder)
    }
}

/// What exported keying material derives from (RFC 8446, section 7.5).
pub struct ExporterSecret(Secret);

impl ExporterSecret {
    /// Fills `out` with keying material for `label` and `context`.
    ///
    /// # Errors
    /// `label` is over 249 bytes or `out` over 8160.
    pub fn export(
        &self,
        label: &[u8],
        context: &[u8],
        out: &mut [u8],
    ) -> Result<(), ExportTooLong> {
        let mut secret = Secret([0; LEN]);
        self.0.expand(label, &empty_hash(), &mut secret.0)?;
        secret.expand(b"exporter", &Sha256::digest(context), out)
    }
}

/// What the pre-shared keys of tickets derive from (RFC 8446, section 4.6.1).
pub struct ResumptionSecret(Secret);

impl ResumptionSecret {
    /// The pre-shared key of the ticket with `nonce`, at most 255 bytes.
    ///
    /// # Panics
    /// Beyond 255 bytes, which a ticket's nonce cannot be.
    pub fn psk(&self, nonce: &[u8]) -> Zeroizing<[u8; LEN]> {
        Zeroizing::new(self.0.derive(b"resumption", nonce).0)
    }
}
