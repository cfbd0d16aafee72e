//! The key derivation of DTLS 1.2 (RFC 5246), one type for each stage. The hash is that of the
//! cipher suite.
//!
//! ```text
//! PremasterSecret ──► MasterSecret12 ──► Keys12, Finished, exports
//! ```
//!
//! A secret is stored as a keyed HMAC, for which it is used: its inner and outer blocks are hashed
//! once, and nothing is allocated. Every secret is zeroized when dropped.

use super::hash::{Hash, HashValue, HmacKey, LONGEST_BLOCK, LONGEST_OUTPUT, Parts, RunningHash};
use super::schedule::opaque;
use super::{Aead, CipherSuite12, ExportError, SharedSecret};
use crate::heap::Box;
use core::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Length of the random in a hello, in bytes.
const RANDOM: usize = 32;
/// Length of the master secret in bytes (RFC 5246, section 8.1).
const MASTER: usize = 48;
/// Length of `verify_data` in bytes (RFC 5246, section 7.4.9).
const VERIFY_DATA: usize = 12;
/// The longest key block: two keys of 32 bytes and two IVs of 12.
const KEY_BLOCK: usize = 2 * (32 + 12);

const CLIENT_FINISHED: &[u8] = b"client finished";
const SERVER_FINISHED: &[u8] = b"server finished";
const MASTER_SECRET: &[u8] = b"master secret";
const EXTENDED_MASTER_SECRET: &[u8] = b"extended master secret";
const KEY_EXPANSION: &[u8] = b"key expansion";
/// The labels that exporters must refuse (RFC 5705, section 4).
const OWN_LABELS: [&[u8]; 5] =
    [CLIENT_FINISHED, SERVER_FINISHED, MASTER_SECRET, EXTENDED_MASTER_SECRET, KEY_EXPANSION];

opaque!(Keys12, MasterSecret12, PremasterSecret, Prf12);

/// The pseudorandom function under one secret (RFC 5246, section 5).
#[derive(Clone)]
pub struct Prf12(HmacKey);

impl Prf12 {
    /// The function under a secret of any length.
    pub fn new(hash: &'static dyn Hash, secret: &[u8]) -> Self {
        Self(HmacKey::new(hash, secret))
    }

    /// Fills `out` by P_hash, with `seed` in at most six parts: label ‖ seed.
    pub fn fill(&self, seed: &[&[u8]], out: &mut [u8]) {
        let len = self.0.hash().algorithm().output_len();
        let (mut a, mut block) = ([0; LONGEST_OUTPUT], [0; LONGEST_OUTPUT]);
        let (a, block) = (&mut a[..len], &mut block[..len]);
        self.0.mac(seed, a);
        let mut chunks = out.chunks_mut(len).peekable();
        while let Some(chunk) = chunks.next() {
            self.0.mac(Parts::new(a, seed, &[]).list(), block);
            chunk.copy_from_slice(&block[..chunk.len()]);
            if chunks.peek().is_some() {
                // The next A is the MAC of the current A only.
                self.0.mac(&[a], block);
                a.copy_from_slice(block);
            }
        }
        a.zeroize();
        block.zeroize();
    }
}

/// The first stage: the shared secret of a key exchange, or a pre-shared key with or without one:
///
/// ```text
/// uint16 length of other ‖ other ‖ uint16 length of the key ‖ key
/// ```
///
/// `other` is the shared secret of the key exchange, or, without one, as many zeros as the key has
/// bytes.
pub struct PremasterSecret(Prf12);

impl PremasterSecret {
    /// The pre-shared key alone (RFC 4279, section 2).
    ///
    /// # Panics
    /// If `psk` is longer than 65535 bytes.
    pub fn psk(hash: &'static dyn Hash, psk: &[u8]) -> Self {
        Self::new(hash, OtherSecret::Zeros(psk.len()), psk)
    }

    /// A premaster secret that was made elsewhere, of any length.
    pub fn from_bytes(hash: &'static dyn Hash, bytes: &[u8]) -> Self {
        Self(Prf12::new(hash, bytes))
    }

    /// A key exchange with the pre-shared key (RFC 5489, section 2).
    ///
    /// # Panics
    /// If `psk` is longer than 65535 bytes.
    pub fn ecdhe_psk(hash: &'static dyn Hash, shared: &SharedSecret, psk: &[u8]) -> Self {
        Self::new(hash, OtherSecret::Shared(shared), psk)
    }

