//! The MAC Security Entity, SecY (IEEE 802.1AE-2018, clause 10): protects and validates frames in
//! place.
//!
//! One [`Secy`] stands for one interface. It has one transmitting channel and any number of
//! receiving channels. [`Secy::protect`] and [`Secy::receive`] allocate nothing, and move no more
//! than the twelve bytes of both addresses.

mod receive;
mod transmit;

pub use receive::{Delivery, Discard};
pub use transmit::{ProtectError, ProtectOutcome};

use crate::codepoints::{ICV_LEN, PORT_END_STATION, PORT_SINGLE_COPY_BROADCAST, TAG_WITH_SCI_LEN};
use crate::counters::{ReceiveCounters, SaCounters, SecyCounters, TransmitCounters};
use crate::suite::{CipherSuite, SaKey};
use crate::tag::{AssociationNumber, Sci};
use crate::window::{MAX_REPLAY_WINDOW, Replay};
use alloc::collections::BTreeMap;
use core::fmt;
use receive::ReceiveChannel;
use transmit::TransmitChannel;

/// The most bytes that protection adds to a frame: a SecTAG with an SCI, and the ICV.
///
/// A [`PacketBuf`](lightseal_core::PacketBuf) for [`Secy::protect`] needs 16 bytes of headroom and 16
/// bytes of tailroom.
pub const MAX_OVERHEAD: usize = TAG_WITH_SCI_LEN + ICV_LEN;

/// What happens to frames that are not valid (`validateFrames`, clause 10.7.8).
///
/// An encrypted frame that is not valid is never delivered, since its content is unreadable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValidateFrames {
    /// Frames that are readable without validation are delivered without it.
    Disabled,
    /// All frames are validated, and readable frames are delivered even if they are not valid.
    Check,
    /// Only valid frames are delivered.
    #[default]
    Strict,
}

/// How our SecTAGs name the SCI (clause 10.5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SciInTag {
    /// The SCI is in the tag.
    #[default]
    Explicit,
    /// ES: the SCI is the source address with port 1. A frame with another source address has the
    /// SCI in its tag.
    EndStation,
    /// SCB: the SCI is the source address with port 0. A frame with another source address has the
    /// SCI in its tag.
    SingleCopyBroadcast,
    /// No SCI: for a link with exactly one peer, which has no other peer.
    Omitted,
}

/// How frames are protected before they are sent (`protectFrames`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameProtection {
    /// They are encrypted and authenticated.
    #[default]
    Confidentiality,
    /// They are authenticated, and everybody can read them.
    Integrity,
    /// They are sent unchanged, without a SecTAG.
    Off,
}

/// The settings of a [`Secy`]: plain data, which [`Secy::new`] checks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecySettings {
    /// The SCI of this SecY.
    pub sci: Sci,
    /// How frames are protected before they are sent.
    pub protection: FrameProtection,
    /// How SecTAGs name the SCI.
    pub sci_in_tag: SciInTag,
    /// The longest frame in bytes, without FCS. A frame that would become longer is not sent.
    pub max_frame_len: usize,
    /// What happens to frames that are not valid.
    pub validate_frames: ValidateFrames,
    /// How replayed and late frames are treated.
    pub replay: Replay,
}

impl SecySettings {
    /// Encrypts all frames, validates strictly, requires strict order, puts the SCI into every tag,
    /// and allows frames of any length.
    pub fn new(sci: Sci) -> Self {
        Self {
            sci,
            protection: FrameProtection::default(),
            sci_in_tag: SciInTag::default(),
            max_frame_len: usize::MAX,
            validate_frames: ValidateFrames::default(),
            replay: Replay::default(),
        }
    }

