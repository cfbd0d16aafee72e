//! The MAC Security Entity (IEEE 802.1AE-2018, clause 10): frames in the clear become MACsec
//! frames and back, where they stand.
//!
//! One [`Secy`] is one interface: one transmitting channel and any number of receiving ones.
//! [`Secy::protect`] and [`Secy::receive`] allocate nothing, and move no more than the twelve bytes
//! of both addresses.

mod receive;
mod transmit;

pub use receive::{Delivery, Discard};
pub use transmit::{Protected, Unsent};

use crate::codepoints::{ICV_LEN, PORT_END_STATION, PORT_SINGLE_COPY_BROADCAST, TAG_WITH_SCI_LEN};
use crate::counters::{ReceiveCounters, SaCounters, SecyCounters, TransmitCounters};
use crate::suite::{CipherSuite, SaKey};
use crate::tag::{AssociationNumber, Sci};
use crate::window::{MAX_REPLAY_WINDOW, Replay};
use alloc::collections::BTreeMap;
use core::fmt;
use receive::ReceiveChannel;
use transmit::TransmitChannel;

/// How many bytes protection adds to a frame, at most: a SecTAG with an SCI, and the ICV.
///
/// A [`PacketBuf`](vocabulary::PacketBuf) for [`Secy::protect`] has 16 bytes of headroom and 16 of
/// tailroom.
pub const MAX_OVERHEAD: usize = TAG_WITH_SCI_LEN + ICV_LEN;

/// What becomes of frames that are not as they should be (`validateFrames`, clause 10.7.8).
///
/// Frames that are encrypted are of no use unless they are valid, and never delivered otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidateFrames {
    /// Nothing is validated that is readable without.
    Disabled,
    /// Everything is validated, and what is readable delivered whatever comes of it.
    Check,
    /// Only what is valid is delivered.
    #[default]
    Strict,
}

/// What stands in our SecTAGs for the SCI (clause 10.5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SciInTag {
    /// The SCI.
    #[default]
    Explicit,
    /// ES: the SCI is the source address with port 1. A frame from another address has the SCI.
    EndStation,
    /// SCB, with port 0; as for `EndStation`.
    SingleCopyBroadcast,
    /// Nothing: for exactly one peer, which knows us as its only one.
    Omitted,
}

/// How a [`Secy`] works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who we are.
    pub sci: Sci,
    /// Frames are sent with a SecTAG (`protectFrames`); else as they are.
    pub protect_frames: bool,
    /// Frames are encrypted, not only authenticated.
    pub encrypt: bool,
    /// What stands for the SCI.
    pub sci_in_tag: SciInTag,
    /// Frames that would become longer, FCS not counted, are not sent.
    pub max_frame_len: usize,
    /// What becomes of frames that are not valid.
    pub validate_frames: ValidateFrames,
    /// What becomes of copies and latecomers.
    pub replay: Replay,
}

impl Settings {
    /// Everything encrypted, strict, in order, with the SCI in every tag; frames of any length.
    pub fn new(sci: Sci) -> Self {
        Self {
            sci,
            protect_frames: true,
            encrypt: true,
            sci_in_tag: SciInTag::default(),
            max_frame_len: usize::MAX,
            validate_frames: ValidateFrames::default(),
            replay: Replay::default(),
        }
    }
}