    /// A key exchange alone: its shared secret, with leading zeros (RFC 8422, section 5.10).
    pub fn ecdhe(hash: &'static dyn Hash, shared: &SharedSecret) -> Self {
        Self::from_bytes(hash, shared.as_bytes())
    }

    fn new(hash: &'static dyn Hash, other: OtherSecret<'_>, psk: &[u8]) -> Self {
        let length = |len| u16::try_from(len).expect("a pre-shared key has a 16-bit length");
        let other_len = match other {
            OtherSecret::Zeros(len) => len,
            OtherSecret::Shared(shared) => shared.as_bytes().len(),
        };
        let mut key = PremasterWriter::new(hash, 2 + other_len + 2 + psk.len());
        key.update(&length(other_len).to_be_bytes());
        match other {
            OtherSecret::Zeros(len) => {
                let mut left = len;
                while left > 0 {
                    let part = left.min(LONGEST_BLOCK);
                    key.update(&[0; LONGEST_BLOCK][..part]);
                    left -= part;
                }
            }
            OtherSecret::Shared(shared) => key.update(shared.as_bytes()),
        }
        key.update(&length(psk.len()).to_be_bytes());
        key.update(psk);
        Self(Prf12(key.finish(hash)))
    }

    /// The master secret (RFC 5246, section 8.1).
    pub fn into_master(
        self,
        client_random: &[u8; RANDOM],
        server_random: &[u8; RANDOM],
    ) -> MasterSecret12 {
        self.master(&[MASTER_SECRET, client_random, server_random])
    }

    /// The extended master secret (RFC 7627, section 4). `session_hash` ends
    /// with the ClientKeyExchange.
    pub fn into_extended_master(self, session_hash: &[u8]) -> MasterSecret12 {
        self.master(&[EXTENDED_MASTER_SECRET, session_hash])
    }

    fn master(&self, seed: &[&[u8]]) -> MasterSecret12 {
        let mut bytes = MasterBytes([0; MASTER]);
        self.0.fill(seed, &mut bytes.0);
        MasterSecret12 { prf: Prf12::new(self.0.0.hash(), &bytes.0), bytes }
    }
}

enum OtherSecret<'a> {
    Zeros(usize),
    Shared(&'a SharedSecret),
}

/// A premaster secret that is written in parts. Up to the block length it is kept as it is; a
/// longer one is hashed, as HMAC does with its key (RFC 2104, section 2).
enum PremasterWriter {
    Short { block: Zeroizing<[u8; LONGEST_BLOCK]>, len: usize },
    Long(RunningHash),
}

impl PremasterWriter {
    fn new(hash: &dyn Hash, total: usize) -> Self {
        if total <= hash.algorithm().block_len() {
            Self::Short { block: Zeroizing::new([0; LONGEST_BLOCK]), len: 0 }
        } else {
            Self::Long(hash.start())
        }
    }

    fn update(&mut self, part: &[u8]) {
        match self {
            Self::Short { block, len } => {
                block[*len..*len + part.len()].copy_from_slice(part);
                *len += part.len();
            }
            Self::Long(running) => running.update(part),
        }
    }

    fn finish(self, hash: &'static dyn Hash) -> HmacKey {
        match self {
            Self::Short { block, len } => HmacKey::new(hash, &block[..len]),
            Self::Long(running) => {
                let value = HashValue::new(hash.algorithm(), |out| running.value(out));
                HmacKey::new(hash, &Zeroizing::new(value))
            }
        }
    }
}

/// The master secret of a session.
#[derive(Clone)]
pub struct MasterSecret12 {
    bytes: MasterBytes,
    prf: Prf12,
}

#[derive(Clone, ZeroizeOnDrop)]
struct MasterBytes([u8; MASTER]);

impl MasterSecret12 {
    /// The master secret of a session that is resumed, or of a group.
    pub fn from_bytes(hash: &'static dyn Hash, bytes: [u8; MASTER]) -> Self {
        let bytes = MasterBytes(bytes);
        Self { prf: Prf12::new(hash, &bytes.0), bytes }
    }

    /// The bytes of the master secret, for tickets, session stores, a key log and the members of a
    /// group. Anybody who has them can derive every key below.
    pub const fn as_bytes(&self) -> &[u8; MASTER] {
        &self.bytes.0
    }

    /// `verify_data` of the client's Finished (RFC 5246, section 7.4.9).
    /// Compare it in constant time.
    pub fn client_finished(&self, hash: &[u8]) -> [u8; VERIFY_DATA] {
        self.finished(CLIENT_FINISHED, hash)
    }