    /// Checks that the settings are valid, each alone and together.
    ///
    /// # Errors
    /// [`ConfigError::Port`] and [`ConfigError::ReplayWindow`].
    pub fn check(&self) -> Result<(), ConfigError> {
        let port = match self.sci_in_tag {
            SciInTag::EndStation => Some(PORT_END_STATION),
            SciInTag::SingleCopyBroadcast => Some(PORT_SINGLE_COPY_BROADCAST),
            SciInTag::Explicit | SciInTag::Omitted => None,
        };
        if port.is_some_and(|port| port != self.sci.port) {
            return Err(ConfigError::Port(self.sci_in_tag));
        }
        if self.replay.window > MAX_REPLAY_WINDOW {
            return Err(ConfigError::ReplayWindow);
        }
        Ok(())
    }
}

/// Why settings or a key were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The SCI has another port than the tag implies: 1 with ES, 0 with SCB.
    Port(SciInTag),
    /// The replay window is wider than [`MAX_REPLAY_WINDOW`].
    ReplayWindow,
    /// The association number has a key already. It must be retired first: if the same key were
    /// installed again, its packet numbers would be used twice.
    InUse(AssociationNumber),
    /// The association number has no key.
    NoKey(AssociationNumber),
    /// The packet number is not within 1 and [`CipherSuite::last_pn`].
    PacketNumber(CipherSuite),
    /// There is a receiving channel with this SCI, or it is our own SCI.
    Channel(Sci),
    /// There is no receiving channel with this SCI.
    NoChannel(Sci),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(SciInTag::SingleCopyBroadcast) => {
                f.write_str("with SCB in place of the SCI, the SCI must have port 0")
            }
            Self::Port(_) => f.write_str("with ES in place of the SCI, the SCI must have port 1"),
            Self::ReplayWindow => {
                write!(f, "a replay window is at most {MAX_REPLAY_WINDOW} packet numbers")
            }
            Self::InUse(an) => write!(f, "association {an} has a key already"),
            Self::NoKey(an) => write!(f, "association {an} has no key"),
            Self::PacketNumber(suite) => {
                write!(f, "packet numbers of {suite} go from 1 to {}", suite.last_pn())
            }
            Self::Channel(sci) => write!(f, "channel {sci} exists already"),
            Self::NoChannel(sci) => write!(f, "there is no channel {sci}"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// A MAC Security Entity (SecY).
#[derive(Debug)]
pub struct Secy {
    settings: SecySettings,
    counters: SecyCounters,
    transmit: TransmitChannel,
    receive: BTreeMap<Sci, ReceiveChannel>,
}

impl Secy {
    /// Creates a SecY without keys, which knows no peer and sends no protected frames.
    ///
    /// # Errors
    /// The settings must pass [`SecySettings::check`].
    pub fn new(settings: SecySettings) -> Result<Self, ConfigError> {
        settings.check()?;
        Ok(Self {
            settings,
            counters: SecyCounters::default(),
            transmit: TransmitChannel::default(),
            receive: BTreeMap::new(),
        })
    }

    /// The settings.
    pub const fn settings(&self) -> &SecySettings {
        &self.settings
    }

    /// Installs a key of the transmitting channel; its first frame will have the packet number
    /// `next_pn`. If no key is used for sending, this one is, otherwise only after
    /// [`select_encoding_sa`](Self::select_encoding_sa).
    ///
    /// # Errors
    /// [`ConfigError::InUse`] and [`ConfigError::PacketNumber`].
    pub fn install_transmit_sa(
        &mut self,
        an: AssociationNumber,
        key: SaKey,
        next_pn: u64,
    ) -> Result<(), ConfigError> {
        check_pn(&key, next_pn)?;
        self.transmit.install(an, key, next_pn)
    }

    /// Sends with the key of this association number from now on (`encodingSA`).
    ///
    /// # Errors
    /// [`ConfigError::NoKey`].
    pub fn select_encoding_sa(&mut self, an: AssociationNumber) -> Result<(), ConfigError> {
        self.transmit.select_encoding_sa(an)
    }

    /// Removes a key of the transmitting channel, if there is one.
    pub fn retire_transmit_sa(&mut self, an: AssociationNumber) {
        self.transmit.retire(an);
    }

    /// The association number that is used for sending, and the packet number of its next frame;
    /// that is `None` once all packet numbers are used.
    pub fn encoding(&self) -> Option<(AssociationNumber, Option<u64>)> {
        self.transmit.encoding()
    }

    /// Adds a receiving channel.
    ///
    /// # Errors
    /// [`ConfigError::Channel`].
    pub fn add_channel(&mut self, sci: Sci) -> Result<(), ConfigError> {
        if sci == self.settings.sci || self.receive.contains_key(&sci) {
            return Err(ConfigError::Channel(sci));
        }
        self.receive.insert(sci, ReceiveChannel::default());
        Ok(())
    }

    /// Removes a receiving channel with its keys and counters, if it exists.
    pub fn remove_channel(&mut self, sci: Sci) {
        self.receive.remove(&sci);
    }

    /// Installs a key of a receiving channel, which accepts packet numbers from `lowest_pn` on.
    ///
    /// # Errors
    /// [`ConfigError::NoChannel`], [`ConfigError::InUse`] and [`ConfigError::PacketNumber`].
    pub fn install_receive_sa(
        &mut self,
        sci: Sci,
        an: AssociationNumber,
        key: SaKey,
        lowest_pn: u64,
    ) -> Result<(), ConfigError> {
        check_pn(&key, lowest_pn)?;
        let replay = self.settings.replay;
        self.channel_mut(sci)?.install(an, key, replay, lowest_pn)
    }

    /// Removes a key of a receiving channel, if there is one.
    pub fn retire_receive_sa(&mut self, sci: Sci, an: AssociationNumber) {
        if let Some(channel) = self.receive.get_mut(&sci) {
            channel.retire(an);
        }
    }

    /// Raises the lowest acceptable packet number of an association (`updtLowestPN`, clause
    /// 10.7.16). The number never falls.
    ///
    /// # Errors
    /// [`ConfigError::NoChannel`] and [`ConfigError::NoKey`].
    pub fn raise_lowest_pn(
        &mut self,
        sci: Sci,
        an: AssociationNumber,
        lowest_pn: u64,
    ) -> Result<(), ConfigError> {
        self.channel_mut(sci)?.raise_lowest(an, lowest_pn)
    }

    /// The counters that belong to no channel.
    pub const fn counters(&self) -> &SecyCounters {
        &self.counters
    }

    /// The counters of the transmitting channel, and those of each of its association numbers.
    pub const fn transmit_counters(&self) -> (&TransmitCounters, &[SaCounters; 4]) {
        (&self.transmit.counters, &self.transmit.sa_counters)
    }

    /// The receiving channels in the order of their SCIs, each with its counters and those of its
    /// association numbers.
    pub fn receive_counters(
        &self,
    ) -> impl Iterator<Item = (Sci, &ReceiveCounters, &[SaCounters; 4])> {
        self.receive.iter().map(|(&sci, channel)| (sci, &channel.counters, &channel.sa_counters))
    }

    /// The lowest acceptable and the next packet number of an association; `None` if it has no key.
    pub fn receive_numbers(&self, sci: Sci, an: AssociationNumber) -> Option<(u64, u64)> {
        self.receive.get(&sci)?.numbers(an)
    }

    /// Counts frames that were discarded because the host had no time for them (InPktsOverrun).
    pub const fn count_overruns(&mut self, frames: u64) {
        self.counters.in_pkts_overrun += frames;
    }

    fn channel_mut(&mut self, sci: Sci) -> Result<&mut ReceiveChannel, ConfigError> {
        self.receive.get_mut(&sci).ok_or(ConfigError::NoChannel(sci))
    }
}

fn check_pn(key: &SaKey, pn: u64) -> Result<(), ConfigError> {
    if pn == 0 || pn > key.suite().last_pn() {
        return Err(ConfigError::PacketNumber(key.suite()));
    }
    Ok(())
}
