//! The key schedule of DTLS 1.3 (RFC 8446, section 7.1), one type for each stage. The hash is that
//! of the cipher suite.
//!
//! ```text
//! EarlySecret ──► HandshakeSecret ──► MasterSecret
//!   ├ BinderKey     └ TrafficSecret     ├ TrafficSecret
//!   ├ TrafficSecret                     ├ ExporterSecret
//!   └ ExporterSecret                    └ ResumptionSecret
//! ```
//!
//! A stage is consumed by the next one, so a secret lives no longer than the
//! handshake state that may use it. Every secret is zeroized when dropped.

use super::SharedSecret;
use super::hash::{Hash, HashValue, HmacKey, LONGEST_OUTPUT};
use crate::parts::Exporter;
use core::fmt;
use subtle::ConstantTimeEq;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// The prefix of every label in DTLS 1.3 (RFC 9147, section 5.9), without a space at the end.
const PREFIX: &[u8] = b"dtls13";
/// The longest output of HKDF-Expand in hash values.
const MOST_BLOCKS: usize = 255;

/// As many zeros as a hash value has bytes.
fn zeros(hash: &dyn Hash) -> &'static [u8] {
    &[0; LONGEST_OUTPUT][..hash.algorithm().output_len()]
}

/// A secret of the schedule.
#[derive(Clone, ZeroizeOnDrop)]
struct Secret {
    #[zeroize(skip)]
    hash: &'static dyn Hash,
    bytes: HashValue,
}

impl Secret {
    /// HKDF-Extract.
    fn extract(hash: &'static dyn Hash, salt: &[u8], ikm: &[u8]) -> Self {
        Self { hash, bytes: HashValue::new(hash.algorithm(), |out| hash.extract(salt, ikm, out)) }
    }

    fn derivation(&self) -> KeyDerivation {
        KeyDerivation(HmacKey::new(self.hash, &self.bytes))
    }

    /// HKDF-Expand-Label to a new secret, for the labels and contexts of the schedule.
    fn derive(&self, label: &[u8], context: &[u8]) -> Self {
        self.derivation().derive(label, context)
    }
}

/// Derives keys and further secrets from one secret. HMAC is keyed once for all of them. The secret
/// is zeroized when it is dropped.
pub struct KeyDerivation(HmacKey);

impl KeyDerivation {
    /// Fills `out` with HKDF-Expand-Label of the secret, prefix `dtls13`
    /// included, for keys of a fixed length.
    ///
    /// # Panics
    /// If the label is longer than 249 bytes, the context than 255 or the output than 255 hash
    /// values.
    pub fn expand(&self, label: &str, context: &[u8], out: &mut [u8]) {
        self.expand_label(label.as_bytes(), context, out).expect("labels of keys are short");
    }

    /// A key for HMAC over the hash of the secret, and as long as its hash values, derived as by
    /// [`expand`](Self::expand).
    ///
    /// # Panics
    /// As `expand`.
    pub fn hmac_key(&self, label: &str, context: &[u8]) -> HmacKey {
        HmacKey::new(self.0.hash(), &self.derive(label.as_bytes(), context).bytes)
    }

    /// HKDF-Expand-Label (RFC 8446, section 7.1).
    fn expand_label(
        &self,
        label: &[u8],
        context: &[u8],
        out: &mut [u8],
    ) -> Result<(), ExportError> {
        let length = u16::try_from(out.len()).map_err(|_| ExportError::TooLong)?;
        let label_len =
            u8::try_from(PREFIX.len() + label.len()).map_err(|_| ExportError::TooLong)?;
        let context_len = u8::try_from(context.len()).map_err(|_| ExportError::TooLong)?;
        if out.len() > MOST_BLOCKS * self.0.hash().algorithm().output_len() {
            return Err(ExportError::TooLong);
        }
        let info: [&[u8]; 6] =
            [&length.to_be_bytes(), &[label_len], PREFIX, label, &[context_len], context];
        self.0.expand(&info, out);
        Ok(())
    }

    fn derive(&self, label: &[u8], context: &[u8]) -> Secret {
        let hash = self.0.hash();
        let bytes = HashValue::new(hash.algorithm(), |out| {
            self.expand_label(label, context, out).expect("labels of the schedule are short");
        });
        Secret { hash, bytes }
    }