    /// `verify_data` of the server's Finished.
    pub fn server_finished(&self, hash: &[u8]) -> [u8; VERIFY_DATA] {
        self.finished(SERVER_FINISHED, hash)
    }

    fn finished(&self, label: &[u8], hash: &[u8]) -> [u8; VERIFY_DATA] {
        let mut out = [0; VERIFY_DATA];
        self.prf.fill(&[label, hash], &mut out);
        out
    }

    /// Fills `block` with the first bytes of the key block (RFC 5246, section 6.3).
    pub fn key_block(
        &self,
        client_random: &[u8; RANDOM],
        server_random: &[u8; RANDOM],
        block: &mut [u8],
    ) {
        // The order of the two randoms is the reverse of that in all other derivations.
        self.prf.fill(&[KEY_EXPANSION, server_random, client_random], block);
    }

    /// The keys of a connection (RFC 5246, section 6.3).
    ///
    /// # Panics
    /// If the keys of `suite` are longer than 32 bytes, or its IVs longer than 12.
    pub fn keys(
        &self,
        suite: &CipherSuite12,
        client_random: &[u8; RANDOM],
        server_random: &[u8; RANDOM],
    ) -> Keys12 {
        let (key_len, iv_len) = (suite.key_len, suite.fixed_iv_len);
        let mut buf = Zeroizing::new([0; KEY_BLOCK]);
        let block = &mut buf[..2 * (key_len + iv_len)];
        self.key_block(client_random, server_random, block);
        let (keys, ivs) = block.split_at(2 * key_len);
        let (client_key, server_key) = keys.split_at(key_len);
        let (client_iv, server_iv) = ivs.split_at(iv_len);
        Keys12 {
            client: (suite.aead)(client_key, client_iv),
            server: (suite.aead)(server_key, server_iv),
        }
    }

    /// Fills `out` with keying material for `label` (RFC 5705, section 4).
    /// No context and an empty one give different material.
    ///
    /// # Errors
    /// Fails if `context` is longer than 65535 bytes, or if `label` is one from which other secrets
    /// are derived.
    pub fn export(
        &self,
        label: &[u8],
        context: Option<&[u8]>,
        client_random: &[u8; RANDOM],
        server_random: &[u8; RANDOM],
        out: &mut [u8],
    ) -> Result<(), ExportError> {
        if OWN_LABELS.contains(&label) {
            return Err(ExportError::ReservedLabel);
        }
        let Some(context) = context else {
            self.prf.fill(&[label, client_random, server_random], out);
            return Ok(());
        };
        let length = u16::try_from(context.len()).map_err(|_| ExportError::TooLong)?.to_be_bytes();
        self.prf.fill(&[label, client_random, server_random, &length, context], out);
        Ok(())
    }
}

/// The record protection of a connection.
pub struct Keys12 {
    /// Protects the records that the client sends.
    pub client: Box<dyn Aead>,
    /// Protects the records that the server sends.
    pub server: Box<dyn Aead>,
}

#[cfg(all(test, feature = "rustcrypto"))]
mod tests {
    use super::*;
    use crate::crypto::rustcrypto::{PSK_WITH_AES_128_GCM, PSK_WITH_CHACHA20_POLY1305};
    use crate::crypto::{Record, Sha256};
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    const CLIENT: [u8; RANDOM] = [1; RANDOM];
    const SERVER: [u8; RANDOM] = [2; RANDOM];
    const SESSION: [u8; 32] = [3; 32];

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Every output of the derivation, in the order of `tests/known_answers.py`.
    fn outputs(premaster: fn() -> PremasterSecret) -> Vec<String> {
        let plain = premaster().into_master(&CLIENT, &SERVER);
        let master = premaster().into_extended_master(&SESSION);
        let mut outputs = std::vec![hex(plain.as_bytes()), hex(master.as_bytes())];
        outputs.push(hex(&master.client_finished(&SESSION)));
        outputs.push(hex(&master.server_finished(&SESSION)));
        for context in [None, Some(&b""[..]), Some(b"context")] {
            let mut out = [0; 70];
            master.export(b"EXPORTER-x", context, &CLIENT, &SERVER, &mut out).unwrap();
            outputs.push(hex(&out));
        }
        for suite in [&PSK_WITH_AES_128_GCM, &PSK_WITH_CHACHA20_POLY1305] {
            let keys = master.keys(suite, &CLIENT, &SERVER);
            for aead in [keys.client, keys.server] {
                let (mut content, mut tag) = (*b"x", [0; 16]);
                aead.seal(Record { number: 0, header: &[] }, &mut content, &mut tag);
                outputs.push(hex(&content) + &hex(&tag));
            }
        }
        outputs
    }

