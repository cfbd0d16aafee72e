//! A MACsec frame for who has no keys: where its parts are, and whether they can be right.
//!
//! ```text
//! 0             6        12                         header.len
//! | destination | source | 0 to 2 VLAN tags | SecTAG | secure data | ICV (16) | padding |
//! ```
//!
//! VLAN tags in clear are outside of what the ICV covers: whoever put them there takes them off
//! again before the frame is validated.
//!
//! Padding is what a LAN adds to frames below 60 bytes, behind the ICV, and SL is there to find it:
//! secure data of 48 bytes and more is never padded.

use crate::codepoints::{
    EAPOL_MKA, ETHERTYPE_CUSTOMER_VLAN, ETHERTYPE_EAPOL, ETHERTYPE_MACSEC, ETHERTYPE_SERVICE_VLAN,
    ICV_LEN, MIN_FRAME_LEN, SHORT_DATA_LEN, VLAN_TAG_LEN,
};
use crate::tag::SecTag;
use core::ops::Range;
use vocabulary::wire::{BufferFull, Decode, DecodeError, Encode, Reader, Writer};

/// How many VLAN tags are looked behind.
pub const MAX_VLAN_TAGS: usize = 2;

/// A VLAN tag in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// The EtherType: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// Priority (3 bits), drop eligibility (1) and VLAN (12).
    pub tci: u16,
}

impl VlanTag {
    /// The VLAN's identifier: 0 to 4095.
    pub const fn vlan(self) -> u16 {
        self.tci & 0xfff
    }
}

/// What a frame is, behind up to two VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It has a SecTAG, which may still be invalid.
    Macsec,
    /// Key agreement: EAPOL of type 5.
    Mka,
    /// Any other EAPOL.
    Eapol,
    /// Another EtherType, or a length (below 0x600), or a third VLAN tag.
    Other(u16),
    /// No EtherType: fewer than 14 bytes, or cut in a VLAN tag.
    Short,
}

/// Whether a frame is MACsec, MKA or neither. Nothing is validated.
pub fn classify(frame: &[u8]) -> Kind {
    let mut reader = Reader::new(frame);
    let kind = (|| {
        reader.take(12)?;
        let _tags = vlan_tags(&mut reader)?;
        Ok::<_, DecodeError>(match reader.u16()? {
            ETHERTYPE_MACSEC => Kind::Macsec,
            ETHERTYPE_EAPOL => match reader.rest() {
                [_version, EAPOL_MKA, ..] => Kind::Mka,
                _ => Kind::Eapol,
            },
            other => Kind::Other(other),
        })
    })();
    kind.unwrap_or(Kind::Short)
}

/// Up to two VLAN tags, leaving the reader at the EtherType behind them.
fn vlan_tags(reader: &mut Reader<'_>) -> Result<[Option<VlanTag>; MAX_VLAN_TAGS], DecodeError> {
    let mut tags = [None; MAX_VLAN_TAGS];
    for tag in &mut tags {
        let mut ahead = reader.clone();
        let tpid = ahead.u16()?;
        if !matches!(tpid, ETHERTYPE_CUSTOMER_VLAN | ETHERTYPE_SERVICE_VLAN) {
            break;
        }
        *tag = Some(VlanTag { tpid, tci: ahead.u16()? });
        *reader = ahead;
    }
    Ok(tags)
}

/// Everything before the secure data: what a gateway needs of a frame.
///
/// [`Decode::decode`] takes exactly one, [`of`](Self::of) the one at the front of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whom the frame is for.
    pub destination: [u8; 6],
    /// Whom it is from.
    pub source: [u8; 6],
    /// VLAN tags in clear, outermost first; no `Some` behind a `None`.
    pub vlan_tags: [Option<VlanTag>; MAX_VLAN_TAGS],
    /// The SecTAG.
    pub tag: SecTag,
}

impl Header {
    /// How many bytes the longest one has: addresses, two VLAN tags, a SecTAG with an SCI.
    pub const MAX_LEN: usize = 36;

    /// The header at the front of a frame. The rest of the frame is not looked at.
    ///
    /// # Errors
    /// As for [`SecTag`]; another EtherType is [`DecodeError::Invalid`], and an early end
    /// [`DecodeError::Short`].
    pub fn of(frame: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&mut Reader::new(frame))
    }

    /// How many bytes it has: 20 to 36.
    pub fn len(&self) -> usize {
        12 + VLAN_TAG_LEN * self.vlan_tag_count() + self.tag.encoded_len()
    }

    /// Never: a header has at least 20 bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// How many VLAN tags stand in clear.
    pub fn vlan_tag_count(&self) -> usize {
        self.vlan_tags.iter().flatten().count()
    }

    /// How many bytes of secure data a frame of `frame_len` bytes with this header has.
    ///
    /// # Errors
    /// If SL and that length contradict each other (clause 9.12, f to i, with the 16-byte ICV of
    /// the GCM suites): the frame is too short, has no secure data at all, has fewer than 48 bytes
    /// of it that SL does not tell, or goes on behind the ICV though that is no padding.
    pub fn secure_data_len(&self, frame_len: usize) -> Result<usize, DecodeError> {
        let room = frame_len.checked_sub(self.len() + ICV_LEN).ok_or(DecodeError::Short)?;
        match self.tag.short_length.data_len() {
            None if room < SHORT_DATA_LEN => Err(DecodeError::Invalid("SL of a short frame")),
            None => Ok(room),
            Some(len) if room < len => Err(DecodeError::Short),
            Some(len) if room == len || frame_len <= self.padded_len() => Ok(len),
            Some(_) => Err(DecodeError::Trailing),
        }
    }

    /// Up to which length a frame may be padded: a bridge pads before or after it tags.
    fn padded_len(&self) -> usize {
        MIN_FRAME_LEN + VLAN_TAG_LEN * self.vlan_tag_count()
    }
}