    /// HKDF-Extract with Derive-Secret(., "derived", "") as the salt: the next stage.
    fn next_stage(&self, ikm: &[u8]) -> Secret {
        let hash = self.0.hash();
        Secret::extract(hash, &self.derive(b"derived", &empty_hash(hash)).bytes, ikm)
    }
}

fn empty_hash(hash: &dyn Hash) -> HashValue {
    HashValue::new(hash.algorithm(), |out| hash.digest(&[], out))
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
pub(super) use opaque;
opaque!(
    BinderKey,
    EarlySecret,
    ExporterSecret,
    FinishedKey,
    HandshakeSecret,
    KeptSecret,
    KeyDerivation,
    MasterSecret,
    ResumptionSecret,
    TrafficSecret
);

/// Why keying material was not exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportError {
    /// The handshake is not complete, or the association has ended.
    NotConnected,
    /// An input or the output is too long: in DTLS 1.3 the label (249 bytes) or the output (255
    /// hash values), in 1.2 the context (65535).
    TooLong,
    /// The label is one that DTLS 1.2 itself uses (RFC 5705, section 4).
    ReservedLabel,
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected => f.write_str("handshake not complete, or association closed"),
            Self::TooLong => f.write_str(
                "label over 249 bytes, output over 255 hash values or context over 65535 bytes",
            ),
            Self::ReservedLabel => f.write_str("a label that the protocol itself uses"),
        }
    }
}

impl core::error::Error for ExportError {}

/// The first stage, derived from the pre-shared key, if there is one.
pub struct EarlySecret(Secret);

impl EarlySecret {
    /// The stage for a handshake under `psk`, external or resumed.
    pub fn from_psk(hash: &'static dyn Hash, psk: &[u8]) -> Self {
        Self(Secret::extract(hash, zeros(hash), psk))
    }

    /// The stage for a handshake without a pre-shared key.
    pub fn without_psk(hash: &'static dyn Hash) -> Self {
        Self::from_psk(hash, zeros(hash))
    }

    /// The hash of the stage, to which its pre-shared key is bound.
    pub(crate) fn hash(&self) -> &'static dyn Hash {
        self.0.hash
    }

    /// The key of the binder for an external pre-shared key.
    pub fn external_binder(&self) -> BinderKey {
        BinderKey::new(&self.0, b"ext binder")
    }

    /// The key of the binder for a resumption pre-shared key.
    pub fn resumption_binder(&self) -> BinderKey {
        BinderKey::new(&self.0, b"res binder")
    }

    /// The length in bytes of a secret and of a binder.
    pub fn output_len(&self) -> usize {
        self.0.bytes.len()
    }

    /// The key of the binder for an imported pre-shared key (RFC 9258, section 5.2).
    pub fn imported_binder(&self) -> BinderKey {
        BinderKey::new(&self.0, b"imp binder")
    }

    /// The client's secret for epoch 1, which protects early data; `hash` ends with the ClientHello.
    pub fn client_early_traffic(&self, hash: &[u8]) -> TrafficSecret {
        TrafficSecret(self.0.derive(b"c e traffic", hash))
    }

    /// The exporter's secret for early data; `hash` ends with the ClientHello.
    pub fn early_exporter(&self, hash: &[u8]) -> ExporterSecret {
        ExporterSecret(self.0.derive(b"e exp master", hash))
    }

    /// The next stage. `shared` is `None` for a handshake with the pre-shared key alone (psk_ke).
    pub fn into_handshake(self, shared: Option<&SharedSecret>) -> HandshakeSecret {
        let ikm = shared.map_or(zeros(self.0.hash), SharedSecret::as_bytes);
        HandshakeSecret(self.0.derivation().next_stage(ikm).derivation())
    }
}

/// The second stage, from which the handshake's keys are derived. It lives only while they are.
pub struct HandshakeSecret(KeyDerivation);

impl HandshakeSecret {
    /// The client's secret for epoch 2; `hash` ends with the ServerHello.
    pub fn client_traffic(&self, hash: &[u8]) -> TrafficSecret {
        TrafficSecret(self.0.derive(b"c hs traffic", hash))
    }

