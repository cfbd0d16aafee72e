//! Values that no standard defines, which a client adds to its hello so that servers keep ignoring
//! what they do not know (RFC 8701).

use crate::config::Settings;
use crate::parts;
use lightseal_core::Writer;
use lightseal_core::wire::BufferFull;

/// The reserved values of a hello. They follow from its random value, so that the second hello after
/// a HelloRetryRequest has them too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grease(parts::Grease, [u8; 32]);

/// The lists of a hello that get a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List {
    Suites,
    Versions,
    Groups,
    Schemes,
    Protocols,
    Extensions,
}

impl Grease {
    /// The values of the hello with this random value; `None` if the settings want none.
    pub(crate) fn new(settings: &Settings, random: &[u8; 32]) -> Option<Self> {
        let part = parts::Grease::INCLUDED.filter(|_| settings.grease)?;
        Some(Self(part, *random))
    }

    /// The value for a list: 0x0a0a, 0x1a1a and so on to 0xfafa.
    pub(crate) const fn value(self, list: List) -> u16 {
        0x0a0a + 0x1010 * (self.1[list as usize] & 0xf) as u16
    }

    /// Writes the value for a list, if there is one.
    pub(crate) fn write(
        grease: Option<Self>,
        list: List,
        w: &mut Writer<'_>,
    ) -> Result<(), BufferFull> {
        grease.map_or(Ok(()), |grease| w.u16(grease.value(list)))
    }
}

#[cfg(all(test, feature = "rustcrypto"))]
mod tests {
    use super::*;
    use crate::crypto::rustcrypto::PROVIDER;

    #[test]
    fn values_are_the_reserved_ones() {
        let mut settings = Settings::new(&PROVIDER);
        assert!(Grease::new(&settings, &[7; 32]).is_none());
        settings.grease = true;
        for byte in 0..=255 {
            let grease = Grease::new(&settings, &[byte; 32]).unwrap();
            for list in [List::Suites, List::Versions, List::Groups, List::Extensions] {
                let [high, low] = grease.value(list).to_be_bytes();
                assert!(high == low && high & 0xf == 0xa);
            }
        }
    }
}
