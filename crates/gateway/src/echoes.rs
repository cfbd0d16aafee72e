//! Memory of the frames that recently came from peers, to recognise echoes: frames that a loop
//! brings back, such as another gateway on the same LAN, or a cable between two LANs.
//!
//! A MACsec frame is identified by its addresses and its ICV, an MKA frame by all of its bytes,
//! which end in an ICV too. ICVs cannot be predicted, so an attacker elsewhere cannot have the next
//! frame of a station taken for an echo.

use core::hash::Hasher;
use core::sync::atomic::{AtomicU64, Ordering};
use lightseal_macsec::Frame;
use siphasher::sip::SipHasher13;

/// Number of slots, which take 128 KiB. A frame is remembered until another frame replaces it in
/// its slot. At a million frames a second this takes some sixteen milliseconds, while an echo
/// arrives within one millisecond.
const SLOTS: usize = 1 << 14;

/// The marks of frames that came from peers.
pub(crate) struct EchoFilter(Box<[AtomicU64]>);

impl Default for EchoFilter {
    fn default() -> Self {
        Self(core::iter::repeat_with(AtomicU64::default).take(SLOTS).collect())
    }
}

impl EchoFilter {
    /// Marks a frame that is sent to the LAN.
    pub(crate) fn mark(&self, frame: &Frame<'_>) {
        let (place, mark) = self.slot(frame);
        place.store(mark, Ordering::Relaxed);
    }

    /// Whether a frame of the LAN came from a peer before.
    pub(crate) fn is_echo(&self, frame: &Frame<'_>) -> bool {
        let (place, mark) = self.slot(frame);
        place.load(Ordering::Relaxed) == mark
    }

    /// Marks an MKA frame, and says whether it was marked before.
    ///
    /// A station numbers its MKA frames (IEEE 802.1X-2020, clause 9.4.2) and sends none twice.
    /// Therefore MKA frames of the LAN are marked too: each is carried once, in whichever direction
    /// a loop forwards it and whichever copies are lost.
    pub(crate) fn mark_mka(&self, frame: &[u8]) -> bool {
        let (addresses, mut rest) = frame.split_at(frame.len().min(12));
        // A VLAN tag that a bridge added or removed does not make it another frame.
        while let [0x81, 0x00, _, _, behind @ ..] | [0x88, 0xa8, _, _, behind @ ..] = rest {
            rest = behind;
        }
        // The hash needs no secret key: a station that sends two frames with the same mark only
        // loses one of its own.
        let mut hasher = SipHasher13::new();
        hasher.write(addresses);
        hasher.write(rest);
        let mark = hasher.finish();
        self.0[mark as usize % SLOTS].swap(mark, Ordering::Relaxed) == mark
    }

    fn slot(&self, frame: &Frame<'_>) -> (&AtomicU64, u64) {
        let icv = u128::from_le_bytes(*frame.icv());
        let word = |[a, b, c, d, e, f]: [u8; 6]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let addresses = word(frame.header.source).rotate_left(16) ^ word(frame.header.destination);
        (&self.0[icv as usize % SLOTS], (icv >> 64) as u64 ^ addresses)
    }
}

impl core::fmt::Debug for EchoFilter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("EchoFilter")
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
        let echoes = EchoFilter::default();
        let vlan = &[0x81, 0, 0, 7];
        let (sent, tagged) = (frame(1, &[], 1), frame(1, vlan, 1));
        assert!(!echoes.is_echo(&Frame::parse(&sent).unwrap()));
        echoes.mark(&Frame::parse(&sent).unwrap());
        for (again, known) in
            [(&sent, true), (&tagged, true), (&frame(2, &[], 1), false), (&frame(1, &[], 2), false)]
        {
            assert_eq!(echoes.is_echo(&Frame::parse(again).unwrap()), known);
        }
    }

    #[test]
    fn an_mka_frame_is_known_again_whatever_its_tags_and_no_other_is() {
        let frame = |source: u8, tags: &[u8], number: u8| {
            let addresses = [1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, source];
            [&addresses[..], tags, &[0x88, 0x8e, 3, 5, 0, 60], &[7; 43], &[number], &[9; 16]]
                .concat()
        };
        let echoes = EchoFilter::default();
        let (vlan, service) = (&[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7]);
        for (frame, known) in [
            (frame(1, &[], 1), false),
            (frame(1, &[], 1), true),
            (frame(1, vlan, 1), true),
            (frame(1, &[&service[..], vlan].concat(), 1), true),
            (frame(2, &[], 1), false),
            (frame(1, &[], 2), false),
        ] {
            assert_eq!(echoes.mark_mka(&frame), known);
        }
        let [_short, again] = [(); 2].map(|()| echoes.mark_mka(&[0x81]));
        assert!(again);
    }
}
