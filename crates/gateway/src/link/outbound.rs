//! What a gateway seals for one peer in one epoch.

use super::prefix::{PREFIX_LEN, Prefix};
use crate::codepoints::Type;
use crate::keys::{EpochSecret, GatewayId};
use crate::lock;
use crate::pcbc::Pcbc;
use crate::tuning::{LANES, PACKETS, PACKETS_BEFORE_REKEY};
use core::fmt;
use macsec::crypto::{Gcm, GcmProvider};
use std::sync::{Mutex, OnceLock};
use vocabulary::PacketBuf;
use zeroize::Zeroizing;

/// Bytes of the tag behind everything that is sealed.
pub const TAG_LEN: usize = 16;
/// Bytes that sealing adds to what is sealed.
pub const SEALING: usize = PREFIX_LEN + TAG_LEN;

/// Why something was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The buffer has no room for prefix and tag, or the packet is shorter than its sealed part.
    Room,
    /// The lane does not exist, or its key has sealed all it may.
    Exhausted,
}

/// The keys of one epoch towards one peer.
pub struct Outbound {
    secret: EpochSecret,
    sender: GatewayId,
    receiver: GatewayId,
    epoch: u32,
    index: u32,
    provider: &'static GcmProvider,
    lanes: [OnceLock<Mutex<Lane>>; LANES],
    pcbc: OnceLock<Pcbc>,
}

struct Lane {
    cipher: Box<dyn Gcm>,
    iv: Zeroizing<[u8; 12]>,
    counter: u64,
}

/// What came of sealing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Whether the key nears its end and a new epoch should be asked for.
    pub ages: bool,
}

impl Outbound {
    /// Keys for what `sender` seals in `epoch` for `receiver`, which calls them `index`.
    pub fn new(
        secret: EpochSecret,
        (sender, receiver): (GatewayId, GatewayId),
        epoch: u32,
        index: u32,
        provider: &'static GcmProvider,
    ) -> Self {
        let lanes = [const { OnceLock::new() }; LANES];
        Self { secret, sender, receiver, epoch, index, provider, lanes, pcbc: OnceLock::new() }
    }

    /// The epoch.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Seals `packet` in place. Its first `sealed` bytes are encrypted, or all if `sealed` is 0;
    /// all of it is authenticated, and prefix and tag are put around it.
    ///
    /// # Errors
    /// Where the packet has not [`PREFIX_LEN`] bytes of headroom and [`TAG_LEN`] of tailroom,
    /// or the key is used up. The packet is as it was then.
    pub fn seal(
        &self,
        lane: u8,
        kind: Type,
        sealed: u8,
        packet: &mut PacketBuf<'_>,
    ) -> Result<Used, SealError> {
        let encrypted = if sealed == 0 { packet.len() } else { usize::from(sealed) };
        if packet.headroom() < PREFIX_LEN || packet.tailroom() < TAG_LEN || packet.len() < encrypted
        {
            return Err(SealError::Room);
        }
        let slot = self.lanes.get(usize::from(lane)).ok_or(SealError::Exhausted)?;
        let mut state = lock(slot.get_or_init(|| Mutex::new(self.lane(lane))));
        if state.counter >= PACKETS {
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
        let ages = state.counter >= PACKETS_BEFORE_REKEY;
        drop(state);
        packet.append(&tag).ok_or(SealError::Room)?;
        packet.prepend(&prefix.encode()).ok_or(SealError::Room)?;
        Ok(Used { ages })
    }

    /// What the receiver calls these keys.
    pub const fn index(&self) -> u32 {
        self.index
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
        Lane { cipher, iv: Zeroizing::new(iv), counter: 0 }
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