/// # Errors
/// As for [`SecTag`]; an EtherType that is none of a VLAN tag or MACsec is
/// [`DecodeError::Invalid`].
impl<'a> Decode<'a> for Header {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (destination, source) = (reader.array()?, reader.array()?);
        let vlan_tags = vlan_tags(reader)?;
        Ok(Self { destination, source, vlan_tags, tag: SecTag::read(reader)? })
    }
}

impl Encode for Header {
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), BufferFull> {
        writer.bytes(&self.destination)?;
        writer.bytes(&self.source)?;
        for tag in self.vlan_tags.iter().flatten() {
            writer.u16(tag.tpid)?;
            writer.u16(tag.tci)?;
        }
        writer.put(&self.tag)
    }
}

/// A MACsec frame whose tag is valid and whose length agrees with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Everything before the secure data.
    pub header: Header,
    header_bytes: &'a [u8],
    secure_data: &'a [u8],
    icv: &'a [u8; ICV_LEN],
    padding: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Finds a frame's parts.
    ///
    /// # Errors
    /// As for [`Header::of`] and [`Header::secure_data_len`]. That the PN is not 0 depends on the
    /// suite, which a frame does not say: see [`SecTag::pn_is_valid`].
    pub fn parse(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let header = Header::of(frame)?;
        let data_len = header.secure_data_len(frame.len())?;
        let mut reader = Reader::new(frame);
        let header_bytes = reader.take(header.len())?;
        let secure_data = reader.take(data_len)?;
        let (icv, padding) = reader.rest().split_first_chunk().ok_or(DecodeError::Short)?;
        Ok(Self { header, header_bytes, secure_data, icv, padding })
    }

    /// From the destination address to the end of the SecTAG.
    pub const fn header_bytes(&self) -> &'a [u8] {
        self.header_bytes
    }

    /// The user's data: EtherType and payload, encrypted or not.
    pub const fn secure_data(&self) -> &'a [u8] {
        self.secure_data
    }

    /// Where the secure data is in the frame.
    pub const fn secure_data_range(&self) -> Range<usize> {
        let start = self.header_bytes.len();
        start..start + self.secure_data.len()
    }

    /// The integrity check value.
    pub const fn icv(&self) -> &'a [u8; ICV_LEN] {
        self.icv
    }

    /// What a LAN put behind the ICV.
    pub const fn padding(&self) -> &'a [u8] {
        self.padding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::{AssociationNumber, Protection, Sci, SciField, ShortLength};
    use proptest::prelude::*;
    use std::vec::Vec;

    const IMPLICIT: SciField =
        SciField::Implicit { end_station: false, single_copy_broadcast: false };
    const EXPLICIT: SciField = SciField::Explicit(Sci { address: [3; 6], port: 4 });

    fn header(sci_field: SciField, vlans: usize, data_len: usize) -> Header {
        let vlan = |tpid| Some(VlanTag { tpid, tci: 0x2005 });
        let tag = SecTag {
            sci_field,
            protection: Protection::Confidential,
            an: AssociationNumber::default(),
            short_length: ShortLength::of(data_len),
            pn: 9,
        };
        let vlan_tags = match vlans {
            0 => [None; 2],
            1 => [vlan(0x8100), None],
            _ => [vlan(0x88a8), vlan(0x8100)],
        };
        Header { destination: [1; 6], source: [2; 6], vlan_tags, tag }
    }

    fn frame(header: &Header, data_len: usize, padding: usize) -> Vec<u8> {
        let mut frame = std::vec![0; Header::MAX_LEN];
        let mut writer = Writer::new(&mut frame);
        writer.put(header).unwrap();
        let len = writer.len();
        frame.truncate(len);
        assert_eq!(len, header.len());
        frame.extend(std::iter::repeat_n(0xd0, data_len));
        frame.extend([0x1c; 16]);
        frame.extend(std::iter::repeat_n(0, padding));
        frame
    }

    #[test]
    fn every_part_is_found_behind_any_tags() {
        for vlans in 0..=2 {
            for field in [IMPLICIT, EXPLICIT] {
                for data_len in [1, 47, 48, 1500] {
                    let header = header(field, vlans, data_len);
                    let bytes = frame(&header, data_len, 0);
                    assert_eq!(classify(&bytes), Kind::Macsec);
                    let parsed = Frame::parse(&bytes).unwrap();
                    assert_eq!(parsed.header, header);
                    assert_eq!(parsed.header_bytes(), &bytes[..header.len()]);
                    assert_eq!(&bytes[parsed.secure_data_range()], parsed.secure_data());
                    assert!(parsed.secure_data().iter().all(|&byte| byte == 0xd0));
                    assert_eq!((parsed.secure_data().len(), parsed.icv()), (data_len, &[0x1c; 16]));
                    assert!(parsed.padding().is_empty());
                    assert_eq!(Header::decode(parsed.header_bytes()), Ok(header));
                }
            }
        }
        assert_eq!(header(EXPLICIT, 2, 0).len(), Header::MAX_LEN);
        assert_eq!(header(EXPLICIT, 1, 0).vlan_tags[0].unwrap().vlan(), 5);
    }

    #[test]
    fn padding_is_told_from_what_does_not_belong_there() {
        for vlans in 0..=2 {
            let header = header(IMPLICIT, vlans, 10);
            let whole = frame(&header, 10, 0);
            let limit = 60 + 4 * vlans;
            let padded = frame(&header, 10, limit - whole.len());
            let parsed = Frame::parse(&padded).unwrap();
            assert_eq!((parsed.secure_data().len(), parsed.icv()), (10, &[0x1c; 16]));
            assert_eq!(parsed.padding().len(), limit - whole.len());
            let over = frame(&header, 10, limit + 1 - whole.len());
            assert_eq!(Frame::parse(&over), Err(DecodeError::Trailing));
        }
    }

    #[test]
    fn a_length_that_contradicts_sl_is_refused() {
        let long = header(EXPLICIT, 0, 48);
        assert!(Frame::parse(&frame(&long, 48, 0)).is_ok());
        assert_eq!(
            Frame::parse(&frame(&long, 47, 0)),
            Err(DecodeError::Invalid("SL of a short frame"))
        );
        let short = header(EXPLICIT, 0, 47);
        assert!(Frame::parse(&frame(&short, 47, 0)).is_ok());
        assert_eq!(Frame::parse(&frame(&short, 46, 0)), Err(DecodeError::Short));
        assert_eq!(Frame::parse(&frame(&short, 48, 0)), Err(DecodeError::Trailing));
        let nothing = frame(&header(EXPLICIT, 0, 0), 0, 0);
        assert_eq!(Frame::parse(&nothing), Err(DecodeError::Invalid("SL of a short frame")));
    }

    #[test]
    fn kinds_are_told_apart_behind_tags() {
        let with = |rest: &[u8]| [&[0; 12], rest].concat();
        assert_eq!(classify(&with(&[0x88, 0x8e, 3, 5])), Kind::Mka);
        assert_eq!(classify(&with(&[0x88, 0x8e, 3, 1])), Kind::Eapol);
        assert_eq!(classify(&with(&[0x88, 0x8e])), Kind::Eapol);
        assert_eq!(classify(&with(&[0x08, 0x00])), Kind::Other(0x800));
        assert_eq!(classify(&with(&[0x81, 0, 0, 1, 0x88, 0xe5])), Kind::Macsec);
        assert_eq!(classify(&with(&[0x81, 0, 0, 1, 0x88])), Kind::Short);
        let twice = [0x88, 0xa8, 0, 1, 0x81, 0, 0, 1];
        assert_eq!(classify(&with(&[&twice[..], &[0x88, 0xe5]].concat())), Kind::Macsec);
        assert_eq!(classify(&with(&[&twice[..], &[0x81, 0]].concat())), Kind::Other(0x8100));
        assert_eq!(classify(&with(&[0x88])), Kind::Short);
        assert_eq!(classify(&[]), Kind::Short);
    }

    proptest! {
        #[test]
        fn noise_is_read_or_refused(noise in prop::collection::vec(any::<u8>(), 0..120), vlans in 0usize..4) {
            let tags = [0x81, 0, 0, 7].repeat(vlans);
            let bytes = [&[5; 12][..], &tags, &[0x88, 0xe5], &noise].concat();
            for bytes in [&bytes, &noise] {
                let kind = classify(bytes);
                if let Ok(frame) = Frame::parse(bytes) {
                    prop_assert_eq!(kind, Kind::Macsec);
                    let parts = [frame.header_bytes(), frame.secure_data(), frame.icv(), frame.padding()];
                    prop_assert_eq!(&parts.concat(), bytes);
                    prop_assert!(!frame.secure_data().is_empty());
                }
            }
        }

        #[test]
        fn a_cut_frame_is_refused(vlans in 0usize..3, data_len in 1usize..100, sci in any::<bool>()) {
            let header = header(if sci { EXPLICIT } else { IMPLICIT }, vlans, data_len);
            let bytes = frame(&header, data_len, 0);
            // Secure data of unknown length may be cut down to 48 bytes unseen: the ICV tells.
            let least = header.len() + 16 + data_len.min(48);
            for cut in 0..least {
                prop_assert!(Frame::parse(&bytes[..cut]).is_err());
            }
            prop_assert!(Frame::parse(&bytes).is_ok());
        }
    }
}
