//! Return routability checks (RFC 9853, section 4): content of records of type 27.

use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Encode, Reader, Writer};

/// The type of a path message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMessageKind {
    /// A challenge, whose receiver returns its cookie.
    Challenge,
    /// A response with the cookie of a challenge.
    Response,
    /// A response with the cookie of a challenge that came over a path that its receiver no longer
    /// prefers.
    Drop,
}

/// A path message.
///
/// ```text
/// | type | cookie (64) |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMessage {
    /// The type of the message.
    pub kind: PathMessageKind,
    /// The cookie: random in a challenge, copied from the challenge in a response.
    pub cookie: [u8; 8],
}

impl PathMessage {
    /// The length of a path message in bytes.
    pub const LEN: usize = 9;
}

/// Parses a path message. `None` stands for an unknown type, which must be ignored regardless of
/// what follows the type.
pub fn read(bytes: &[u8]) -> Result<Option<PathMessage>, DecodeError> {
    let mut r = Reader::new(bytes);
    let kind = match r.u8()? {
        0 => PathMessageKind::Challenge,
        1 => PathMessageKind::Response,
        2 => PathMessageKind::Drop,
        _ => return Ok(None),
    };
    let cookie = r.array()?;
    r.finish()?;
    Ok(Some(PathMessage { kind, cookie }))
}

impl Encode for PathMessage {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(match self.kind {
            PathMessageKind::Challenge => 0,
            PathMessageKind::Response => 1,
            PathMessageKind::Drop => 2,
        })?;
        w.bytes(&self.cookie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_every_cut_and_unknown_types() {
        let kinds = [PathMessageKind::Challenge, PathMessageKind::Response, PathMessageKind::Drop];
        for (kind, number) in kinds.into_iter().zip(0..) {
            let message = PathMessage { kind, cookie: *b"a cookie" };
            let mut buf = [0; 10];
            let mut w = Writer::new(&mut buf);
            w.put(&message).unwrap();
            assert_eq!(w.finish().len(), PathMessage::LEN);
            assert_eq!(buf[0], number);
            assert_eq!(read(&buf[..9]), Ok(Some(message)));
            for cut in 0..9 {
                assert_eq!(read(&buf[..cut]), Err(DecodeError::Short));
            }
            assert_eq!(read(&buf), Err(DecodeError::Trailing));
        }
        for number in 3..=255 {
            assert_eq!(read(&[number]), Ok(None));
            assert_eq!(read(&[number; 20]), Ok(None));
        }
    }
}
