//! Compressed certificates (RFC 8879).

use crate::certificates::{RAW, X509, connected, mutual, refused, with_chain};
use lightseal_dtls::codepoints::{AlertDescription, CertificateCompressionAlgorithm};
use lightseal_dtls::{
    BadCertificate, CertificateCompression, CertifiedKey, CloseReason, Fault, ProtocolVersion,
};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::Configs;
use testkit::toy_compression::ToyCompression;
use testkit::toy_signature::{Answers, ToyKey};

const ZLIB: CertificateCompressionAlgorithm = CertificateCompressionAlgorithm::ZLIB;
const ZSTD: CertificateCompressionAlgorithm = CertificateCompressionAlgorithm::ZSTD;

fn toy(algorithm: CertificateCompressionAlgorithm) -> Arc<ToyCompression> {
    Arc::new(ToyCompression::new(algorithm))
}

fn compressed(key: CertifiedKey, with: &dyn CertificateCompression) -> Option<Arc<CertifiedKey>> {
    Some(Arc::new(key.with_compression(with)))
}

/// Both ends have certificates, compressed with one algorithm each, and accept one.
struct Ends {
    configs: Configs,
    client: Arc<ToyCompression>,
    server: Arc<ToyCompression>,
}

fn ends(
    compresses: CertificateCompressionAlgorithm,
    accepts: CertificateCompressionAlgorithm,
) -> Ends {
    let (client, server) = (toy(accepts), toy(accepts));
    let mut configs = with_chain(mutual(X509, X509), 4);
    let key = |number| ToyKey::new(number).x509("server.example", 4);
    configs.server.keys = compressed(key(1), &*toy(compresses)).map(|key| key as _);
    configs.client.keys = compressed(key(2), &*toy(compresses)).map(|key| key as _);
    configs.client.settings.certificate_compression = vec![client.clone()];
    configs.server.settings.certificate_compression = vec![server.clone()];
    Ends { configs, client, server }
}

/// The bytes of the handshake that the server and the client have sent.
fn sent(configs: Configs) -> [u64; 2] {
    let pair = connected(configs, 5);
    let server = pair.server.connection(pair.handle.unwrap()).unwrap();
    let server = server.stats().sent.handshake_bytes;
    [server, pair.client.stats().sent.handshake_bytes]
}

#[test]
fn certificates_of_both_ends_are_compressed_where_the_peer_accepts_it() {
    let plain = sent(ends(ZLIB, ZSTD).configs);
    let both = ends(ZLIB, ZLIB);
    let shorter = sent(both.configs);
    assert_eq!((both.client.decompressed(), both.server.decompressed()), (1, 1));
    assert!(plain[0] > shorter[0] + 200 && plain[1] > shorter[1] + 200, "{plain:?} {shorter:?}");

    let mut one = ends(ZLIB, ZLIB);
    one.configs.server.settings.certificate_compression.clear();
    let [server, client] = sent(one.configs);
    assert_eq!((one.client.decompressed(), one.server.decompressed()), (1, 0));
    assert!(server < plain[0] && client > shorter[1]);
}

#[test]
fn another_algorithm_and_a_version_without_compression_change_nothing() {
    let other = ends(ZSTD, ZLIB);
    connected(other.configs, 1);
    assert_eq!((other.client.decompressed(), other.server.decompressed()), (0, 0));

    let mut older = ends(ZLIB, ZLIB);
    older.configs.client.settings.versions = vec![ProtocolVersion::Dtls12];
    connected(older.configs, 1);
    assert_eq!((older.client.decompressed(), older.server.decompressed()), (0, 0));
}

#[test]
fn a_key_may_answer_later() {
    let mut later = ends(ZLIB, ZLIB);
    let key = |number| ToyKey::new(number).answering(Answers::After(2)).x509("server.example", 4);
    later.configs.server.keys = compressed(key(1), &*toy(ZLIB)).map(|key| key as _);
    later.configs.client.keys = compressed(key(2), &*toy(ZLIB)).map(|key| key as _);
    let mut pair = later.configs.pair(1);
    for _ in 0..10 {
        pair.run_for(Duration::from_secs(3));
        pair.server.lookups_answered(pair.now);
        pair.client.lookups_answered(pair.now);
    }
    pair.assert_connected();
    assert_eq!((later.client.decompressed(), later.server.decompressed()), (1, 1));
}

#[test]
fn what_becomes_no_shorter_is_sent_as_it_is() {
    /// Returns what it gets.
    #[derive(Debug)]
    struct Same;
    impl CertificateCompression for Same {
        fn algorithm(&self) -> CertificateCompressionAlgorithm {
            ZLIB
        }
        fn compress(&self, message: &[u8]) -> Option<Vec<u8>> {
            Some(message.to_vec())
        }
        fn decompress(&self, _: &[u8], _: &mut [u8]) -> bool {
            panic!("nothing is compressed")
        }
    }
    let mut configs = mutual(RAW, X509);
    configs.client.settings.certificate_compression = vec![Arc::new(Same)];
    configs.server.keys = compressed(ToyKey::new(1).raw(), &Same).map(|key| key as _);
    connected(configs, 1);
}

#[test]
fn what_does_not_decompress_to_the_stated_length_is_a_bad_certificate() {
    /// Forgets the end, or adds a byte.
    #[derive(Debug)]
    struct Wrong(bool);
    impl CertificateCompression for Wrong {
        fn algorithm(&self) -> CertificateCompressionAlgorithm {
            ZLIB
        }
        fn compress(&self, message: &[u8]) -> Option<Vec<u8>> {
            let mut content = toy(ZLIB).compress(message)?;
            let whole = content.len();
            if self.0 {
                content.extend([1, 0]);
            } else {
                content.truncate(whole - 2);
            }
            Some(content)
        }
        fn decompress(&self, _: &[u8], _: &mut [u8]) -> bool {
            false
        }
    }
    for adds in [false, true] {
        let mut bad = ends(ZLIB, ZLIB);
        let key = ToyKey::new(1).x509("server.example", 4);
        bad.configs.server.keys = compressed(key, &Wrong(adds)).map(|key| key as _);
        let (client, server) = refused(bad.configs);
        let fault = CloseReason::Fault(Fault::Certificate(BadCertificate::Malformed));
        assert_eq!(client, Some(fault));
        assert_eq!(server, Some(CloseReason::PeerAlert(AlertDescription::BAD_CERTIFICATE)));
        assert_eq!(bad.client.decompressed(), 1);
    }
}
