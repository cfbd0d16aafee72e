//! NewConnectionId and RequestConnectionId (RFC 9147, section 9).

use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// When a new connection ID is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionIdUsage {
    /// Immediately; the IDs in use are dropped.
    Immediate,
    /// Later, in addition to the IDs in use.
    Spare,
}

/// New connection IDs for the records that its receiver sends.
///
/// ```text
/// | length (16) | { length (8) | connection id } ... | usage |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewConnectionId<'a> {
    /// The encoded list, whose framing was checked.
    cids: &'a [u8],
    /// When the IDs are to be used.
    pub usage: ConnectionIdUsage,
}

impl<'a> NewConnectionId<'a> {
    /// The connection IDs, each of at most 255 bytes. A peer may send tens of thousands.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut r = Reader::new(self.cids);
        core::iter::from_fn(move || r.vec8().ok())
    }
}

impl<'a> Decode<'a> for NewConnectionId<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let cids = r.vec16()?;
        let mut list = Reader::new(cids);
        while !list.is_empty() {
            list.vec8()?;
        }
        let usage = match r.u8()? {
            0 => ConnectionIdUsage::Immediate,
            1 => ConnectionIdUsage::Spare,
            _ => return Err(DecodeError::invalid("ConnectionIdUsage")),
        };
        Ok(Self { cids, usage })
    }
}

/// Writes a NewConnectionId.
pub fn write_new_connection_id<'a>(
    cids: impl IntoIterator<Item = &'a [u8]>,
    usage: ConnectionIdUsage,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    w.vec16(|w| cids.into_iter().try_for_each(|cid| w.vec8(|w| w.bytes(cid))))?;
    w.u8(match usage {
        ConnectionIdUsage::Immediate => 0,
        ConnectionIdUsage::Spare => 1,
    })
}

/// Requests connection IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestConnectionId {
    /// The number of connection IDs requested.
    pub num_cids: u8,
}

impl<'a> Decode<'a> for RequestConnectionId {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { num_cids: r.u8()? })
    }
}

impl Encode for RequestConnectionId {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(self.num_cids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn new_connection_id_round_trip_every_cut_and_usage() {
        let lists: [&[&[u8]]; 3] = [&[], &[b"one"], &[b"one", b"", b"three"]];
        for cids in lists {
            for usage in [ConnectionIdUsage::Immediate, ConnectionIdUsage::Spare] {
                let mut buf = [0; 32];
                let mut w = Writer::new(&mut buf);
                write_new_connection_id(cids.iter().copied(), usage, &mut w).unwrap();
                let bytes = w.finish();
                let message = NewConnectionId::decode(bytes).unwrap();
                assert_eq!(message.iter().collect::<Vec<_>>(), cids);
                assert_eq!(message.usage, usage);
                for cut in 0..bytes.len() {
                    assert_eq!(NewConnectionId::decode(&bytes[..cut]), Err(DecodeError::Short));
                }
                *bytes.last_mut().unwrap() = 2;
                assert!(NewConnectionId::decode(bytes).is_err());
            }
        }
    }

    #[test]
    fn a_connection_id_lies_within_its_list() {
        assert_eq!(NewConnectionId::decode(&[0, 2, 2, 7, 0]), Err(DecodeError::Short));
        assert!(NewConnectionId::decode(&[0, 2, 1, 7, 0]).is_ok());
        assert_eq!(NewConnectionId::decode(&[0, 2, 1, 7, 0, 0]), Err(DecodeError::Trailing));
    }

    #[test]
    fn request_round_trip_and_every_cut() {
        for num_cids in [0, 1, 255] {
            let mut buf = [0; 1];
            let mut w = Writer::new(&mut buf);
            w.put(&RequestConnectionId { num_cids }).unwrap();
            assert_eq!(
                RequestConnectionId::decode(w.finish()),
                Ok(RequestConnectionId { num_cids })
            );
        }
        assert_eq!(RequestConnectionId::decode(&[]), Err(DecodeError::Short));
        assert_eq!(RequestConnectionId::decode(&[1, 0]), Err(DecodeError::Trailing));
    }
}
