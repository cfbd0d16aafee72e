//! A cipher that a scheme has of its own.

use crate::counters::Reason;
use lightseal_core::PacketBuf;

/// A scheme's own cipher in one direction and one epoch, under keys from a
/// [`DirectionSecret`](crate::keys::DirectionSecret).
pub trait FrameCipher: Send + Sync {
    /// Encrypts a frame in place.
    ///
    /// # Errors
    /// If the frame is too short.
    fn encrypt(&self, packet: &mut PacketBuf<'_>) -> Result<(), Reason>;

    /// Decrypts a frame in place.
    ///
    /// # Errors
    /// If the datagram is too short.
    fn decrypt(&self, packet: &mut PacketBuf<'_>) -> Result<(), Reason>;
}
