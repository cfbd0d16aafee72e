//! KeyUpdate (RFC 8446, section 4.6.3; RFC 9147, section 8).

use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// Announces the sender's next keys, and may request a KeyUpdate of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUpdate {
    /// Whether the peer must update its keys too.
    pub request_update: bool,
}

impl<'a> Decode<'a> for KeyUpdate {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match r.u8()? {
            0 => Ok(Self { request_update: false }),
            1 => Ok(Self { request_update: true }),
            _ => Err(DecodeError::invalid("KeyUpdateRequest")),
        }
    }
}

impl Encode for KeyUpdate {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(self.request_update.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_values_exist() {
        for request_update in [false, true] {
            let mut buf = [0; 1];
            let mut w = Writer::new(&mut buf);
            w.put(&KeyUpdate { request_update }).unwrap();
            assert_eq!(KeyUpdate::decode(w.finish()), Ok(KeyUpdate { request_update }));
        }
        assert!(KeyUpdate::decode(&[2]).is_err());
        assert!(KeyUpdate::decode(&[]).is_err());
    }
}