/// Why settings or keys were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// ES stands for port 1, SCB for port 0, and the SCI has another.
    Port(SciInTag),
    /// The replay window is wider than [`MAX_REPLAY_WINDOW`].
    ReplayWindow,
    /// The association number has a key; it must be retired first, since a key that came twice
    /// would use its packet numbers twice.
    InUse(AssociationNumber),
    /// The association number has no key.
    NoKey(AssociationNumber),
    /// Packet numbers go from 1 to [`CipherSuite::last_pn`].
    PacketNumber(CipherSuite),
    /// There is a receiving channel of that name, or it is our own.
    Channel(Sci),
    /// There is no receiving channel of that name.
    NoChannel(Sci),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(SciInTag::SingleCopyBroadcast) => {
                f.write_str("an SCI that a single copy broadcast stands for has port 0")
            }
            Self::Port(_) => f.write_str("an SCI that an end station stands for has port 1"),
            Self::ReplayWindow => write!(f, "a replay window has at most {MAX_REPLAY_WINDOW}"),
            Self::InUse(an) => write!(f, "association {an} has a key already"),
            Self::NoKey(an) => write!(f, "association {an} has no key"),
            Self::PacketNumber(suite) => {
                write!(f, "packet numbers of {suite} go from 1 to {}", suite.last_pn())
            }
            Self::Channel(sci) => write!(f, "channel {sci} is there already"),
            Self::NoChannel(sci) => write!(f, "there is no channel {sci}"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// A MAC Security Entity.
#[derive(Debug)]
pub struct Secy {
    settings: Settings,
    counters: SecyCounters,
    transmit: TransmitChannel,
    receive: BTreeMap<Sci, ReceiveChannel>,
}

impl Secy {
    /// One without keys: it sends nothing that is to be protected, and knows no peer.
    ///
    /// # Errors
    /// [`ConfigError::Port`] and [`ConfigError::ReplayWindow`].
    pub fn new(settings: Settings) -> Result<Self, ConfigError> {
        match settings.sci_in_tag {
            SciInTag::EndStation if settings.sci.port != PORT_END_STATION => {
                return Err(ConfigError::Port(settings.sci_in_tag));
            }
            SciInTag::SingleCopyBroadcast if settings.sci.port != PORT_SINGLE_COPY_BROADCAST => {
                return Err(ConfigError::Port(settings.sci_in_tag));
            }
            _ => {}
        }
        if settings.replay.window > MAX_REPLAY_WINDOW {
            return Err(ConfigError::ReplayWindow);
        }
        Ok(Self {
            settings,
            counters: SecyCounters::default(),
            transmit: TransmitChannel::default(),
            receive: BTreeMap::new(),
        })
    }

    /// How it works.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Gives the transmitting channel a key whose first frame has number `next_pn`. The first
    /// key of all is sent with at once, later ones from [`encode_with`](Self::encode_with) on.
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

    /// Sends with this association from now on (`encodingSA`).
    ///
    /// # Errors
    /// [`ConfigError::NoKey`].
    pub fn encode_with(&mut self, an: AssociationNumber) -> Result<(), ConfigError> {
        self.transmit.encode_with(an)
    }

    /// Forgets a key of the transmitting channel; nothing happens if there is none.
    pub fn retire_transmit_sa(&mut self, an: AssociationNumber) {
        self.transmit.retire(an);
    }

    /// The association that is sent with, and the number of its next frame; `None` once all
    /// numbers are used.
    pub fn encoding(&self) -> Option<(AssociationNumber, Option<u64>)> {
        self.transmit.encoding()
    }

    /// Adds a channel to receive from.
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

    /// Forgets a channel, its keys and its counters; nothing happens if there is none.
    pub fn remove_channel(&mut self, sci: Sci) {
        self.receive.remove(&sci);
    }

    /// Gives a receiving channel a key that is received from number `lowest_pn` on.
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

    /// Forgets a key of a receiving channel; nothing happens if there is none.
    pub fn retire_receive_sa(&mut self, sci: Sci, an: AssociationNumber) {
        if let Some(channel) = self.receive.get_mut(&sci) {
            channel.retire(an);
        }
    }

    /// Raises the lowest acceptable number of an association (`updtLowestPN`, clause 10.7.16);
    /// it never falls.
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

    /// What was counted outside of channels.
    pub const fn counters(&self) -> &SecyCounters {
        &self.counters
    }

    /// What the transmitting channel counted, with each association number.
    pub const fn transmit_counters(&self) -> (&TransmitCounters, &[SaCounters; 4]) {
        (&self.transmit.counters, &self.transmit.sa_counters)
    }

    /// The receiving channels and what they counted, in the order of their SCIs.
    pub fn receive_counters(
        &self,
    ) -> impl Iterator<Item = (Sci, &ReceiveCounters, &[SaCounters; 4])> {
        self.receive.iter().map(|(&sci, channel)| (sci, &channel.counters, &channel.sa_counters))
    }

    /// The lowest acceptable and the next number of an association; `None` without its key.
    pub fn receive_numbers(&self, sci: Sci, an: AssociationNumber) -> Option<(u64, u64)> {
        self.receive.get(&sci)?.numbers(an)
    }

    /// Counts frames that the host had no time for (InPktsOverrun).
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
