//! Validation of frames (IEEE 802.1AE-2018, clause 10.6, figure 10-5).

use super::{ConfigError, Secy, ValidateFrames};
use crate::codepoints::{ADDRESSES_LEN, ETHERTYPE_MACSEC, ICV_LEN};
use crate::counters::{ReceiveCounters, SaCounters};
use crate::crypto::Unauthentic;
use crate::frame::Header;
use crate::suite::SaKey;
use crate::tag::{AssociationNumber, Protection, Sci};
use crate::window::{PacketNumbers, PnClass, Replay, ReplayProtection};
use alloc::collections::BTreeMap;
use lightseal_core::PacketBuf;
use lightseal_core::wire::DecodeError;

/// Why a frame is delivered; its SecTAG and ICV are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// The frame is authentic, and its packet number is acceptable.
    Ok,
    /// The frame is authentic. Its packet number is below the lowest acceptable one, but replay
    /// protection is off.
    Delayed,
    /// The frame was not validated, according to the configuration.
    Unchecked,
    /// The frame is not authentic; the configuration only checks frames.
    Invalid,
    /// The frame has no SecTAG.
    Untagged,
    /// The frame is of an unknown channel.
    UnknownSci,
    /// The frame is of an association without a key.
    UnusedSa,
}

/// Why a frame is discarded. The content of its buffer is undefined then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discard {
    /// The frame has no SecTAG.
    NoTag,
    /// The SecTAG or the length of the frame is invalid.
    BadTag,
    /// The frame is for the key agreement entity, never for this port (bit E without C).
    KeyAgreement,
    /// The frame is of an unknown channel.
    NoSci,
    /// The frame is of an association without a key.
    NotUsingSa,
    /// The packet number is below the lowest acceptable one, or was received before.
    Late,
    /// The frame is not authentic.
    NotValid,
}

#[derive(Debug)]
struct ReceiveSa {
    key: SaKey,
    numbers: PacketNumbers,
}

#[derive(Debug, Default)]
pub(super) struct ReceiveChannel {
    sas: [Option<ReceiveSa>; 4],
    pub(super) counters: ReceiveCounters,
    pub(super) sa_counters: [SaCounters; 4],
}

impl ReceiveChannel {
    pub(super) fn install(
        &mut self,
        an: AssociationNumber,
        key: SaKey,
        replay: Replay,
        lowest_pn: u64,
    ) -> Result<(), ConfigError> {
        let sa = &mut self.sas[an.index()];
        if sa.is_some() {
            return Err(ConfigError::InUse(an));
        }
        let numbers = PacketNumbers::new(replay, lowest_pn, key.suite().extended());
        *sa = Some(ReceiveSa { key, numbers });
        Ok(())
    }

    pub(super) fn retire(&mut self, an: AssociationNumber) {
        self.sas[an.index()] = None;
    }

    pub(super) fn raise_lowest(
        &mut self,
        an: AssociationNumber,
        lowest: u64,
    ) -> Result<(), ConfigError> {
        let sa = self.sas[an.index()].as_mut().ok_or(ConfigError::NoKey(an))?;
        sa.numbers.raise_lowest(lowest);
        Ok(())
    }

    pub(super) fn numbers(&self, an: AssociationNumber) -> Option<(u64, u64)> {
        let sa = self.sas[an.index()].as_ref()?;
        Some((sa.numbers.lowest(), sa.numbers.next()))
    }
}

/// The parts of a frame with a valid tag and length.
struct FrameParts {
    header: Header,
    data_len: usize,
}

impl FrameParts {
    fn of(frame: &[u8]) -> Result<Self, DecodeError> {
        let header = Header::of(frame)?;
        let data_len = header.secure_data_len(frame.len())?;
        Ok(Self { header, data_len })
    }

    /// Whether the user data cannot be read without the key.
    fn changed(&self) -> bool {
        matches!(self.header.tag.protection, Protection::Confidential | Protection::Changed)
    }

    /// Removes SecTAG, ICV and padding, so that addresses and user data are left.
    fn strip(&self, frame: &mut PacketBuf<'_>) {
        let header_len = self.header.len();
        let after = frame.len() - header_len - self.data_len;
        let stripped = frame.take_back(after).is_some() && frame.take_front(header_len).is_some();
        debug_assert!(stripped, "the parts lie within this frame");
        let put = frame
            .prepend(&self.header.source)
            .and_then(|()| frame.prepend(&self.header.destination));
        put.expect("the header that was removed is longer than the addresses");
    }
}

