//! Compression of certificates (RFC 8879).

use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_dtls::CertificateCompression;
use lightseal_dtls::codepoints::CertificateCompressionAlgorithm;
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// zlib (RFC 1950). What it takes from a chain is mostly what its certificates have in common: names,
/// and the identifiers of algorithms and extensions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zlib;

/// The level that compresses most: a certificate is compressed once and sent often.
const LEVEL: u8 = 10;

impl CertificateCompression for Zlib {
    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::ZLIB
    }

    fn compress(&self, message: &[u8]) -> Option<Vec<u8>> {
        Some(compress_to_vec_zlib(message, LEVEL))
    }

    fn decompress(&self, compressed: &[u8], message: &mut [u8]) -> bool {
        let flags = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let len = message.len();
        let mut state = Box::<DecompressorOxide>::default();
        let done = decompress(&mut state, compressed, message, 0, flags);
        done == (TINFLStatus::Done, compressed.len(), len)
    }
}
