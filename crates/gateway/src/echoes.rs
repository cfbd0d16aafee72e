//! Frames that came from peers a moment ago, so that they are known again where a loop brings
//! them back: another gateway on the same LAN, a cable between two LANs.
//!
//! A MACsec frame is told by its addresses and its ICV, which nobody foresees: a device elsewhere
//! cannot have a station's next frame taken for an echo.

use core::sync::atomic::{AtomicU64, Ordering};
use macsec::Frame;

/// A frame is remembered until another one falls into its place: at a million a second some
/// sixteen milliseconds, where an echo takes less than one. 128 KiB.
const PLACES: usize = 1 << 14;

/// What tells the frames that came from peers.
pub(crate) struct Echoes(Box<[AtomicU64]>);

impl Default for Echoes {
    fn default() -> Self {
        Self(core::iter::repeat_with(AtomicU64::default).take(PLACES).collect())
    }
}

impl Echoes {
    /// Notes a frame that goes to the LAN.
    pub(crate) fn note(&self, frame: &Frame<'_>) {
        let (place, mark) = self.place(frame);
        place.store(mark, Ordering::Relaxed);
    }

    /// Whether a frame of the LAN came from a peer before.
    pub(crate) fn has(&self, frame: &Frame<'_>) -> bool {
        let (place, mark) = self.place(frame);
        place.load(Ordering::Relaxed) == mark
    }

    fn place(&self, frame: &Frame<'_>) -> (&AtomicU64, u64) {
        let icv = u128::from_le_bytes(*frame.icv());
        let word = |[a, b, c, d, e, f]: [u8; 6]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let addresses = word(frame.header.source).rotate_left(16) ^ word(frame.header.destination);
        (&self.0[icv as usize % PLACES], (icv >> 64) as u64 ^ addresses)
    }
}

impl core::fmt::Debug for Echoes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Echoes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_known_again_whatever_its_tags_and_no_other_is() {
        let frame = |destination: u8, tags: &[u8], icv: u8| {
            let addresses = [2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, 3];
            let tag = [0x88, 0xe5, 0x0c, 0, 0, 0, 0, 1];
            [&addresses[..], tags, &tag, &[5; 48], &[icv; 16]].concat()
        };
        let echoes = Echoes::default();
        let vlan = &[0x81, 0, 0, 7];
        let (sent, tagged) = (frame(1, &[], 1), frame(1, vlan, 1));
        assert!(!echoes.has(&Frame::parse(&sent).unwrap()));
        echoes.note(&Frame::parse(&sent).unwrap());
        for (again, known) in
            [(&sent, true), (&tagged, true), (&frame(2, &[], 1), false), (&frame(1, &[], 2), false)]
        {
            assert_eq!(echoes.has(&Frame::parse(again).unwrap()), known);
        }
    }
}
