//! Messages between two gateways over the management channel, which is reliable, ordered and
//! secure.

use crate::schemes::SchemeCode;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// The version of the protocol on the management channel.
pub const VERSION: u8 = 1;
pub use crate::codepoints::MAX_MESSAGE as MAX_LEN;

/// A message. Its first byte is its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The first message in both directions: the sender's configuration (type 1).
    Hello(Hello),
    /// The sender proposes new keys (type 2).
    Propose(Offer),
    /// The sender agrees, and opens datagrams that are sealed with the new keys (type 3).
    Answer(Offer),
    /// The proposer opens datagrams that are sealed with the keys of this epoch (type 4).
    Ready(u32),
    /// The sender asks the proposer for new keys (type 5).
    Rekey,
    /// A message from a scheme to the peer's scheme (type 6).
    Scheme(&'a [u8]),
    /// An MKA frame (type 7).
    Mka(&'a [u8]),
}

/// The values that both gateways must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the messages.
    pub version: u8,
    /// The scheme, which determines the representation of MACsec frames in datagrams.
    pub scheme: SchemeCode,
}

/// The contribution of one gateway to the keys of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The epoch, counted from 1 in each management channel.
    pub epoch: u32,
    /// A fresh random nonce.
    pub nonce: [u8; 32],
    /// The receiver index under which the offering gateway opens datagrams with these keys.
    pub index: u32,
}

impl<'a> Decode<'a> for Message<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let kind = reader.u8()?;
        let message = match kind {
            1 => Self::Hello(Hello { version: reader.u8()?, scheme: SchemeCode(reader.u8()?) }),
            2 => Self::Propose(offer(reader)?),
            3 => Self::Answer(offer(reader)?),
            4 => Self::Ready(reader.u32()?),
            5 => Self::Rekey,
            6 => Self::Scheme(reader.take(reader.rest().len())?),
            7 => Self::Mka(reader.take(reader.rest().len())?),
            _ => return Err(DecodeError::invalid("message type")),
        };
        Ok(message)
    }
}

impl Encode for Message<'_> {
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), BufferFull> {
        match self {
            Self::Hello(hello) => {
                writer.bytes(&[1, hello.version, hello.scheme.0])?;
            }
            Self::Propose(offer) => write_offer(2, offer, writer)?,
            Self::Answer(offer) => write_offer(3, offer, writer)?,
            Self::Ready(epoch) => {
                writer.u8(4)?;
                writer.u32(*epoch)?;
            }
            Self::Rekey => writer.u8(5)?,
            Self::Scheme(content) => {
                writer.u8(6)?;
                writer.bytes(content)?;
            }
            Self::Mka(frame) => {
                writer.u8(7)?;
                writer.bytes(frame)?;
            }
        }
        Ok(())
    }
}

impl Message<'_> {
    /// Encodes the message in a new vector.
    ///
    /// # Panics
    /// If the message is longer than [`MAX_LEN`].
    pub fn to_vec(&self) -> Vec<u8> {
        let content = match self {
            Self::Scheme(content) | Self::Mka(content) => content.len(),
            _ => 48,
        };
        let mut bytes = vec![0; content + 1];
        let mut writer = Writer::new(&mut bytes);
        self.write(&mut writer).expect("the buffer has room for the message");
        let len = writer.len();
        assert!(len <= MAX_LEN, "the message is longer than the peer accepts");
        bytes.truncate(len);
        bytes
    }
}

fn offer(reader: &mut Reader<'_>) -> Result<Offer, DecodeError> {
    Ok(Offer { epoch: reader.u32()?, nonce: reader.array()?, index: reader.u32()? })
}

fn write_offer(kind: u8, offer: &Offer, writer: &mut Writer<'_>) -> Result<(), BufferFull> {
    writer.u8(kind)?;
    writer.u32(offer.epoch)?;
    writer.bytes(&offer.nonce)?;
    writer.u32(offer.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemes::SchemeName;
    use proptest::prelude::*;

    #[test]
    fn messages_round_trip_and_every_cut_is_refused() {
        let offer = Offer { epoch: 7, nonce: [9; 32], index: 0x0102_0304 };
        let hellos = SchemeName::ALL
            .map(|name| (Message::Hello(Hello { version: VERSION, scheme: name.code() }), true));
        let others = [
            (Message::Propose(offer), true),
            (Message::Answer(offer), true),
            (Message::Ready(8), true),
            (Message::Rekey, true),
            (Message::Scheme(b"abc"), false),
            (Message::Mka(b"frame"), false),
        ];
        for (message, fixed) in hellos.into_iter().chain(others) {
            let bytes = message.to_vec();
            assert_eq!(Message::decode(&bytes), Ok(message));
            for cut in 0..bytes.len() {
                let read = Message::decode(&bytes[..cut]);
                assert!(read.is_err() || !fixed && cut > 0, "{message:?} cut at {cut}");
            }
            if fixed {
                let longer = [&bytes[..], &[0]].concat();
                assert_eq!(Message::decode(&longer), Err(DecodeError::Trailing));
            }
        }
    }

    proptest! {
        #[test]
        fn noise_is_refused_or_read_as_it_would_be_written(noise in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = Message::decode(&noise) {
                prop_assert_eq!(message.to_vec(), noise);
            }
        }
    }
}
