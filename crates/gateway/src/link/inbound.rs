//! What a gateway opens of one peer in one epoch.

use super::outbound::{SEALING, TAG_LEN};
use super::prefix::{PREFIX_LEN, Prefix};
use crate::keys::{EpochSecret, GatewayId};
use crate::lock;
use crate::pcbc::Pcbc;
use crate::tuning::{FAILURES, LANES};
use crate::window::Window;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use macsec::crypto::{Gcm, GcmProvider};
use std::sync::{Mutex, OnceLock};
use vocabulary::PacketBuf;
use zeroize::Zeroizing;

/// Why a sealed datagram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Too short, or its lane or epoch cannot be.
    Malformed,
    /// Its counter was accepted before.
    Replayed,
    /// Its counter is older than the window.
    Old,
    /// Its tag is wrong.
    Forged,
    /// So many were forged under this key that nothing is opened with it any more.
    Exhausted,
}

/// The keys of one epoch from one peer.
pub struct Inbound {
    secret: EpochSecret,
    sender: GatewayId,
    receiver: GatewayId,
    epoch: u32,
    provider: &'static GcmProvider,
    lanes: [OnceLock<Mutex<Lane>>; LANES],
    /// Whether anything was opened.
    used: AtomicBool,
    pcbc: OnceLock<Pcbc>,
}

struct Lane {
    cipher: Box<dyn Gcm>,
    iv: Zeroizing<[u8; 12]>,
    window: Window,
    failures: u64,
}

impl Inbound {
    /// Keys for what `receiver` opens of what `sender` seals in `epoch`.
    pub fn new(
        secret: EpochSecret,
        (sender, receiver): (GatewayId, GatewayId),
        epoch: u32,
        provider: &'static GcmProvider,
    ) -> Self {
        let lanes = [const { OnceLock::new() }; LANES];
        let (used, pcbc) = (AtomicBool::new(false), OnceLock::new());
        Self { secret, sender, receiver, epoch, provider, lanes, used, pcbc }
    }

    /// The epoch.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Opens `packet` in place: prefix and tag are taken off and what was encrypted is plain.
    /// Says whether its counter is the highest of its lane.
    ///
    /// # Errors
    /// Where anything is not as the peer sealed it, or was accepted before. What was encrypted
    /// may be garbled then.
    pub fn open(&self, prefix: &Prefix, packet: &mut PacketBuf<'_>) -> Result<bool, OpenError> {
        let content = packet.len().checked_sub(SEALING).ok_or(OpenError::Malformed)?;
        let encrypted = if prefix.sealed == 0 { content } else { usize::from(prefix.sealed) };
        if prefix.epoch != self.epoch as u8 || encrypted > content {
            return Err(OpenError::Malformed);
        }
        let slot = self.lanes.get(usize::from(prefix.lane)).ok_or(OpenError::Malformed)?;
        let mut lane = lock(slot.get_or_init(|| Mutex::new(self.lane(prefix.lane))));
        if !lane.window.check(prefix.counter) {
            return Err(lane.refusal(prefix.counter));
        }
        if lane.failures >= FAILURES {
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

    /// Whether anything was opened.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// The cipher of the scheme `encryption-paper`.
    pub fn pcbc(&self) -> &Pcbc {
        self.pcbc.get_or_init(|| {
            Pcbc::new(&self.secret.block_key(&self.sender, &self.receiver, self.epoch))
        })
    }

    fn lane(&self, lane: u8) -> Lane {
        let key = self.secret.lane_key(&self.sender, &self.receiver, self.epoch, lane);
        let (cipher, iv) = key.cipher(self.provider);
        Lane { cipher, iv: Zeroizing::new(iv), window: Window::default(), failures: 0 }
    }
}

impl Lane {
    fn refusal(&self, counter: u64) -> OpenError {
        if self.window.next().saturating_sub(counter) > crate::tuning::WINDOW {
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
