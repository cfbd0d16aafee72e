//! What a host stores of an association.

use alloc::vec::Vec;
use core::fmt;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};
use zeroize::Zeroizing;

/// How far an association may have come: what is written often. It has no secrets.
///
/// A mark that is larger than necessary costs a successor some record numbers, or payloads that it
/// does not deliver. A mark that is too small lets it use a nonce twice, or deliver a payload twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marks {
    /// The number of the write, counted from 1: a store accepts a write only if it has the one before.
    pub version: u64,
    /// The epoch in which the association sends.
    pub send_epoch: u64,
    /// Record numbers of `send_epoch` below this one may have been used.
    pub send_below: u64,
    /// The newest epoch whose payloads may have been delivered.
    pub deliver_epoch: u64,
    /// Payloads of `deliver_epoch` with record numbers below this one may have been delivered, and all
    /// payloads of earlier epochs.
    pub deliver_below: u64,
    /// How many numbers of `send_epoch` a successor that begins at `send_below` skips at most, with
    /// those that its predecessors have skipped. Zero in DTLS 1.2, whose records state their numbers.
    pub skipped: u64,
}

impl Marks {
    /// The most bytes that marks take: six numbers of up to ten.
    pub const MAX_LEN: usize = 60;

    const fn fields(&self) -> [u64; 6] {
        let Self { version, send_epoch, send_below, deliver_epoch, deliver_below, skipped } = *self;
        [version, send_epoch, send_below, deliver_epoch, deliver_below, skipped]
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        self.fields().into_iter().try_for_each(|field| w.varint(field))
    }

    /// The marks as bytes, in the order of the fields: LEB128 numbers of as few bytes as possible.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [0; Self::MAX_LEN];
        let mut w = Writer::new(&mut bytes);
        self.write(&mut w).expect("six numbers fit");
        w.written().to_vec()
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has written.
    ///
    /// # Errors
    /// Fails for all other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let mut fields = [0; 6];
        for field in &mut fields {
            *field = r.varint()?;
        }
        r.finish()?;
        let [version, send_epoch, send_below, deliver_epoch, deliver_below, skipped] = fields;
        let marks = Self { version, send_epoch, send_below, deliver_epoch, deliver_below, skipped };
        if marks.to_bytes() != bytes {
            return Err(DecodeError::invalid("number with needless bytes"));
        }
        Ok(marks)
    }
}

/// An association as its host stores it: marks, which are written often, and the rest, which is
/// secret and seldom changes. A store writes both at once.
#[derive(Clone, PartialEq, Eq)]
pub struct SavedAssociation {
    /// How far the association may have come.
    pub marks: Marks,
    state: Option<Zeroizing<Vec<u8>>>,
}

impl SavedAssociation {
    /// What a store has read.
    pub fn new(marks: Marks, state: Vec<u8>) -> Self {
        Self { marks, state: Some(Zeroizing::new(state)) }
    }

    pub(super) const fn of(marks: Marks, state: Option<Zeroizing<Vec<u8>>>) -> Self {
        Self { marks, state }
    }

    /// This saved association with newer marks. A host needs it that has not stored the state yet when
    /// the association asks it to store marks alone.
    #[must_use]
    pub fn with(self, marks: Marks) -> Self {
        Self { marks, ..self }
    }

    /// All but the marks: secrets, parameters, connection IDs, unacknowledged messages. `None` if it
    /// has not changed since it was last saved. Whoever reads it can read and forge all records of
    /// the association: a host seals it before it leaves the memory.
    pub fn state(&self) -> Option<&[u8]> {
        self.state.as_ref().map(|state| &***state)
    }
}

/// The length of the state, never its bytes.
impl fmt::Debug for SavedAssociation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedAssociation")
            .field("marks", &self.marks)
            .field("state_bytes", &self.state().map(<[u8]>::len))
            .finish()
    }
}