    /// The server's secret for epoch 2; `hash` ends with the ServerHello.
    pub fn server_traffic(&self, hash: &[u8]) -> TrafficSecret {
        TrafficSecret(self.0.derive(b"s hs traffic", hash))
    }

    /// The next stage, which is the last one.
    pub fn into_master(self) -> MasterSecret {
        MasterSecret(self.0.next_stage(zeros(self.0.0.hash())))
    }
}

/// The last stage, from which the keys of application data are derived.
pub struct MasterSecret(Secret);

/// The secrets of application data.
#[derive(Debug)]
pub struct ApplicationSecrets {
    /// The client's secret for epoch 3.
    pub client: TrafficSecret,
    /// The server's secret for epoch 3.
    pub server: TrafficSecret,
    /// The exporter's secret; `None` without the feature `exporter`.
    pub exporter: Option<ExporterSecret>,
}

impl MasterSecret {
    /// The secrets of application data; `hash` ends with the server's Finished.
    pub fn application(&self, hash: &[u8]) -> ApplicationSecrets {
        let keys = self.0.derivation();
        ApplicationSecrets {
            client: TrafficSecret(keys.derive(b"c ap traffic", hash)),
            server: TrafficSecret(keys.derive(b"s ap traffic", hash)),
            exporter: Exporter::INCLUDED.map(|_| ExporterSecret(keys.derive(b"exp master", hash))),
        }
    }

    /// The secret from which session tickets are derived; `hash` ends with the client's Finished.
    pub fn resumption(&self, hash: &[u8]) -> ResumptionSecret {
        ResumptionSecret(self.0.derive(b"res master", hash))
    }
}

/// The secret of one direction of one epoch.
#[derive(Clone)]
pub struct TrafficSecret(Secret);

impl TrafficSecret {
    /// A secret that was agreed on elsewhere: for test vectors, and for engines with a key schedule
    /// of their own. Keys are derived from it with `hash`.
    ///
    /// # Panics
    /// If `secret` is not as long as a hash value.
    pub fn new(hash: &'static dyn Hash, secret: &[u8]) -> Self {
        let len = hash.algorithm().output_len();
        assert_eq!(secret.len(), len, "a secret is as long as a hash value");
        let bytes = HashValue::new(hash.algorithm(), |out| out.copy_from_slice(secret));
        Self(Secret { hash, bytes })
    }

    /// HKDF-Extract (RFC 5869, section 2.2), for engines with a key schedule of their own.
    pub fn extract(hash: &'static dyn Hash, salt: &[u8], ikm: &[u8]) -> Self {
        Self(Secret::extract(hash, salt, ikm))
    }

    /// HKDF-Extract with this secret as the salt.
    #[must_use]
    pub fn extract_from(&self, ikm: &[u8]) -> Self {
        Self::extract(self.0.hash, &self.0.bytes, ikm)
    }

    /// A secret derived from this one, as [`expand`](Self::expand) derives keys.
    ///
    /// # Panics
    /// As `expand`.
    #[must_use]
    pub fn derive(&self, label: &str, context: &[u8]) -> Self {
        Self(self.0.derive(label.as_bytes(), context))
    }

    /// Derives several keys from this secret.
    pub fn derivation(&self) -> KeyDerivation {
        self.0.derivation()
    }

    /// Derives one key, as [`KeyDerivation::expand`].
    ///
    /// # Panics
    /// As [`KeyDerivation::expand`].
    pub fn expand(&self, label: &str, context: &[u8], out: &mut [u8]) {
        self.derivation().expand(label, context, out);
    }

    /// The key of Finished messages in this direction.
    pub fn finished_key(&self) -> FinishedKey {
        FinishedKey(self.0.derive(b"finished", &[]))
    }

    /// The secret of the next epoch after a KeyUpdate (RFC 8446, section 7.2).
    #[must_use]
    pub fn next(&self) -> Self {
        Self(self.0.derive(b"traffic upd", &[]))
    }

