//! The prefix of sealed datagrams, which is sent in clear.

use crate::codepoints::DatagramType;

/// Length of a prefix in bytes.
pub const PREFIX_LEN: usize = 14;

/// The prefix of a sealed datagram.
///
/// ```text
///  0       1       2               6      7                       13
/// +-------+-------+---------------+------+-----------------------+--------+
/// | type  | epoch | receiver index| lane |        counter        | sealed |
/// +-------+-------+---------------+------+-----------------------+--------+
/// ```
///
/// Nothing in it distinguishes flows: the receiver index and the epoch are the same for all
/// datagrams of one peer, and the counter counts the datagrams of all flows. `sealed` is the length
/// of the encrypted part, which comes first; 0 if all of the datagram is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The type of the datagram.
    pub kind: DatagramType,
    /// The low eight bits of the epoch's number.
    pub epoch: u8,
    /// The receiver index, by which the receiver finds the keys.
    pub receiver: u32,
    /// The lane, that is the thread of the sender that sealed the datagram.
    pub lane: u8,
    /// The number of datagrams that this lane sealed before in the epoch, below 2^48.
    pub counter: u64,
    /// Length of the encrypted part in bytes; 0 if all of the datagram is encrypted.
    pub sealed: u8,
}

impl Prefix {
    /// Encodes the prefix.
    pub fn encode(&self) -> [u8; PREFIX_LEN] {
        let mut bytes = [0; PREFIX_LEN];
        bytes[0] = self.kind as u8;
        bytes[1] = self.epoch;
        bytes[2..6].copy_from_slice(&self.receiver.to_be_bytes());
        bytes[6] = self.lane;
        bytes[7..13].copy_from_slice(&self.counter.to_be_bytes()[2..]);
        bytes[13] = self.sealed;
        bytes
    }

    /// Decodes the prefix of `datagram`; `None` if the datagram is too short or its type is
    /// unknown.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let &[kind, epoch, r0, r1, r2, r3, lane, c0, c1, c2, c3, c4, c5, sealed] =
            datagram.first_chunk()?;
        Some(Self {
            kind: DatagramType::of(kind)?,
            epoch,
            receiver: u32::from_be_bytes([r0, r1, r2, r3]),
            lane,
            counter: u64::from_be_bytes([0, 0, c0, c1, c2, c3, c4, c5]),
            sealed,
        })
    }

    /// The nonce under `iv`: it contains counter, type and length, which are therefore
    /// authenticated although the prefix is not in the associated data. Epoch, receiver index and
    /// lane are authenticated because they choose the key. A counter is used once, whatever the
    /// type.
    pub fn nonce(&self, iv: &[u8; 12]) -> [u8; 12] {
        let mut nonce = *iv;
        nonce[0] ^= self.kind as u8;
        nonce[1] ^= self.sealed;
        for (byte, counter) in nonce[4..].iter_mut().zip(self.counter.to_be_bytes()) {
            *byte ^= counter;
        }
        nonce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_round_trips_and_no_shorter_one_is_read() {
        for kind in DatagramType::ALL {
            let prefix = Prefix {
                kind,
                epoch: 7,
                receiver: 0xdead_beef,
                lane: 3,
                counter: (1 << 48) - 2,
                sealed: 28,
            };
            let bytes = prefix.encode();
            assert_eq!(Prefix::decode(&bytes), Some(prefix));
            assert_eq!(Prefix::decode(&bytes[..PREFIX_LEN - 1]), None);
        }
        assert_eq!(Prefix::decode(&[0xff; PREFIX_LEN]), None);
    }

    #[test]
    fn every_field_that_does_not_choose_the_key_is_in_the_nonce() {
        let prefix = Prefix {
            kind: DatagramType::Sealed,
            epoch: 0,
            receiver: 0,
            lane: 0,
            counter: 5,
            sealed: 28,
        };
        let nonce = prefix.nonce(&[0x55; 12]);
        assert_ne!(nonce, Prefix { kind: DatagramType::Encrypted, ..prefix }.nonce(&[0x55; 12]));
        assert_ne!(nonce, Prefix { counter: 6, ..prefix }.nonce(&[0x55; 12]));
        assert_ne!(nonce, Prefix { sealed: 29, ..prefix }.nonce(&[0x55; 12]));
    }
}
