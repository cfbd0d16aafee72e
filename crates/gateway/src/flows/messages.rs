//! Messages about flows between two gateways, over the management channel.
//!
//! ```text
//! Register     1 | number (3) | next PN (8) | 0, or 16 and bidf | header without PN, SL, E, C
//! Acknowledge  2 | number (3)
//! Refuse       3 | number (3)
//! Remove       4 | number (3)
//! ```

use super::{FLOW_NUMBERS, Template};
use core::fmt;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};
use lightseal_macsec::Header;
use zeroize::Zeroize;

/// A flow's base identifier (bidf), the key of its rotating identifiers: 128 random bits.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseIdentifier([u8; 16]);

impl BaseIdentifier {
    /// From 16 random bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, for deriving identifiers from them.
    pub const fn expose(&self) -> &[u8; 16] {
        &self.0
    }
}

impl Drop for BaseIdentifier {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for BaseIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BaseIdentifier(..)")
    }
}

/// The registration of a flow whose frames the sender wants to send in short form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// The flow number, of 24 bits, never used before by this sender on this channel.
    pub number: u32,
    /// The extended packet number from which on frames of the flow may come in short form.
    pub next: u64,
    /// The base identifier of the flow, in schemes that have rotating identifiers.
    pub secret: Option<BaseIdentifier>,
    /// The header fields that all frames of the flow have in common.
    pub template: Template,
}

/// A message about a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The sender registers a flow.
    Register(Register),
    /// The receiver knows the flow of this number.
    Acknowledge(u32),
    /// The receiver did not accept the flow of this number, or knows it no longer.
    Refuse(u32),
    /// The sender uses the flow of this number no longer.
    Remove(u32),
}

impl Message {
    /// The longest message's length in bytes.
    pub const MAX_LEN: usize = 1 + 3 + 8 + 17 + Header::MAX_LEN;

    /// Encodes the message in a new vector.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::MAX_LEN];
        let mut writer = Writer::new(&mut bytes);
        self.write(&mut writer).expect("the buffer has room for the message");
        let len = writer.len();
        bytes.truncate(len);
        bytes
    }
}

impl<'a> Decode<'a> for Message {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let kind = reader.u8()?;
        let number = reader.u24()?;
        match kind {
            1 => {
                let next = reader.u64()?;
                let secret = match reader.u8()? {
                    0 => None,
                    16 => Some(BaseIdentifier(reader.array()?)),
                    _ => return Err(DecodeError::invalid("length of a base identifier")),
                };
                let header = Header::read(reader)?;
                let template = Template::of(&header, true);
                // A template has PN, SL, E and C zero.
                if *template.header() != header {
                    return Err(DecodeError::invalid("header of a flow"));
                }
                Ok(Self::Register(Register { number, next, secret, template }))
            }
            2 => Ok(Self::Acknowledge(number)),
            3 => Ok(Self::Refuse(number)),
            4 => Ok(Self::Remove(number)),
            _ => Err(DecodeError::invalid("type of a flow message")),
        }
    }
}

impl Encode for Message {
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), BufferFull> {
        let (kind, number) = match self {
            Self::Register(register) => (1, register.number),
            Self::Acknowledge(number) => (2, *number),
            Self::Refuse(number) => (3, *number),
            Self::Remove(number) => (4, *number),
        };
        writer.u8(kind)?;
        writer.u24(number % FLOW_NUMBERS)?;
        let Self::Register(Register { next, secret, template, .. }) = self else { return Ok(()) };
        writer.u64(*next)?;
        match secret {
            None => writer.u8(0)?,
            Some(secret) => {
                writer.u8(16)?;
                writer.bytes(secret.expose())?;
            }
        }
        writer.put(template.header())
    }
}

/// The highest packet numbers of associations: the content of a beacon, after its kind byte.
///
/// ```text
/// { number of any flow of the association (3) | its highest extended PN (8) } ...
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beacon(pub Vec<(u32, u64)>);

impl Beacon {
    /// Most associations in one beacon: some 700 bytes, which fit every path.
    pub const MAX_ENTRIES: usize = 64;

    /// Encodes the beacon as the content of a datagram.
    pub fn to_vec(&self) -> Vec<u8> {
        let entry = |&(number, pn): &(u32, u64)| {
            let [_, a, b, c] = number.to_be_bytes();
            [a, b, c].into_iter().chain(pn.to_be_bytes())
        };
        self.0.iter().flat_map(entry).collect()
    }
}

impl<'a> Decode<'a> for Beacon {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let mut entries = Vec::new();
        while !reader.is_empty() {
            if entries.len() == Self::MAX_ENTRIES {
                return Err(DecodeError::Trailing);
            }
            entries.push((reader.u24()?, reader.u64()?));
        }
        Ok(Self(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::tests::header;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_round_trip_and_every_cut_is_refused(
            header in header(), number in 0..FLOW_NUMBERS, next in any::<u64>(), secret in any::<Option<[u8; 16]>>()
        ) {
            let secret = secret.map(BaseIdentifier::new);
            let register = Register { number, next, secret, template: Template::of(&header, true) };
            for message in [
                Message::Register(register),
                Message::Acknowledge(number),
                Message::Refuse(number),
                Message::Remove(number),
            ] {
                let bytes = message.to_vec();
                prop_assert!(bytes.len() <= Message::MAX_LEN);
                for cut in 0..bytes.len() {
                    prop_assert!(Message::decode(&bytes[..cut]).is_err());
                }
                let longer = [&bytes[..], &[0]].concat();
                prop_assert!(Message::decode(&longer).is_err());
                prop_assert_eq!(Message::decode(&bytes), Ok(message));
            }
        }

        #[test]
        fn noise_is_refused_or_read_as_it_would_be_written(noise in prop::collection::vec(any::<u8>(), 0..90)) {
            if let Ok(message) = Message::decode(&noise) {
                prop_assert_eq!(message.to_vec(), noise.clone());
            }
            if let Ok(beacon) = Beacon::decode(&noise) {
                prop_assert_eq!(beacon.to_vec(), noise);
            }
        }

        #[test]
        fn beacons_round_trip(entries in prop::collection::vec((0..FLOW_NUMBERS, any::<u64>()), 0..=Beacon::MAX_ENTRIES)) {
            let beacon = Beacon(entries);
            let bytes = beacon.to_vec();
            prop_assert_eq!(Beacon::decode(&bytes), Ok(beacon));
            for cut in 0..bytes.len() {
                prop_assert_eq!(Beacon::decode(&bytes[..cut]).is_ok(), cut % 11 == 0);
            }
        }
    }

    #[test]
    fn a_beacon_has_an_end_and_secrets_are_not_shown() {
        let entry = [7u8; 11];
        assert!(Beacon::decode(&entry.repeat(Beacon::MAX_ENTRIES)).is_ok());
        assert!(Beacon::decode(&entry.repeat(Beacon::MAX_ENTRIES + 1)).is_err());
        assert_eq!(format!("{:?}", BaseIdentifier::new([0x5a; 16])), "BaseIdentifier(..)");
    }
}
