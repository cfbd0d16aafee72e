//! Protection of frames (IEEE 802.1AE-2018, clause 10.5).

use super::{ConfigError, FrameProtection, SciInTag, Secy, SecySettings};
use crate::codepoints::{ADDRESSES_LEN, ICV_LEN, TAG_LEN, TAG_WITH_SCI_LEN};
use crate::counters::{SaCounters, TransmitCounters};
use crate::suite::SaKey;
use crate::tag::{AssociationNumber, Protection, SciField, SecTag, ShortLength};
use core::fmt;
use lightseal_core::PacketBuf;
use lightseal_core::wire::{Encode, Writer};

/// The result of protecting a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtectOutcome {
    /// The frame has a SecTAG and an ICV.
    Tagged,
    /// The frame is unchanged: [`FrameProtection::Off`].
    Untagged,
}

/// Why a frame must not be sent. The frame is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtectError {
    /// The frame has less than 14 bytes: addresses and an EtherType.
    Short,
    /// The frame would be longer than [`SecySettings::max_frame_len`].
    TooLong,
    /// The buffer has too little headroom for the SecTAG or too little tailroom for the ICV: 16
    /// bytes of each always suffice.
    NoRoom,
    /// No association is selected for sending.
    NoSa,
    /// All packet numbers of the association are used; it needs another key.
    Exhausted,
}

impl fmt::Display for ProtectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "frame is shorter than an Ethernet header",
            Self::TooLong => "frame would be too long with its tag",
            Self::NoRoom => "no room around the frame for tag and ICV",
            Self::NoSa => "there is no key to send with",
            Self::Exhausted => "the key has used up its packet numbers",
        })
    }
}

impl core::error::Error for ProtectError {}

#[derive(Debug)]
struct TransmitSa {
    key: SaKey,
    /// `None` once all packet numbers are used, since none is used twice.
    next_pn: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct TransmitChannel {
    sas: [Option<TransmitSa>; 4],
    encoding: Option<AssociationNumber>,
    pub(super) counters: TransmitCounters,
    pub(super) sa_counters: [SaCounters; 4],
}

impl TransmitChannel {
    pub(super) fn install(
        &mut self,
        an: AssociationNumber,
        key: SaKey,
        next_pn: u64,
    ) -> Result<(), ConfigError> {
        let sa = &mut self.sas[an.index()];
        if sa.is_some() {
            return Err(ConfigError::InUse(an));
        }
        *sa = Some(TransmitSa { key, next_pn: Some(next_pn) });
        self.encoding.get_or_insert(an);
        Ok(())
    }

    pub(super) fn select_encoding_sa(&mut self, an: AssociationNumber) -> Result<(), ConfigError> {
        if self.sas[an.index()].is_none() {
            return Err(ConfigError::NoKey(an));
        }
        self.encoding = Some(an);
        Ok(())
    }

    pub(super) fn retire(&mut self, an: AssociationNumber) {
        self.sas[an.index()] = None;
        if self.encoding == Some(an) {
            self.encoding = None;
        }
    }

    pub(super) fn encoding(&self) -> Option<(AssociationNumber, Option<u64>)> {
        let an = self.encoding?;
        Some((an, self.sas[an.index()].as_ref()?.next_pn))
    }
}

impl Secy {
    /// Protects an Ethernet frame (from the destination address on, without FCS) in place.
    ///
    /// # Errors
    /// See [`ProtectError`]; the frame is unchanged and must not be sent.
    pub fn protect(&mut self, frame: &mut PacketBuf<'_>) -> Result<ProtectOutcome, ProtectError> {
        let result = self.protect_uncounted(frame);
        match result {
            Ok(ProtectOutcome::Untagged) => self.counters.out_pkts_untagged += 1,
            Err(ProtectError::TooLong) => self.counters.out_pkts_too_long += 1,
            Err(ProtectError::NoSa | ProtectError::Exhausted) => self.counters.out_pkts_no_sa += 1,
            Ok(ProtectOutcome::Tagged) | Err(ProtectError::Short | ProtectError::NoRoom) => {}
        }
        result
    }