/// Why an association cannot be saved now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaveError {
    /// The handshake is not complete, or the association is ending.
    NotConnected,
    /// Something is under way that only this process can finish, or output waits for the host: poll
    /// the output, wait for the peer, and try again.
    Busy,
    /// Earlier versions did not save associations with shared tags. This one does, and has no use for
    /// the value.
    SharedTags,
    /// The PSK of the association is no longer known.
    UnknownKey,
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotConnected => "the association is not connected",
            Self::Busy => "the association is busy",
            Self::SharedTags => "associations with shared tags are not saved",
            Self::UnknownKey => "the PSK of the association is not known any more",
        })
    }
}

impl core::error::Error for SaveError {}

/// Why a saved association is not restored. Except for [`Self::LookUpLater`] and [`Self::Full`] it
/// never will be: the peer needs a new handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes are not a saved association, or marks and state do not belong together.
    Malformed(DecodeError),
    /// Another version of the format wrote the bytes.
    Format(u8),
    /// A client's association is to be restored as a server's, or the other way around.
    Role,
    /// The cipher suite or the version is not configured.
    CipherSuite,
    /// Shared tags are not configured for a direction in which the association may use them, or the
    /// build lacks their scheme.
    SharedTags,
    /// The PSK store no longer has the key with which the association was made.
    UnknownKey,
    /// The certificate or raw public key of the peer is not accepted any more, or is of a peer that
    /// the verifier does not remember; or the peer has proved no identity, and now must.
    PeerNotAccepted,
    /// The PSK store or the verifier does not know the answer yet: try again when it does.
    LookUpLater,
    /// Predecessors have skipped more record numbers than the peer can follow.
    Skipped,
    /// The connection IDs do not have the length of the endpoint's.
    ConnectionIdLength,
    /// Another association of the endpoint has one of the connection IDs, or has the address and no
    /// connection ID.
    InUse,
    /// No session slot of the endpoint is free.
    Full,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed(error) => return write!(f, "saved association: {error}"),
            Self::Format(version) => {
                return write!(
                    f,
                    "saved association in format {version}, not {} or {}",
                    super::FORMAT,
                    super::SHARED_FORMAT
                );
            }
            Self::Role => "the association was saved by the other role",
            Self::CipherSuite => "the version or cipher suite of the association is not configured",
            Self::SharedTags => "the shared tags of the association are not configured",
            Self::UnknownKey => "the PSK of the association is not known any more",
            Self::PeerNotAccepted => "the peer is not accepted any more",
            Self::LookUpLater => "the peer of the association is still being looked up",
            Self::Skipped => "too many record numbers were skipped",
            Self::ConnectionIdLength => {
                "the connection IDs differ in length from those of the endpoint"
            }
            Self::InUse => "another association has the connection ID or the address",
            Self::Full => "the endpoint has no room for another association",
        })
    }
}

impl core::error::Error for RestoreError {}

impl From<DecodeError> for RestoreError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_one_form() {
        let marks = Marks {
            version: 1,
            send_epoch: 3,
            send_below: 0x1234,
            deliver_epoch: 4,
            deliver_below: 0,
            skipped: 64,
        };
        let bytes = [1, 3, 0xb4, 0x24, 4, 0, 64];
        assert_eq!(marks.to_bytes(), bytes);
        assert_eq!(Marks::from_bytes(&bytes), Ok(marks));
        for cut in 0..bytes.len() {
            assert_eq!(Marks::from_bytes(&bytes[..cut]), Err(DecodeError::Short), "{cut}");
        }
        let needless = [1, 3, 0xb4, 0x24, 4, 0x80, 0, 64];
        assert!(matches!(Marks::from_bytes(&needless), Err(DecodeError::Invalid(_))));
        assert_eq!(Marks::from_bytes(&[1, 1, 1, 1, 1, 1, 1]), Err(DecodeError::Trailing));
        let most = Marks { version: u64::MAX, send_epoch: u64::MAX, ..marks };
        assert_eq!(Marks::from_bytes(&most.to_bytes()), Ok(most));
    }
}
