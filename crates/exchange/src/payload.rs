//! Payloads that show by themselves whether they are genuine.
//!
//! ```text
//! | serial number: 4 bytes | index: 2 bytes | bytes that follow from both and from the length |
//! ```
//!
//! Every payload that a client sends has a serial number of its own, also when the client sends the
//! payload of an index again. A receiver that got a serial number twice has therefore accepted a
//! replay.

use alloc::vec::Vec;

/// The shortest payload, in bytes.
pub const LEAST_BYTES: usize = 16;

/// The serial numbers and the index of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The number of the payload among all that its client has sent.
    pub serial: u32,
    /// The number of the payload within its association.
    pub index: u16,
}

impl Label {
    /// The payload of this label with `bytes` bytes, at least [`LEAST_BYTES`].
    pub fn payload(self, bytes: usize) -> Vec<u8> {
        let mut payload = Vec::with_capacity(bytes.max(LEAST_BYTES));
        payload.extend(self.serial.to_be_bytes());
        payload.extend(self.index.to_be_bytes());
        payload.extend(self.filling(bytes).take(bytes.max(LEAST_BYTES) - payload.len()));
        payload
    }

    /// Reads the label of a payload; `None` if any byte of it is wrong.
    pub fn of(payload: &[u8]) -> Option<Self> {
        let (serial, rest) = payload.split_first_chunk()?;
        let (index, filling) = rest.split_first_chunk()?;
        let label = Self { serial: u32::from_be_bytes(*serial), index: u16::from_be_bytes(*index) };
        let genuine = payload.len() >= LEAST_BYTES
            && label.filling(payload.len()).zip(filling).all(|(expected, byte)| expected == *byte);
        genuine.then_some(label)
    }

    /// The bytes after serial number and index, without end.
    fn filling(self, bytes: usize) -> impl Iterator<Item = u8> {
        // A multiplicative generator; its high bits depend on all of the seed.
        let seed = u64::from(self.serial) << 32 | u64::from(self.index) << 16 | bytes as u64;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed >> 29;
        core::iter::repeat_with(move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 56) as u8
        })
    }
}

/// Which serial numbers have been received.
#[derive(Debug, Default)]
pub struct SeenSerials {
    bits: Vec<u8>,
}

/// Serial numbers from here on are not recorded and count as repeated, which bounds the memory to
/// 128 KiB.
const MOST_SERIALS: u32 = 1 << 20;

impl SeenSerials {
    /// Records a serial number. Returns whether it is new.
    pub fn insert(&mut self, serial: u32) -> bool {
        if serial >= MOST_SERIALS {
            return false;
        }
        let (byte, bit) = (serial as usize / 8, 1 << (serial % 8));
        if self.bits.len() <= byte {
            self.bits.resize(byte + 1, 0);
        }
        let Some(byte) = self.bits.get_mut(byte) else { return false };
        let new = *byte & bit == 0;
        *byte |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_its_label_and_an_altered_one_has_none() {
        let label = Label { serial: 70_000, index: 513 };
        for bytes in [16, 17, 40, 1000] {
            let payload = label.payload(bytes);
            assert_eq!(payload.len(), bytes);
            assert_eq!(Label::of(&payload), Some(label));
            assert_eq!(Label::of(&payload[..bytes - 1]), None);
            for at in 0..bytes * 8 {
                let mut altered = payload.clone();
                altered[at / 8] ^= 1 << (at % 8);
                assert_eq!(Label::of(&altered), None, "bit {at} of {bytes} bytes");
            }
        }
        assert_eq!(label.payload(0).len(), LEAST_BYTES);
    }

    #[test]
    fn a_serial_number_is_new_once() {
        let mut seen = SeenSerials::default();
        assert!([0, 9, 8, MOST_SERIALS - 1].into_iter().all(|serial| seen.insert(serial)));
        assert!(![9, 0, MOST_SERIALS - 1].into_iter().any(|serial| seen.insert(serial)));
        assert!(!seen.insert(MOST_SERIALS));
    }
}