impl Secy {
    /// Validates an Ethernet frame (from the destination address on, without FCS) in place, and
    /// removes SecTAG and ICV. A SecY does not look behind VLAN tags: a frame with a VLAN tag
    /// before its SecTAG counts as untagged.
    ///
    /// # Errors
    /// See [`Discard`]; the frame must not be delivered.
    pub fn receive(&mut self, frame: &mut PacketBuf<'_>) -> Result<Delivery, Discard> {
        let strict = self.settings.validate_frames == ValidateFrames::Strict;
        let ethertype = frame.bytes().get(ADDRESSES_LEN..ADDRESSES_LEN + 2);
        if ethertype != Some(&ETHERTYPE_MACSEC.to_be_bytes()) {
            if strict || ethertype.is_none() {
                self.counters.in_pkts_no_tag += 1;
                return Err(Discard::NoTag);
            }
            self.counters.in_pkts_untagged += 1;
            return Ok(Delivery::Untagged);
        }
        let Ok(parts) = FrameParts::of(frame.bytes()) else {
            self.counters.in_pkts_bad_tag += 1;
            return Err(Discard::BadTag);
        };
        if parts.header.tag.protection == Protection::KeyAgreement {
            self.counters.in_pkts_key_agreement += 1;
            return Err(Discard::KeyAgreement);
        }
        let must_validate = strict || parts.changed();
        let Some((sci, channel)) = channel_of(&mut self.receive, &parts.header) else {
            if must_validate {
                self.counters.in_pkts_no_sci += 1;
                return Err(Discard::NoSci);
            }
            self.counters.in_pkts_unknown_sci += 1;
            parts.strip(frame);
            return Ok(Delivery::UnknownSci);
        };
        let an = parts.header.tag.an.index();
        let ReceiveChannel { sas, counters, sa_counters } = channel;
        let Some(sa) = &mut sas[an] else {
            if must_validate {
                counters.in_pkts_not_using_sa += 1;
                sa_counters[an].in_pkts_not_using_sa += 1;
                return Err(Discard::NotUsingSa);
            }
            counters.in_pkts_unused_sa += 1;
            sa_counters[an].in_pkts_unused_sa += 1;
            parts.strip(frame);
            return Ok(Delivery::UnusedSa);
        };
        let pn = sa.numbers.recover(parts.header.tag.pn);
        if pn == 0 {
            self.counters.in_pkts_bad_tag += 1;
            return Err(Discard::BadTag);
        }
        let age = sa.numbers.classify(pn);
        if self.settings.replay.protection != ReplayProtection::Off && age != PnClass::Acceptable {
            counters.in_pkts_late += 1;
            counters.in_pkts_duplicate += u64::from(age == PnClass::Duplicate);
            return Err(Discard::Late);
        }
        // A readable frame is not validated if the configuration does not ask for it.
        if !must_validate && self.settings.validate_frames == ValidateFrames::Disabled {
            counters.in_pkts_unchecked += 1;
            parts.strip(frame);
            return Ok(Delivery::Unchecked);
        }
        let encrypted = parts.header.tag.protection == Protection::Confidential;
        if open(&sa.key, sci, pn, &parts, frame).is_err() {
            if must_validate {
                counters.in_pkts_not_valid += 1;
                sa_counters[an].in_pkts_not_valid += 1;
                return Err(Discard::NotValid);
            }
            counters.in_pkts_invalid += 1;
            sa_counters[an].in_pkts_invalid += 1;
            parts.strip(frame);
            return Ok(Delivery::Invalid);
        }
        sa.numbers.accept(pn);
        let octets = if encrypted {
            &mut counters.in_octets_decrypted
        } else {
            &mut counters.in_octets_validated
        };
        *octets += parts.data_len as u64;
        parts.strip(frame);
        if age == PnClass::Late {
            counters.in_pkts_delayed += 1;
            return Ok(Delivery::Delayed);
        }
        counters.in_pkts_ok += 1;
        sa_counters[an].pkts_ok += 1;
        Ok(Delivery::Ok)
    }
}

/// The channel of a frame: the one that the tag names, or else the only channel (clause 10.6.1).
fn channel_of<'a>(
    channels: &'a mut BTreeMap<Sci, ReceiveChannel>,
    header: &Header,
) -> Option<(Sci, &'a mut ReceiveChannel)> {
    match header.tag.sci_in_frame_from(header.source) {
        Some(sci) => channels.get_mut(&sci).map(|channel| (sci, channel)),
        None if channels.len() == 1 => {
            channels.iter_mut().next().map(|(&sci, channel)| (sci, channel))
        }
        None => None,
    }
}

/// Decrypts the user data of a frame in place. Fails if the frame is not authentic.
fn open(
    key: &SaKey,
    sci: Sci,
    pn: u64,
    parts: &FrameParts,
    frame: &mut PacketBuf<'_>,
) -> Result<(), Unauthentic> {
    let encrypted = match parts.header.tag.protection {
        Protection::Integrity => false,
        Protection::Confidential => true,
        // No suite here changes text without encrypting it.
        Protection::Changed | Protection::KeyAgreement => return Err(Unauthentic),
    };
    let header_len = parts.header.len();
    let clear = header_len + key.clear_len(encrypted, parts.data_len);
    let (covered, icv) =
        frame.bytes_mut().split_at_mut_checked(header_len + parts.data_len).ok_or(Unauthentic)?;
    let icv = icv.first_chunk::<ICV_LEN>().ok_or(Unauthentic)?;
    let (aad, text) = covered.split_at_mut_checked(clear).ok_or(Unauthentic)?;
    key.gcm().open(&key.nonce(sci, pn), aad, text, icv)
}
