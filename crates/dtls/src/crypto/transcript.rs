//! The transcript hash (RFC 8446, section 4.4.1).

use core::fmt;
use sha2::{Digest, Sha256};

/// SHA-256 over the handshake messages so far, in their TLS form (RFC 9147,
/// section 5.2: type and length, without the DTLS message number and fragment fields).
#[derive(Clone)]
pub struct Transcript(Sha256);

impl Transcript {
    /// An empty transcript.
    pub fn new() -> Self {
        Self(Sha256::new())
    }

    /// Appends message bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of everything appended so far.
    pub fn hash(&self) -> [u8; 32] {
        self.0.clone().finalize().into()
    }

    /// Replaces everything appended so far (the first ClientHello) by the synthetic `message_hash`
    /// message that stands for it after a HelloRetryRequest.
    pub fn replace_with_message_hash(&mut self) {
        let hash = self.hash();
        *self = Self::of_message_hash(&hash);
    }

    /// The transcript of a server that kept only the hash of the first ClientHello, in a cookie.
    pub fn of_message_hash(hash: &[u8; 32]) -> Self {
        /// HandshakeType `message_hash`, then a 24-bit length.
        const HEADER: [u8; 4] = [254, 0, 0, 32];
        let mut transcript = Self::new();
        transcript.update(&HEADER);
        transcript.update(hash);
        transcript
    }
}

impl Default for Transcript {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transcript(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_hash_stands_for_the_first_hello() {
        let mut transcript = Transcript::new();
        transcript.update(b"abc");
        let first = transcript.hash();
        // FIPS 180-2, appendix B.1.
        assert_eq!(first[..4], [0xba, 0x78, 0x16, 0xbf]);
        transcript.replace_with_message_hash();
        transcript.update(b"more");
        let expected: [u8; 32] = Sha256::new()
            .chain_update([0xfe, 0, 0, 0x20])
            .chain_update(first)
            .chain_update(b"more")
            .finalize()
            .into();
        assert_eq!(transcript.hash(), expected);
    }
}
