//! The header fields that all frames of a flow have in common.

use lightseal_macsec::{AssociationNumber, Header, Protection, SecTag, ShortLength};

/// V, which is always 0 (IEEE 802.1AE-2018, clause 9.5).
const VERSION: u8 = 0x80;
/// ES, SC and SCB: they say where the SCI is, and do not change within a flow.
const SOURCE: u8 = 0x70;
const ENCRYPTED: u8 = 0x08;
const CHANGED: u8 = 0x04;
const AN: u8 = 0x03;

/// A secure association as gateways distinguish them. All frames of an association share one
/// sequence of packet numbers, whatever their destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AssociationId {
    /// The SCI; for frames without one, the source address and two zero bytes.
    sci: [u8; 8],
    named: bool,
    an: u8,
}

impl AssociationId {
    /// The association of frames with this header.
    pub fn of(header: &Header) -> Self {
        let sci = header.tag.sci_in_frame_from(header.source);
        let unnamed = || {
            let [a, b, c, d, e, f] = header.source;
            [a, b, c, d, e, f, 0, 0]
        };
        Self {
            sci: sci.map_or_else(unnamed, lightseal_macsec::Sci::to_bytes),
            named: sci.is_some(),
            an: header.tag.an.get(),
        }
    }

    /// The association with the AN `an` whose frames carry the SCI `sci` in their tag.
    pub const fn named(sci: [u8; 8], an: u8) -> Self {
        Self { sci, named: true, an }
    }

    /// The SCI, or the value in its place, and whether frames carry an SCI.
    pub const fn channel(&self) -> ([u8; 8], bool) {
        (self.sci, self.named)
    }
}

/// A header with the fields set to zero that differ from frame to frame: PN, SL, E and C, and also
/// AN if a flow outlives a change of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template(Header);

impl Template {
    /// The template of frames with this header. If `an`, the flow is for the AN of this header
    /// only.
    pub fn of(header: &Header, an: bool) -> Self {
        let tag = SecTag {
            protection: Protection::Integrity,
            an: if an { header.tag.an } else { AssociationNumber::default() },
            short_length: ShortLength::default(),
            pn: 0,
            ..header.tag
        };
        Self(Header { tag, ..*header })
    }

    /// The header with all variable fields zero.
    pub const fn header(&self) -> &Header {
        &self.0
    }

    /// Restores the header of one frame from its TCI and AN (`octet`), its SL (`short_length`) and
    /// its packet number. `None` if these values cannot occur in a frame of the flow.
    pub fn restore(&self, octet: u8, short_length: u8, pn: u32) -> Option<Header> {
        let of_flow = octet & (VERSION | SOURCE) == self.0.tag.tci_an() & SOURCE;
        let protection = match (octet & ENCRYPTED != 0, octet & CHANGED != 0) {
            (false, false) => Protection::Integrity,
            (true, true) => Protection::Confidential,
            (false, true) => Protection::Changed,
            (true, false) => Protection::KeyAgreement,
        };
        let tag = SecTag {
            protection,
            an: AssociationNumber::new(octet & AN)?,
            short_length: ShortLength::new(short_length)?,
            pn,
            ..self.0.tag
        };
        of_flow.then_some(Header { tag, ..self.0 })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use lightseal_macsec::{Sci, SciField, VlanTag};
    use proptest::prelude::*;

    /// Arbitrary headers of every shape.
    pub(crate) fn header() -> impl Strategy<Value = Header> {
        let addresses = (any::<[u8; 6]>(), any::<[u8; 6]>());
        let tags = (0usize..3, any::<u16>());
        let tag = (0u8..4, 0u8..4, 0u8..5, 0u8..48, any::<u32>(), any::<u16>());
        (addresses, tags, tag).prop_map(
            |((destination, source), (vlans, tci), (an, protection, field, sl, pn, port))| {
                let vlan = |tpid| Some(VlanTag { tpid, tci });
                let vlan_tags = match vlans {
                    0 => [None; 2],
                    1 => [vlan(0x8100), None],
                    _ => [vlan(0x88a8), vlan(0x8100)],
                };
                let sci_field = match field {
                    0 => SciField::Explicit(Sci { address: source, port }),
                    at => SciField::Implicit {
                        end_station: at & 1 == 1,
                        single_copy_broadcast: at & 2 == 2,
                    },
                };
                let protection = match protection {
                    0 => Protection::Integrity,
                    1 => Protection::Confidential,
                    2 => Protection::Changed,
                    _ => Protection::KeyAgreement,
                };
                let tag = SecTag {
                    sci_field,
                    protection,
                    an: AssociationNumber::new(an).unwrap(),
                    short_length: ShortLength::new(sl).unwrap(),
                    pn,
                };
                Header { destination, source, vlan_tags, tag }
            },
        )
    }

    proptest! {
        #[test]
        fn every_header_is_restored(header in header(), with_an in any::<bool>()) {
            let template = Template::of(&header, with_an);
            let octet = header.tag.tci_an();
            let sl = header.tag.short_length.get();
            prop_assert_eq!(template.restore(octet, sl, header.tag.pn), Some(header));
            prop_assert_eq!(template.restore(octet | VERSION, sl, 1), None);
            prop_assert_eq!(template.restore(octet ^ 0x20, sl, 1), None);
            prop_assert_eq!(template.restore(octet, 48, 1), None);
        }
    }
}
