//! The payload of a member's records: a datagram of an application, with ports as in UDP. It has no
//! addresses, because the IDs of the group and of the peer take their place.
//!
//! ```text
//! source port (2) ‖ destination port (2) ‖ data
//! ```

use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// A datagram of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The source port, to which answers are sent.
    pub source: u16,
    /// The destination port.
    pub destination: u16,
    /// The payload.
    pub data: &'a [u8],
}

/// The length of the header in front of the payload, in bytes.
pub const HEADER: usize = 4;

impl<'a> Decode<'a> for Datagram<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (source, destination) = (r.u16()?, r.u16()?);
        let data = r.rest();
        r.take(data.len())?;
        Ok(Self { source, destination, data })
    }
}

impl Encode for Datagram<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u16(self.source)?;
        w.u16(self.destination)?;
        w.bytes(self.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_comes_back_and_a_part_of_its_ports_is_none() {
        let datagram = Datagram { source: 5683, destination: 40_000, data: b"on" };
        let mut buf = [0; 16];
        let mut w = Writer::new(&mut buf);
        datagram.write(&mut w).unwrap();
        let bytes = w.written();
        assert_eq!(bytes, [0x16, 0x33, 0x9c, 0x40, b'o', b'n']);
        assert_eq!(Datagram::decode(bytes), Ok(datagram));
        for cut in 0..HEADER {
            assert!(Datagram::decode(&bytes[..cut]).is_err());
        }
        assert!(Datagram::decode(&bytes[..HEADER]).unwrap().data.is_empty());
    }
}
