//! Parses MACsec frames without keys: finds their parts and checks the format.
//!
//! ```text
//! 0             6        12                         header.len
//! | destination | source | 0 to 2 VLAN tags | SecTAG | secure data | ICV (16) | padding |
//! ```
//!
//! VLAN tags in clear are not covered by the ICV: the bridge that added them removes them before
//! the frame is validated.
//!
//! A LAN pads frames below 60 bytes behind the ICV. The padding is found through SL, since secure
//! data of 48 bytes and more is never padded.

use crate::codepoints::{
    EAPOL_MKA, ETHERTYPE_CUSTOMER_VLAN, ETHERTYPE_EAPOL, ETHERTYPE_MACSEC, ETHERTYPE_SERVICE_VLAN,
    ICV_LEN, MIN_FRAME_LEN, SHORT_DATA_LEN, VLAN_TAG_LEN,
};
use crate::tag::SecTag;
use core::ops::Range;
use lightseal_core::wire::{BufferFull, Decode, DecodeError, Encode, Reader, Writer};

/// Most VLAN tags that are skipped to find the EtherType.
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
    /// The VLAN identifier: 0 to 4095.
    pub const fn vlan(self) -> u16 {
        self.tci & 0xfff
    }
}

/// The kind of a frame, by the EtherType behind up to two VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The frame has a SecTAG, which may still be invalid.
    Macsec,
    /// MKA, that is EAPOL of packet type 5.
    Mka,
    /// EAPOL of another packet type.
    Eapol,
    /// Another EtherType, or a length (below 0x600), or a third VLAN tag.
    Other(u16),
    /// No EtherType: the frame has less than 14 bytes, or ends in a VLAN tag.
    Short,
}

/// Classifies a frame as MACsec, MKA or other. Validates nothing.
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

/// Reads up to two VLAN tags; the reader is then at the EtherType behind them.
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

/// Everything before the secure data, which is the part of a frame that a gateway needs.
///
/// [`Decode::decode`] reads bytes that are exactly a header; [`of`](Self::of) reads the header at
/// the front of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The destination address.
    pub destination: [u8; 6],
    /// The source address.
    pub source: [u8; 6],
    /// The VLAN tags in clear, the outermost first; after a `None` there is no `Some`.
    pub vlan_tags: [Option<VlanTag>; MAX_VLAN_TAGS],
    /// The SecTAG.
    pub tag: SecTag,
}

impl Header {
    /// The longest header in bytes: addresses, two VLAN tags, a SecTAG with an SCI.
    pub const MAX_LEN: usize = 36;

    /// Reads the header at the front of a frame. The rest of the frame is not checked.
    ///
    /// # Errors
    /// As for [`SecTag`]. Another EtherType is [`DecodeError::Invalid`], and a frame that ends too
    /// early [`DecodeError::Short`].
    pub fn of(frame: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&mut Reader::new(frame))
    }

    /// Length of the header in bytes: 20 to 36.
    pub fn len(&self) -> usize {
        12 + VLAN_TAG_LEN * self.vlan_tag_count() + self.tag.encoded_len()
    }

    /// Always `false`: a header has at least 20 bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Number of VLAN tags in clear.
    pub fn vlan_tag_count(&self) -> usize {
        self.vlan_tags.iter().flatten().count()
    }

    /// The length in bytes of the secure data in a frame of `frame_len` bytes with this header.
    ///
    /// # Errors
    /// If SL and the length of the frame contradict each other (clause 9.12, f to i, with the
    /// 16-byte ICV of the GCM suites): the frame is too short; it has no secure data; it has less
    /// than 48 bytes of secure data although SL is 0; or it has bytes behind the ICV that cannot be
    /// padding.
    pub fn secure_data_len(&self, frame_len: usize) -> Result<usize, DecodeError> {
        let room = frame_len.checked_sub(self.len() + ICV_LEN).ok_or(DecodeError::Short)?;
        match self.tag.short_length.data_len() {
            None if room < SHORT_DATA_LEN => Err(DecodeError::invalid("SL of a short frame")),
            None => Ok(room),
            Some(len) if room < len => Err(DecodeError::Short),
            Some(len) if room == len || frame_len <= self.padded_len() => Ok(len),
            Some(_) => Err(DecodeError::Trailing),
        }
    }

    /// The longest frame that may have padding, in bytes: a bridge may pad before or after it adds
    /// a VLAN tag.
    fn padded_len(&self) -> usize {
        MIN_FRAME_LEN + VLAN_TAG_LEN * self.vlan_tag_count()
    }
}

/// # Errors
/// As for [`SecTag`]. An EtherType that is neither that of a VLAN tag nor MACsec is
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

/// A MACsec frame with a valid tag and a length that agrees with it.
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
    /// Finds the parts of a frame.
    ///
    /// # Errors
    /// As for [`Header::of`] and [`Header::secure_data_len`]. Whether a packet number of 0 is valid
    /// depends on the suite, which is not in the frame: see [`SecTag::pn_is_valid`].
    pub fn parse(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let header = Header::of(frame)?;
        let data_len = header.secure_data_len(frame.len())?;
        let mut reader = Reader::new(frame);
        let header_bytes = reader.take(header.len())?;
        let secure_data = reader.take(data_len)?;
        let (icv, padding) = reader.rest().split_first_chunk().ok_or(DecodeError::Short)?;
        Ok(Self { header, header_bytes, secure_data, icv, padding })
    }

    /// The bytes from the destination address to the end of the SecTAG.
    pub const fn header_bytes(&self) -> &'a [u8] {
        self.header_bytes
    }

    /// The user data, encrypted or not: EtherType and payload.
    pub const fn secure_data(&self) -> &'a [u8] {
        self.secure_data
    }

    /// The position of the secure data in the frame.
    pub const fn secure_data_range(&self) -> Range<usize> {
        let start = self.header_bytes.len();
        start..start + self.secure_data.len()
    }

    /// The integrity check value.
    pub const fn icv(&self) -> &'a [u8; ICV_LEN] {
        self.icv
    }

    /// The padding that a LAN added behind the ICV.
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
            Err(DecodeError::invalid("SL of a short frame"))
        );
        let short = header(EXPLICIT, 0, 47);
        assert!(Frame::parse(&frame(&short, 47, 0)).is_ok());
        assert_eq!(Frame::parse(&frame(&short, 46, 0)), Err(DecodeError::Short));
        assert_eq!(Frame::parse(&frame(&short, 48, 0)), Err(DecodeError::Trailing));
        let nothing = frame(&header(EXPLICIT, 0, 0), 0, 0);
        assert_eq!(Frame::parse(&nothing), Err(DecodeError::invalid("SL of a short frame")));
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
            // The parser cannot notice that secure data of unknown length was cut, as long as 48
            // bytes are left. The ICV detects it.
            let least = header.len() + 16 + data_len.min(48);
            for cut in 0..least {
                prop_assert!(Frame::parse(&bytes[..cut]).is_err());
            }
            prop_assert!(Frame::parse(&bytes).is_ok());
        }
    }
}
