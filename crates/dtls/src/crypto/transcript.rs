//! The transcript hash (RFC 8446, section 4.4.1).

use super::hash::{Hash, HashValue, RunningHash};
use core::fmt;

/// The hash of the handshake messages so far, in their TLS form (RFC 9147,
/// section 5.2: type and length, without the DTLS message number and fragment fields).
#[derive(Clone)]
pub struct Transcript {
    hash: &'static dyn Hash,
    running: RunningHash,
}

impl Transcript {
    /// An empty transcript.
    pub fn new(hash: &'static dyn Hash) -> Self {
        Self { hash, running: hash.start() }
    }

    /// Forgets everything appended so far.
    pub fn clear(&mut self) {
        self.running = self.hash.start();
    }

    /// Appends message bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.running.update(bytes);
    }

    /// The hash of everything appended so far.
    pub fn hash(&self) -> HashValue {
        HashValue::new(self.hash.algorithm(), |out| self.running.value(out))
    }

    /// Replaces everything appended so far (the first ClientHello) by the synthetic `message_hash`
    /// message that stands for it after a HelloRetryRequest.
    pub fn replace_with_message_hash(&mut self) {
        *self = Self::of_message_hash(self.hash, &self.hash());
    }

    /// The transcript of a server that kept only the hash of the first ClientHello, in a cookie.
    pub fn of_message_hash(hash: &'static dyn Hash, value: &[u8]) -> Self {
        // HandshakeType `message_hash`, then a 24-bit length.
        let header = [254, 0, 0, value.len() as u8];
        let mut transcript = Self::new(hash);
        transcript.update(&header);
        transcript.update(value);
        transcript
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
    use crate::crypto::Sha256;

    #[test]
    fn message_hash_stands_for_the_first_hello() {
        let mut transcript = Transcript::new(&Sha256);
        transcript.update(b"abc");
        let first = transcript.hash();
        // FIPS 180-2, appendix B.1.
        assert_eq!(first[..4], [0xba, 0x78, 0x16, 0xbf]);
        transcript.replace_with_message_hash();
        transcript.update(b"more");
        let mut expected = [0; 32];
        Sha256.digest(&[&[0xfe, 0, 0, 0x20], &first, b"more"], &mut expected);
        assert_eq!(transcript.hash()[..], expected);
    }
}
