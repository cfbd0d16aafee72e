//! A compression of certificates that shortens runs of equal bytes.

use lightseal_dtls::CertificateCompression;
use lightseal_dtls::codepoints::CertificateCompressionAlgorithm;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each run of equal bytes is its length in one byte and the byte. How often it was asked to
/// decompress is counted.
#[derive(Debug)]
pub struct ToyCompression {
    algorithm: CertificateCompressionAlgorithm,
    decompressed: AtomicUsize,
}

impl ToyCompression {
    pub const fn new(algorithm: CertificateCompressionAlgorithm) -> Self {
        Self { algorithm, decompressed: AtomicUsize::new(0) }
    }

    /// The number of messages that it was asked to decompress.
    pub fn decompressed(&self) -> usize {
        self.decompressed.load(Ordering::Relaxed)
    }
}

impl CertificateCompression for ToyCompression {
    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        self.algorithm
    }

    fn compress(&self, message: &[u8]) -> Option<Vec<u8>> {
        let runs = message.chunk_by(|a, b| a == b).flat_map(|run| run.chunks(255));
        Some(runs.flat_map(|run| [run.len() as u8, run[0]]).collect())
    }

    fn decompress(&self, compressed: &[u8], mut message: &mut [u8]) -> bool {
        self.decompressed.fetch_add(1, Ordering::Relaxed);
        for run in compressed.chunks(2) {
            let &[len, byte] = run else { return false };
            let Some((now, rest)) = message.split_at_mut_checked(len.into()) else { return false };
            now.fill(byte);
            message = rest;
        }
        message.is_empty()
    }
}
