//! Events that the data path reports to the control path.

use crate::keys::GatewayId;
use crate::peer_set::{PeerIndex, PeerSet};
use crate::stations::Station;
use std::collections::VecDeque;

/// An event that the data path reports to the control path.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// An MKA frame that is to be sent over the management channels of these peers.
    Mka(PeerSet, Vec<u8>),
    /// The peer probes the path: a probe of this many bytes of UDP payload arrived here and needs
    /// an answer.
    Probe(PeerIndex, usize),
    /// The peer answered a probe: a datagram of this many bytes of UDP payload arrived there.
    Probed(PeerIndex, usize),
    /// Another gateway announced itself on this LAN; reported at most once in ten seconds.
    SecondGateway(GatewayId),
    /// A station that was behind this peer was claimed elsewhere: a frame with its address came
    /// from another place.
    Claimed(Station, PeerIndex),
    /// A station was heard on this LAN, and these peers have asked about it.
    Heard(Station, PeerSet),
}

/// Classes of notices, each with its own limit: a device of the LAN or a peer that causes too many
/// notices of one class takes no room from the other classes.
#[derive(Clone, Copy)]
enum NoticeClass {
    Mka,
    Stations,
    Paths,
}

/// Most notices that wait in each class; further ones are dropped.
const MAX_NOTICES: [usize; 3] = [128, 128, 128];

impl Notice {
    const fn class(&self) -> NoticeClass {
        match self {
            Self::Mka(..) => NoticeClass::Mka,
            Self::Claimed(..) | Self::Heard(..) => NoticeClass::Stations,
            Self::Probe(..) | Self::Probed(..) | Self::SecondGateway(_) => NoticeClass::Paths,
        }
    }
}

/// Notices that wait, in the order in which they arrived.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiting: VecDeque<Notice>,
    /// How many notices of each class wait.
    counts: [usize; 3],
}

impl Notices {
    /// Appends a notice, or drops it if its class is full.
    pub(crate) fn push(&mut self, notice: Notice) {
        let share = notice.class() as usize;
        if self.counts[share] < MAX_NOTICES[share] {
            self.counts[share] += 1;
            self.waiting.push_back(notice);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Notice> {
        let notice = self.waiting.pop_front()?;
        self.counts[notice.class() as usize] -= 1;
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerIndex = PeerIndex(0);

    #[test]
    fn no_kind_of_notice_takes_the_room_of_another() {
        let station = Station::new(None, [2; 6]);
        let mka = || Notice::Mka(PeerSet::of(PEER), vec![0; 60]);
        let heard = || Notice::Heard(station, PeerSet::of(PEER));
        let floods: [fn(usize) -> Notice; 3] = [
            |_| Notice::Mka(PeerSet::of(PEER), vec![0; 60]),
            |at| Notice::Claimed(Station::new(None, [2, 0, 0, 0, (at >> 8) as u8, at as u8]), PEER),
            |size| Notice::Probe(PEER, size),
        ];
        for flood in floods {
            let mut notices = Notices::default();
            (0..1000).for_each(|at| notices.push(flood(at)));
            let before = notices.waiting.len();
            assert_eq!(before, 128);
            for notice in [mka(), heard(), Notice::Probed(PEER, 1500)] {
                notices.push(notice);
            }
            assert_eq!(
                notices.waiting.len(),
                before + 2,
                "a notice of the flooded class is dropped"
            );
            while notices.pop().is_some() {}
            assert_eq!(notices.counts, [0; 3]);
            notices.push(flood(0));
            assert!(notices.pop().is_some(), "the class has room again");
        }
    }
}
