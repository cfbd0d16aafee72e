//! The keys with which a gateway opens the datagrams of one peer in one epoch.

use super::cipher::FrameCipher;
use super::outbound::{SEAL_OVERHEAD, TAG_LEN};
use super::prefix::{PREFIX_LEN, Prefix};
use crate::keys::{EpochSecret, GatewayId};
use crate::lock;
use crate::tuning::{MAX_FORGERIES_PER_KEY, MAX_LANES};
use crate::window::Window;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use lightseal_core::PacketBuf;
use lightseal_macsec::crypto::{Gcm, GcmProvider};
use std::sync::{Mutex, OnceLock};
use zeroize::Zeroizing;

/// Why a sealed datagram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The datagram is too short, or its lane or epoch is invalid.
    Malformed,
    /// A datagram with this counter was accepted before.
    Replayed,
    /// The counter is older than the replay window.
    Old,
    /// The tag is wrong.
    Forged,
    /// The key opens no more datagrams, since too many were forged under it.
    Exhausted,
}

/// The keys of one epoch from one peer.
pub struct Inbound {
    secret: EpochSecret,
    sender: GatewayId,
    receiver: GatewayId,
    epoch: u32,
    provider: &'static GcmProvider,
    lanes: [OnceLock<Mutex<Lane>>; MAX_LANES],
    /// Whether any datagram was opened.
    used: AtomicBool,
    /// The scheme's own cipher, in schemes that have one.
    cipher: Option<Box<dyn FrameCipher>>,
}

struct Lane {
    cipher: Box<dyn Gcm>,
    iv: Zeroizing<[u8; 12]>,
    window: Window,
    failures: u64,
}

impl Inbound {
    /// Creates the keys with which `receiver` opens what `sender` seals in `epoch`.
    pub fn new(
        secret: EpochSecret,
        (sender, receiver): (GatewayId, GatewayId),
        epoch: u32,
        provider: &'static GcmProvider,
    ) -> Self {
        let lanes = [const { OnceLock::new() }; MAX_LANES];
        let used = AtomicBool::new(false);
        Self { secret, sender, receiver, epoch, provider, lanes, used, cipher: None }
    }

    /// The number of the epoch.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Opens `packet` in place: removes the prefix and the tag, and decrypts the encrypted part.
    /// Returns whether the counter is the highest of its lane so far.
    ///
    /// # Errors
    /// If the datagram is not authentic, or its counter was accepted before. The encrypted part may
    /// then be overwritten.
    pub fn open(&self, prefix: &Prefix, packet: &mut PacketBuf<'_>) -> Result<bool, OpenError> {
        let content = packet.len().checked_sub(SEAL_OVERHEAD).ok_or(OpenError::Malformed)?;
        let encrypted = if prefix.sealed == 0 { content } else { usize::from(prefix.sealed) };
        if prefix.epoch != self.epoch as u8 || encrypted > content {
            return Err(OpenError::Malformed);
        }
        let slot = self.lanes.get(usize::from(prefix.lane)).ok_or(OpenError::Malformed)?;
        let mut lane = lock(slot.get_or_init(|| Mutex::new(self.lane(prefix.lane))));
        if !lane.window.check(prefix.counter) {
            return Err(lane.refusal(prefix.counter));
        }
        if lane.failures >= MAX_FORGERIES_PER_KEY {
            return Err(OpenError::Exhausted);
        }
        let (body, tag) = packet.bytes_mut()[PREFIX_LEN..].split_at_mut(content);
        let tag: &[u8; TAG_LEN] = (&*tag).try_into().map_err(|_| OpenError::Malformed)?;
        let (text, clear) = body.split_at_mut(encrypted);
        let nonce = prefix.nonce(&lane.iv);
        if lane.cipher.open(&nonce, clear, text, tag).is_err() {
            lane.failures += 1;
            return Err(OpenError::Forged);
        }
        let newest = prefix.counter >= lane.window.next();
        lane.window.commit(prefix.counter);
        drop(lane);
        if !self.is_used() {
            self.used.store(true, Ordering::Relaxed);
        }
        packet.take_front(PREFIX_LEN).ok_or(OpenError::Malformed)?;
        packet.take_back(TAG_LEN).ok_or(OpenError::Malformed)?;
        Ok(newest)
    }

    /// Whether any datagram was opened.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
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
        Lane { cipher, iv: Zeroizing::new(iv), window: Window::default(), failures: 0 }
    }
}

impl Lane {
    fn refusal(&self, counter: u64) -> OpenError {
        if self.window.next().saturating_sub(counter) > crate::tuning::REPLAY_WINDOW {
            OpenError::Old
        } else {
            OpenError::Replayed
        }
    }
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
