//! The keys with which a gateway seals datagrams for one peer in one epoch.

use super::cipher::FrameCipher;
use super::prefix::{PREFIX_LEN, Prefix};
use crate::codepoints::DatagramType;
use crate::keys::{EpochSecret, GatewayId};
use crate::lock;
use crate::tuning::{MAX_LANES, MAX_PACKETS_PER_KEY, PACKETS_BEFORE_REKEY};
use core::fmt;
use lightseal_core::PacketBuf;
use lightseal_macsec::crypto::{Gcm, GcmProvider};
use std::sync::{Mutex, OnceLock};
use zeroize::Zeroizing;

/// Length in bytes of the tag at the end of a sealed datagram.
pub const TAG_LEN: usize = 16;
/// How many bytes sealing adds to a packet.
pub const SEAL_OVERHEAD: usize = PREFIX_LEN + TAG_LEN;

/// Why a packet was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// The buffer has no room for the prefix and the tag, or the packet is shorter than the part to
    /// encrypt.
    Room,
    /// The lane does not exist, or its key has sealed as many packets as it may.
    Exhausted,
}

/// The keys of one epoch in the direction to one peer.
pub struct Outbound {
    secret: EpochSecret,
    sender: GatewayId,
    receiver: GatewayId,
    epoch: u32,
    /// The receiver index: the peer's name for these keys.
    index: u32,
    provider: &'static GcmProvider,
    lanes: [OnceLock<Mutex<Lane>>; MAX_LANES],
    /// The scheme's own cipher, in schemes that have one.
    cipher: Option<Box<dyn FrameCipher>>,
}

struct Lane {
    cipher: Box<dyn Gcm>,
    iv: Zeroizing<[u8; 12]>,
    counter: u64,
}

/// The state of a key after sealing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyUsage {
    /// Whether the key is nearly used up, so that a new epoch should be asked for.
    pub near_limit: bool,
}

impl Outbound {
    /// Creates the keys with which `sender` seals in `epoch` for `receiver`, which knows them by
    /// the receiver index `index`.
    pub fn new(
        secret: EpochSecret,
        (sender, receiver): (GatewayId, GatewayId),
        epoch: u32,
        index: u32,
        provider: &'static GcmProvider,
    ) -> Self {
        let lanes = [const { OnceLock::new() }; MAX_LANES];
        Self { secret, sender, receiver, epoch, index, provider, lanes, cipher: None }
    }

    /// The number of the epoch.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Seals `packet` in place. The first `sealed` bytes are encrypted, or the whole packet if
    /// `sealed` is 0. The whole packet is authenticated; the prefix is put before it and the tag
    /// behind it.
    ///
    /// # Errors
    /// If the packet has less than [`PREFIX_LEN`] bytes of headroom or [`TAG_LEN`] bytes of
    /// tailroom, or the key is used up. The packet is unchanged then.
    pub fn seal(
        &self,
        lane: u8,
        kind: DatagramType,
        sealed: u8,
        packet: &mut PacketBuf<'_>,
    ) -> Result<KeyUsage, SealError> {
        let encrypted = if sealed == 0 { packet.len() } else { usize::from(sealed) };
        if packet.headroom() < PREFIX_LEN || packet.tailroom() < TAG_LEN || packet.len() < encrypted
        {
            return Err(SealError::Room);
        }
        let slot = self.lanes.get(usize::from(lane)).ok_or(SealError::Exhausted)?;
        let mut state = lock(slot.get_or_init(|| Mutex::new(self.lane(lane))));
        if state.counter >= MAX_PACKETS_PER_KEY {
            return Err(SealError::Exhausted);
        }
        let prefix = Prefix {
            kind,
            epoch: self.epoch as u8,
            receiver: self.index,
            lane,
            counter: state.counter,
            sealed,
        };
        state.counter += 1;
        let (text, clear) = packet.bytes_mut().split_at_mut(encrypted);
        let tag = state.cipher.seal(&prefix.nonce(&state.iv), clear, text);
        let near_limit = state.counter >= PACKETS_BEFORE_REKEY;
        drop(state);
        packet.append(&tag).ok_or(SealError::Room)?;
        packet.prepend(&prefix.encode()).ok_or(SealError::Room)?;
        Ok(KeyUsage { near_limit })
    }

    /// The receiver index under which the peer opens what these keys seal.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Adds the scheme's own cipher for this direction and epoch.
    #[must_use]
    pub fn with_cipher(mut self, cipher: Option<Box<dyn FrameCipher>>) -> Self {
        self.cipher = cipher;
        self
    }

    /// The scheme's own cipher, if it has one.
    pub fn cipher(&self) -> Option<&dyn FrameCipher> {
        self.cipher.as_deref()
    }

    fn lane(&self, lane: u8) -> Lane {
        let key = self.secret.lane_key(&self.sender, &self.receiver, self.epoch, lane);
        let (cipher, iv) = key.cipher(self.provider);
        Lane { cipher, iv: Zeroizing::new(iv), counter: 0 }
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