    /// The bytes of the secret, for a key log and for associations that sleep or are saved.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// A second copy of the secret. An association that is saved must write it although its keys were
    /// derived long ago.
    pub(crate) fn copy(&self) -> Self {
        Self(self.0.clone())
    }
}

/// A secret that is kept without its hash function, which its cipher suite names.
#[derive(ZeroizeOnDrop)]
pub(crate) struct KeptSecret(HashValue);

impl KeptSecret {
    /// A copy of the secret.
    pub(crate) const fn of(TrafficSecret(secret): &TrafficSecret) -> Self {
        Self(secret.bytes)
    }

    /// A copy of the exporter's secret.
    pub(crate) const fn of_exporter(ExporterSecret(secret): &ExporterSecret) -> Self {
        Self(secret.bytes)
    }

    /// The secret of one direction of one epoch.
    pub(crate) const fn traffic(&self, hash: &'static dyn Hash) -> TrafficSecret {
        TrafficSecret(Secret { hash, bytes: self.0 })
    }

    /// The exporter's secret.
    #[cfg(feature = "exporter")]
    pub(crate) const fn exporter(&self, hash: &'static dyn Hash) -> ExporterSecret {
        ExporterSecret(Secret { hash, bytes: self.0 })
    }

    /// The bytes of the secret, for associations that sleep or are saved.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Computes and checks `verify_data` (RFC 8446, section 4.4.4).
pub struct FinishedKey(Secret);

impl FinishedKey {
    /// The HMAC of the transcript's hash.
    pub fn verify_data(&self, hash: &[u8]) -> HashValue {
        let Secret { hash: function, bytes } = &self.0;
        HashValue::new(function.algorithm(), |out| function.hmac(bytes, &[hash], out))
    }

    /// Whether `verify_data` is correct, in constant time.
    pub fn verify(&self, hash: &[u8], verify_data: &[u8]) -> bool {
        self.verify_data(hash).ct_eq(verify_data).into()
    }
}

/// Computes and checks PSK binders (RFC 8446, section 4.2.11.2).
pub struct BinderKey(FinishedKey);

impl BinderKey {
    fn new(early: &Secret, label: &[u8]) -> Self {
        Self(FinishedKey(early.derive(label, &empty_hash(early.hash)).derive(b"finished", &[])))
    }

    /// The binder over the hash of the truncated ClientHello.
    pub fn verify_data(&self, hash: &[u8]) -> HashValue {
        self.0.verify_data(hash)
    }

    /// Whether `binder` is correct, in constant time.
    pub fn verify(&self, hash: &[u8], binder: &[u8]) -> bool {
        self.0.verify(hash, binder)
    }
}

/// The secret from which exported keying material is derived (RFC 8446, section 7.5).
pub struct ExporterSecret(Secret);

impl ExporterSecret {
    /// The secret with these bytes, as many as a hash value has.
    pub(crate) fn new(hash: &'static dyn Hash, secret: &[u8]) -> Self {
        Self(TrafficSecret::new(hash, secret).0)
    }

