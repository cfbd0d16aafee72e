//! Compression of certificates (RFC 8879).

use crate::codepoints::CertificateCompressionAlgorithm;
use alloc::vec::Vec;

/// An algorithm that compresses Certificate messages of DTLS 1.3 (RFC 8879). The engine has none of
/// its own.
pub trait CertificateCompression: Send + Sync {
    /// The number by which the ends agree on the algorithm.
    fn algorithm(&self) -> CertificateCompressionAlgorithm;

    /// Compresses a message; `None` if this end only decompresses.
    fn compress(&self, message: &[u8]) -> Option<Vec<u8>>;

    /// Decompresses to `message`, which has the length that the peer has stated: at most
    /// 16 384 bytes. Returns whether the content is valid and has exactly this length.
    fn decompress(&self, compressed: &[u8], message: &mut [u8]) -> bool;
}