    #[test]
    fn agrees_with_a_second_implementation_under_a_psk_alone() {
        let expected = [
            "d1ba917fe2c53da2e0df7299712d18573fae4732a5876d265a77170a15e18454a61105f9bde8dbcbab82f73dbbfe3cd9",
            "ac0d59542bc322517356fbfaf5216f3f69e7533ebad3d4b68504c2d3590acad282f3b0bbf31ba2a93d12b93abda5cb7d",
            "cdc71d5e4f59f5150f7f40ca",
            "7618cf069dbd835a8a3c5bd5",
            "dd2d8015622eaf10c484c442c16227e63581357a0823915ef4b92633108d8e8f3c83d337fbe36d62546dbd01940d632f760761c221a1019a85afe696aab03754108a70567523",
            "89f2f84d9dae9b19f5c79e101daec5f574890cf589912a60506c9637389ba91edf8085649e6dcd4e33ea788d0d9cec9bf80f470dcfcb0ef040bba7ed2b01be53cf5d59e95217",
            "403f311fd90df327d35e7af87c7070851f5dc88fa466b19ac8bdc732eadf11dcfd86942cd15a9eda0ca73a0e8553c8b2d3c96b34cd5145dbae439a01dfe3a61a441dd624872b",
            "f67cbf8d490f1006451eef5d3e252db3d5",
            "9698a20540a4d9a31426e071255335294a",
            "767bc3549a3e24f328c698ec53430585ea",
            "d8e9390d472b6c024347ecc2229dce03ab",
        ];
        assert_eq!(outputs(|| PremasterSecret::psk(&Sha256, b"secret")), expected);
    }

    #[test]
    fn agrees_with_a_second_implementation_under_a_key_exchange() {
        let expected = [
            "6d0ff59cd75b1d6071fa88b96e6316fb0592d2be2263fc4dc08fb5ab0748262edf4bb4a943c36e04dee300010bfffd9a",
            "1c17c6b18c61cd67bc461e1b96478ac3c6a1bbead1a4f85f0d2fa185e58d4146b9d17809ce4fc28cc0ecda0d28640990",
            "f596a7206ba999fe5fa6e1d6",
            "8d8fb1b574fc119812dd5752",
            "5379af7eddefdf5feba380a0d6c0c390b7dada831061f86c7700981aa520a37ace02962c4bbc653f2397bfcdc00001618664ea68b45177c009f79613164a640f0ebc9d272738",
            "735315f0bb9117f15613ea1409e15f9d9bd0ac276693769c06e1d9a20788fc0e75029e4e928bceeb7d4683b811b961887c0a25a736ae2683a05b0bf046cd06b539c257f80a0d",
            "72fff4c0f7e820a524f5da4c82c4d33794e1dae1fc586d0c36611c1fc4f40aa7f82e04a7daa6827c0cd91e01618f90c8ae364b5a1f9625d005dca08e6406087ce9ba9d22dfc4",
            "bd1f1b4f0ab21a5f439a90bbe40f16077a",
            "72d4be8bf5d30cd9caf53497daba26e73e",
            "35adc317b5402a0b50e9fddff7c7d06dd4",
            "41119b4403d94c01d236106c47a2e43ba8",
        ];
        let premaster = || {
            PremasterSecret::ecdhe_psk(&Sha256, &SharedSecret::new(&[9; 32]).unwrap(), b"secret")
        };
        assert_eq!(outputs(premaster), expected);
    }

