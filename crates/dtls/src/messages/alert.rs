//! Alerts (RFC 8446, section 6).

use crate::codepoints::AlertDescription;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// An alert. In DTLS 1.3 all alerts except `close_notify` and `user_canceled` are fatal, regardless
/// of their level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert(pub AlertDescription);

impl Alert {
    /// The level of alerts that do not end a DTLS 1.2 association (RFC 5246, section 7.2).
    pub const WARNING: u8 = 1;
    /// The length of an alert in bytes.
    pub const LEN: usize = 2;
}

impl<'a> Decode<'a> for Alert {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let _level = r.u8()?;
        Ok(Self(AlertDescription(r.u8()?)))
    }
}

impl Encode for Alert {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let warning =
            matches!(self.0, AlertDescription::CLOSE_NOTIFY | AlertDescription::USER_CANCELED);
        w.u8(if warning { Self::WARNING } else { 2 })?;
        w.u8(self.0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_every_cut() {
        let mut buf = [0; 2];
        let mut w = Writer::new(&mut buf);
        w.put(&Alert(AlertDescription::DECRYPT_ERROR)).unwrap();
        assert_eq!(w.finish(), [2, 51]);
        assert_eq!(Alert::decode(&[2, 51]), Ok(Alert(AlertDescription::DECRYPT_ERROR)));
        assert_eq!(Alert::decode(&[2]), Err(DecodeError::Short));
        assert_eq!(Alert::decode(&[2, 51, 0]), Err(DecodeError::Trailing));
    }
}