    fn protect_uncounted(
        &mut self,
        frame: &mut PacketBuf<'_>,
    ) -> Result<ProtectOutcome, ProtectError> {
        let settings = &self.settings;
        let (addresses, data) =
            frame.bytes().split_first_chunk::<ADDRESSES_LEN>().ok_or(ProtectError::Short)?;
        if data.len() < 2 {
            return Err(ProtectError::Short);
        }
        let (addresses, data_len) = (*addresses, data.len());
        let encrypt = match settings.protection {
            FrameProtection::Off if frame.len() <= settings.max_frame_len => {
                return Ok(ProtectOutcome::Untagged);
            }
            FrameProtection::Off => return Err(ProtectError::TooLong),
            FrameProtection::Confidentiality => true,
            FrameProtection::Integrity => false,
        };
        let sci_field = sci_field(settings, &addresses);
        let tag_len = match sci_field {
            SciField::Explicit(_) => TAG_WITH_SCI_LEN,
            SciField::Implicit { .. } => TAG_LEN,
        };
        if frame.len().saturating_add(tag_len + ICV_LEN) > settings.max_frame_len {
            return Err(ProtectError::TooLong);
        }
        if frame.headroom() < tag_len || frame.tailroom() < ICV_LEN {
            return Err(ProtectError::NoRoom);
        }
        let an = self.transmit.encoding.ok_or(ProtectError::NoSa)?;
        let sa = self.transmit.sas[an.index()].as_mut().ok_or(ProtectError::NoSa)?;
        let pn = sa.next_pn.ok_or(ProtectError::Exhausted)?;
        sa.next_pn = pn.checked_add(1).filter(|&next| next <= sa.key.suite().last_pn());

        let tag = SecTag {
            sci_field,
            protection: if encrypt { Protection::Confidential } else { Protection::Integrity },
            an,
            short_length: ShortLength::of(data_len),
            pn: pn as u32,
        };
        let mut header = [0; ADDRESSES_LEN + TAG_WITH_SCI_LEN];
        header[..ADDRESSES_LEN].copy_from_slice(&addresses);
        let mut writer = Writer::new(&mut header[ADDRESSES_LEN..]);
        tag.write(&mut writer).expect("a SecTAG has at most 16 bytes");
        let header_len = ADDRESSES_LEN + tag_len;
        frame
            .take_front(ADDRESSES_LEN)
            .map(|_| ())
            .and_then(|()| frame.prepend_slice(&header[..header_len]))
            .expect("the headroom was checked");

        let clear = header_len + sa.key.clear_len(encrypt, data_len);
        let (aad, text) = frame.bytes_mut().split_at_mut(clear);
        let icv = sa.key.gcm().seal(&sa.key.nonce(settings.sci, pn), aad, text);
        frame.append(&icv).expect("the tailroom was checked");

        let counters = &mut self.transmit.counters;
        if encrypt {
            counters.out_pkts_encrypted += 1;
            counters.out_octets_encrypted += data_len as u64;
        } else {
            counters.out_pkts_protected += 1;
            counters.out_octets_protected += data_len as u64;
        }
        self.transmit.sa_counters[an.index()].pkts_ok += 1;
        Ok(ProtectOutcome::Tagged)
    }
}

/// How the tag of a frame with these addresses names the SCI.
fn sci_field(settings: &SecySettings, addresses: &[u8; ADDRESSES_LEN]) -> SciField {
    let ours = addresses[6..] == settings.sci.address;
    match settings.sci_in_tag {
        SciInTag::EndStation if ours => {
            SciField::Implicit { end_station: true, single_copy_broadcast: false }
        }
        SciInTag::SingleCopyBroadcast if ours => {
            SciField::Implicit { end_station: false, single_copy_broadcast: true }
        }
        SciInTag::Omitted => {
            SciField::Implicit { end_station: false, single_copy_broadcast: false }
        }
        _ => SciField::Explicit(settings.sci),
    }
}