    /// The lengths are around the one from which HMAC hashes its key.
    #[test]
    fn agrees_with_a_second_implementation_at_every_length() {
        let master =
            |premaster: PremasterSecret| hex(premaster.into_master(&CLIENT, &SERVER).as_bytes());
        let alone = [
            (
                0,
                "a98bd40ec0518245c9d67136d72e66e02cc182cb8a4cdb41b4475c4c2613e8b6020239f7b23e6849d7fd0a287829cc78",
            ),
            (
                30,
                "5f56a10e38b209aa2ebc0159a54f6bb82d0686b8115e013dc80753a4ebccb14904de614525fd01782c84660b1073fc08",
            ),
            (
                31,
                "da2ff0d6befb545576205e79652fe4217808b9a9bcfa436ac39c0c27dea680c3f951656c199eb433df1178899440cc90",
            ),
            (
                100,
                "dbdae2af72bbc8a020a8178e85ee5a7bd0dc01bb767e47b00a2e1428e0821a00d98194ff5ce7c15cac876149b0501771",
            ),
        ];
        for (len, expected) in alone {
            assert_eq!(
                master(PremasterSecret::psk(&Sha256, &std::vec![7; len])),
                expected,
                "{len}"
            );
        }
        let exchanged = [
            (
                26,
                "dd7a07ca14f08826250f4aa7a3fbceb0ed488b0fb02dfa378b591cfbf6b49a4266a64c2f4d139afb9cf3b8e22da97aac",
            ),
            (
                27,
                "55a703cbdaad45d8d4d43407ed507f0f3a4ed64acff2e8e188d4fc27d8146a68bb54d8334c70b5e6bd2a48238251871d",
            ),
        ];
        for (len, expected) in exchanged {
            let shared = SharedSecret::new(&[9; 32]).unwrap();
            let premaster = PremasterSecret::ecdhe_psk(&Sha256, &shared, &std::vec![7; len]);
            assert_eq!(master(premaster), expected, "{len}");
        }
    }

    /// The vector for SHA-256 that was posted to the TLS working group's list:
    /// mailarchive.ietf.org/arch/msg/tls/fzVCzk-z3FShgGJ6DOXqM1ydxms/.
    #[test]
    fn prf_of_the_working_groups_vector() {
        let secret = 0x9bbe436b_a940f017_b1765284_9a71db35u128.to_be_bytes();
        let seed = 0xa0ba9f93_6cda3118_27a6f796_ffd5198cu128.to_be_bytes();
        let expected = "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a\
                        6b301791e90d35c9c9a46b4e14baf9af0fa022f7077def17abfd3797c0564bab\
                        4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701\
                        87347b66";
        for len in [0, 1, 31, 32, 33, 64, 65, 100] {
            let mut out = std::vec![0; len];
            Prf12::new(&Sha256, &secret).fill(&[b"test label", &seed], &mut out);
            assert_eq!(hex(&out), expected[..2 * len]);
        }
    }

    #[test]
    fn a_resumed_session_has_the_same_secret() {
        let master = PremasterSecret::psk(&Sha256, b"secret").into_extended_master(&SESSION);
        let resumed = MasterSecret12::from_bytes(&Sha256, *master.as_bytes());
        assert_eq!(resumed.client_finished(&SESSION), master.client_finished(&SESSION));
        assert_eq!(master.clone().server_finished(&CLIENT), resumed.server_finished(&CLIENT));
    }

    #[test]
    fn exports_have_edges() {
        let master = MasterSecret12::from_bytes(&Sha256, [5; MASTER]);
        let context = std::vec![0; 65536];
        let export =
            |context: &[u8]| master.export(b"x", Some(context), &CLIENT, &SERVER, &mut [0; 40]);
        assert_eq!(export(&context[..65535]), Ok(()));
        assert_eq!(export(&context), Err(ExportError::TooLong));
    }

    #[test]
    fn debug_shows_no_secret() {
        let premaster = PremasterSecret::psk(&Sha256, b"AAAA");
        assert_eq!(format!("{premaster:?}"), "PremasterSecret(..)");
        let master = premaster.into_extended_master(&SESSION);
        assert_eq!(format!("{master:?}"), "MasterSecret12(..)");
        let keys = master.keys(&PSK_WITH_AES_128_GCM, &CLIENT, &SERVER);
        assert_eq!(format!("{keys:?}"), "Keys12(..)");
    }

    #[cfg(feature = "sha384")]
    #[test]
    fn agrees_with_a_second_implementation_with_sha_384() {
        let premaster = PremasterSecret::psk(&crate::crypto::Sha384, b"secret");
        let master = premaster.into_extended_master(&[3; 48]);
        assert_eq!(
            hex(master.as_bytes()),
            "f1ae2074d3821228fdfd944e96b0da96aec227368de53a32de6c7e45ac76767046ce84ae8f0fb21a8a7d3cd1282a9826"
        );
        assert_eq!(hex(&master.client_finished(&[3; 48])), "95c7fb0a10e76e40394f4a27");
    }
}