    /// The bytes of the secret, for a key log and for associations that sleep.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Fills `out` with keying material for `label` and `context`.
    ///
    /// # Errors
    /// Fails if `label` is longer than 249 bytes or `out` than 255 hash values.
    pub fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> Result<(), ExportError> {
        let hash = self.0.hash;
        let bytes = HashValue::new(hash.algorithm(), |_| {});
        let mut secret = Secret { hash, bytes };
        self.0.derivation().expand_label(label, &empty_hash(hash), &mut secret.bytes)?;
        let digest = HashValue::new(hash.algorithm(), |out| hash.digest(&[context], out));
        secret.derivation().expand_label(b"exporter", &digest, out)
    }
}

/// The secret from which the pre-shared keys of tickets are derived (RFC 8446, section 4.6.1).
pub struct ResumptionSecret(Secret);

impl ResumptionSecret {
    /// The pre-shared key of the ticket with `nonce`, at most 255 bytes.
    ///
    /// # Panics
    /// If `nonce` is longer than 255 bytes, which a ticket's nonce cannot be.
    pub fn psk(&self, nonce: &[u8]) -> Zeroizing<HashValue> {
        Zeroizing::new(self.0.derive(b"resumption", nonce).bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Sha256;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    const LEN: usize = 32;
    /// The longest output with SHA-256.
    const LONGEST: usize = MOST_BLOCKS * LEN;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Every output of the schedule, in the order of `tests/known_answers.py`.
    fn outputs(early: EarlySecret, shared: Option<&SharedSecret>) -> Vec<String> {
        let len = early.0.bytes.len();
        let value = |byte| HashValue::from_bytes(&std::vec![byte; len]).unwrap();
        let [one, two, three] = [1, 2, 3].map(value);
        let binders = [early.external_binder(), early.resumption_binder(), early.imported_binder()];
        let early_traffic = early.client_early_traffic(&one);
        let mut early_exported = [0; 20];
        early.early_exporter(&one).export(b"EXPORTER-x", b"context", &mut early_exported).unwrap();
        let handshake = early.into_handshake(shared);
        let traffic = [handshake.client_traffic(&one), handshake.server_traffic(&one)];
        let master = handshake.into_master();
        let ApplicationSecrets { client, server, exporter } = master.application(&two);
        let mut exported = [0; 20];
        exporter.unwrap().export(b"EXPORTER-x", b"context", &mut exported).unwrap();
        let mut outputs: Vec<_> = binders.iter().map(|key| hex(&key.verify_data(&one))).collect();
        outputs.extend(traffic.iter().map(|secret| hex(secret.as_bytes())));
        outputs.push(hex(client.as_bytes()));
        outputs.push(hex(server.as_bytes()));
        outputs.push(hex(client.next().as_bytes()));
        outputs.push(hex(&client.finished_key().verify_data(&three)));
        outputs.push(hex(&exported));
        outputs.push(hex(&master.resumption(&three).psk(&[1, 2])));
        outputs.push(hex(early_traffic.as_bytes()));
        outputs.push(hex(&early_exported));
        outputs
    }

    #[test]
    fn agrees_with_a_second_implementation_under_a_psk_alone() {
        let expected = [
            "3db0fc5a2bdba5d9f04fdf03bd348b9ab548f26dfa345af6923bd10d4e3df8c9",
            "f0b453cc84e8d5269499cc9006706d90a5fa316b2d77387d5d56c67d8dcbbb6a",
            "2905db0b2f7e7da5e28e1466c032d1ac9ae3330b93d63c2c52c86383c5d6a52f",
            "11d4c9834694d286c55976f481ba67fbc117d8ac60231d56736990c901cfcbef",
            "d9c464ac04315e828d5f7abea5b5af5338a1528063f2e872c0ed278ff8d60742",
            "48dfd465c37c3bff7ad193284da29fa1f73cc24f3b700ff17661e6f3bb6089f7",
            "48be880bd5a82d7de31c6662180029b9f3fa2dcc5db6b54d0909e8d2ff75f9ae",
            "0fa3d547b6933aee6e4d9164fa59053008d68fd1b05894c4be21d1f2d105770a",
            "1e8d6d3cca96767e9c08547c471e5fe9a54d90c8a704564d70719a414a544e97",
            "3b91de1985f08032e0c373885165030081978015",
            "5db4c889a3d6ade1bf762cfac6aaf30a3af42ac80035ee0c18f540f2b1e9cfbc",
            "6cbcae5fb5395dbab094262c6a1ec83c32ba32cabb4e499078ed1ecdbeee9982",
            "bb3e51c093007daf52d1c475ca5e058d68e54d02",
        ];
        assert_eq!(outputs(EarlySecret::from_psk(&Sha256, b"secret"), None), expected);
    }

    #[test]
    fn agrees_with_a_second_implementation_under_a_key_exchange() {
        let expected = [
            "5bc2cd8b1787aa835d84ac722dfdf5204a997b29691dba72c57cbd8af7457431",
            "d601ae35e10087f241877a3819de4b6ee400af41f3cc8074d567dff489d9c76f",
            "8f8ba0eac372d1c9cefc703edb984891caaf0da3a180239bf06afa6bcbfbe839",
            "66822e38edd081e069556c26cb83f304ed170745a9febb56c04800aabc426886",
            "4699cffefec9aaa071a863646e45f6fa3ac6a1b774712192c11c67577774e112",
            "cef735d2490879384cce217e9498a8691e24eb81e852d738f2da8b698b573a28",
            "69ca2a760ebde5f2386f151c796f22fba624241fde224427d24ad242fb2d5c92",
            "b3e96f81ce41086fbb9fc00093fb3656dd92426efdc77f760df331a6a35ef45d",
            "5c907b9507eab206c6ac0fa3428d8588a4407a8afdafe5e25ac95a30b2935846",
            "45f06bb9b89a4785be8f6e2fa2d29f54781a553d",
            "7a41c1f1ae5eec6da35f57acfcdb100dc2cedec21f7be4cf25e992a6427a5690",
            "f520e705a2af1f0c56f19b51cb4ea02313735d3607d1a02fe8c6585588eecda1",
            "6cb0d670619c64cdbb3df45403d84f663b51e5e8",
        ];
        let shared = SharedSecret::new(&[9; 32]).unwrap();
        assert_eq!(outputs(EarlySecret::without_psk(&Sha256), Some(&shared)), expected);
    }

    #[cfg(feature = "sha384")]
    #[test]
    fn agrees_with_a_second_implementation_with_sha_384() {
        use crate::crypto::Sha384;
        let psk_ke = [
            "6a134cfdaf21250e99770742d55de4c6c9fbbda59aa4a9b9debeb9ce7bcb9bba97889fa893593661ddc2c992bbb5cd7e",
            "4c58ffb4f74afe8044a8ac0963ebcedbc77e585c51ae2f43cbdbab2725622df6fd6d721a93fe8f44d99a64a1305520be",
            "b3e6e06e67b3e9e804e47886eb5c236c6b9863ecd05a6b3e2510c898bb24550f60599521505ea4479572ff7359b3b05a",
            "1b934c39b5832718a58cec8148b2a7c179ffbd259ee606c9136419439afa5b8a612ccb47797a743bc768d060686c236b",
            "b46f467f4277aeeda2ffdffad0a341b3cd09efd3e155c84fa0d33dc22dc9df0562cbcf3b3fae2a80d74d93c8d1b8cbd9",
            "2a612e5bd6117a858339e4252f23eca4ddf4ebe474c8f3993de47856ad0d11351148cc3ac066d90f0f2e03ae3ed7b279",
            "344a227431fb6899338f03322c79ed685718f3b663ee1cc1d8fca7fe878c1de3e1cc90cfa112be01f7d12a94c329c57b",
            "049a63160bf3926007a5638826d15be11955dc670f8b296cde04a88495368568be35bee32f0cbbae7389082ce599573a",
            "e50dfbbc0a62dfe8e10c60557b1d59db551176c78c24302ee30ccc17ae117ba9b43b6de4b5d75a220135e2973646de1f",
            "9067575458f681eef2b215cf20969f34a202e684",
            "2625fa7dae8e1293c520d620526e65d245ee373be76c12226f98882dd13aa12bdc583350ebaa5ceb5730e08ada97dd75",
            "dc249feea8f0143ebc22917f031ef64aa33a4fd6080a52c1f735dac5e338a273f55756d1785a41ea5244b7f6df4155f8",
            "7de96ffeae2abebbc1eefbb087ebe7e705809ef6",
        ];
        let ecdhe = [
            "1341c209d36446d46cf3559aadaa9614ab09ba7d43631e7470edc3f71a4ca1fa48d65f902c9d57bf37db03375b20f11c",
            "5316e181d8548bd4f34182b1e39488377f609b0c8263f6a6d880a596a1fca85d920aaec3a52b6012811bf6eb4bafb04f",
            "8dca72e7c81caa5ab9f60463853faba931fa012962107d5911c0d5e2e5937dec23d7f0bea0bd6a1f108c235fb5b8611c",
            "4cdb40df5bc0ba5ca01e51ae43c2bc0308bbb69276f1d318c25c83ceacd187e438043d5138a9a39865bc6c892e312544",
            "082b82c55ca28faad6a21d02184f6e52394e8215da3926908d1e5aaa6af794735f118e1d6757cc4f9b22ce0a9780574a",
            "7ec704a9466bf7ef37509575dad30d3a0b5128f525b7ff58847ac95480582b025d66ddbb855279b9e29fc8aa6a5759ae",
            "b70f5f5ba0a315aae9a88b81fde4391c64833d16c60d52ddb1770b069015d5680781d70923510655fa9f65bfe9374a24",
            "d763b4365bf475a0ca757cf97fd364a265aa62594d57547717bb72c2debf0fc84d3b85a17cde095015cecb0dab4bfe1a",
            "a71107ab60e1024df8d8481345b98976c9b2b003e57ad4b442e10c4985b190e3b11eb0ec52ac672bf2c3c4ef0a7eed91",
            "634a1e76662df6c8bf064a1899ff1252a034f5eb",
            "d1004906637127e2d5415e7aa789e83f56939665d4be0ff924ec4bd45f45b0b6648ea1764baabf6f17a53a19b1f93abf",
            "c95ad07ec81ea00cfd0644cef754493e6adc2d4fae22cae303a2bcb2e734707e303b481d38a1845e33a108bed378b92e",
            "b1dfb3d0260065d66f105cc56b22ee94c895c848",
        ];
        assert_eq!(outputs(EarlySecret::from_psk(&Sha384, b"secret"), None), psk_ke);
        let shared = SharedSecret::new(&[9; 32]).unwrap();
        assert_eq!(outputs(EarlySecret::without_psk(&Sha384), Some(&shared)), ecdhe);
    }

    /// RFC 8448, section 3: until the first label is used, the schedules of DTLS and TLS are equal.
    #[test]
    fn early_secret_of_rfc_8448() {
        assert_eq!(
            hex(&EarlySecret::without_psk(&Sha256).0.bytes),
            "33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a"
        );
    }

    #[test]
    fn verify_takes_the_whole_value_and_nothing_else() {
        let key = TrafficSecret::new(&Sha256, &[5; LEN]).finished_key();
        let hash = [6; LEN];
        let good = key.verify_data(&hash);
        assert!(key.verify(&hash, &good));
        for at in 0..LEN {
            let mut bad = good.to_vec();
            bad[at] ^= 0x80;
            assert!(!key.verify(&hash, &bad), "byte {at}");
        }
        assert!(!key.verify(&hash, &good[..31]));
        assert!(!key.verify(&hash, &[&good[..], &[0]].concat()));
        assert!(!key.verify(&[7; LEN], &good));
    }

    #[test]
    fn exports_have_edges() {
        let master = EarlySecret::without_psk(&Sha256).into_handshake(None).into_master();
        let exporter = master.application(&[0; LEN]).exporter.unwrap();
        let mut out = std::vec![0; LONGEST + 1];
        assert_eq!(exporter.export(&[b'x'; 249], b"", &mut out[..LONGEST]), Ok(()));
        assert_eq!(exporter.export(&[b'x'; 250], b"", &mut out[..1]), Err(ExportError::TooLong));
        assert_eq!(exporter.export(b"x", b"", &mut out), Err(ExportError::TooLong));
        assert_eq!(exporter.export(b"", &[0; 1000], &mut []), Ok(()));
    }

    #[test]
    fn schedules_of_others_start_and_go_on_as_ours_do() {
        let early = EarlySecret::from_psk(&Sha256, b"secret");
        let ours = TrafficSecret::extract(&Sha256, &[0; LEN], b"secret");
        assert_eq!(ours.as_bytes(), &*early.0.bytes);
        assert_eq!(ours.derive("traffic upd", &[]).as_bytes(), ours.next().as_bytes());
        let next = TrafficSecret::extract(&Sha256, &early.0.bytes, b"more");
        assert_eq!(ours.extract_from(b"more").as_bytes(), next.as_bytes());
        let mut expanded = [0; LEN];
        ours.expand("x", b"context", &mut expanded);
        assert_eq!(ours.derive("x", b"context").as_bytes(), &expanded);
    }

    #[test]
    fn debug_shows_no_secret() {
        let secret = TrafficSecret::new(&Sha256, &[0x41; LEN]);
        assert_eq!(format!("{secret:?}"), "TrafficSecret(..)");
    }
}
