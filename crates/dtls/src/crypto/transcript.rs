//! The transcript hash (RFC 8446, section 4.4.1).

use super::hash::{Hash, HashValue, RunningHash};
use crate::parts;
use alloc::vec::Vec;
use core::fmt;

/// The hash of the handshake messages so far, in their TLS form (RFC 9147,
/// section 5.2: type and length, without the DTLS message number and fragment fields).
#[derive(Clone)]
pub struct Transcript(Progress);

#[derive(Clone)]
enum Progress {
    /// The suite is not chosen yet, so the messages are kept.
    Undecided(parts::Sha384, Vec<u8>),
    Hashed(&'static dyn Hash, RunningHash),
}

impl Transcript {
    /// An empty transcript.
    pub fn new(hash: &'static dyn Hash) -> Self {
        Self(Progress::Hashed(hash, hash.start()))
    }

    /// An empty transcript of a client that offers suites with several hash algorithms.
    pub(crate) const fn undecided(part: parts::Sha384) -> Self {
        Self(Progress::Undecided(part, Vec::new()))
    }

    /// Decides the hash: that of the suite which the server chose. A hash that was decided before
    /// stays.
    pub(crate) fn decide(&mut self, hash: &'static dyn Hash) {
        if let Progress::Undecided(_, messages) = &self.0 {
            let mut running = hash.start();
            running.update(messages);
            self.0 = Progress::Hashed(hash, running);
        }
    }

    /// Forgets everything appended so far.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Progress::Undecided(_, messages) => messages.clear(),
            Progress::Hashed(hash, running) => *running = hash.start(),
        }
    }

    /// Appends message bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Progress::Undecided(_, messages) => messages.extend_from_slice(bytes),
            Progress::Hashed(_, running) => running.update(bytes),
        }
    }

    /// The hash of everything appended so far.
    ///
    /// # Panics
    /// If the hash algorithm is not decided.
    pub fn hash(&self) -> HashValue {
        let Progress::Hashed(hash, running) = &self.0 else { panic!("the hash is not decided") };
        HashValue::new(hash.algorithm(), |out| running.value(out))
    }

    /// As [`hash`](Self::hash), by this hash if none is decided.
    pub(crate) fn hash_by(&self, hash: &'static dyn Hash) -> HashValue {
        let mut decided = self.clone();
        decided.decide(hash);
        decided.hash()
    }

    /// Replaces everything appended so far (the first ClientHello) by the synthetic `message_hash`
    /// message that stands for it after a HelloRetryRequest.
    ///
    /// # Panics
    /// If the hash algorithm is not decided.
    pub fn replace_with_message_hash(&mut self) {
        let Progress::Hashed(hash, _) = &self.0 else { panic!("the hash is not decided") };
        *self = Self::of_message_hash(*hash, &self.hash());
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

    #[cfg(feature = "sha384")]
    #[test]
    fn messages_before_the_decision_count() {
        let part = parts::Sha384::INCLUDED.expect("the feature is on");
        let mut late = Transcript::undecided(part);
        late.update(b"forgotten");
        late.clear();
        late.update(b"abc");
        let mut abc = Transcript::new(&Sha256);
        abc.update(b"abc");
        assert_eq!(late.hash_by(&Sha256), abc.hash());
        late.decide(&Sha256);
        late.update(b"more");
        late.decide(&Sha256);
        let mut early = Transcript::new(&Sha256);
        early.update(b"abcmore");
        assert_eq!(late.hash(), early.hash());
    }
}
