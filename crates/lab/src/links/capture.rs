//! The frames that were on the air.

use lightseal_core::Instant;

/// A frame on the air, with its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When the first byte after the PHY header was sent.
    pub at: Instant,
    /// The bytes from the MAC header to the checksum.
    pub bytes: Vec<u8>,
}

/// Frames in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frames(Vec<Frame>);

impl Frames {
    pub(super) fn add(&mut self, at: u64, bytes: &[u8]) {
        self.0.push(Frame { at: Instant::from_micros(at), bytes: bytes.to_vec() });
    }

    /// Takes the frames, sorted by time.
    pub(crate) fn take(mut self) -> Vec<Frame> {
        self.0.sort_by_key(|frame| frame.at);
        self.0
    }
}
