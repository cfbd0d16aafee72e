//! What the data path leaves to the control path.

use crate::bridge::{PeerIndex, Station};
use crate::keys::GatewayId;
use crate::set::PeerSet;
use std::collections::VecDeque;

/// Something that the data path leaves to the control path.
#[derive(Debug, PartialEq, Eq)]
pub enum Notice {
    /// An MKA frame for the management channels of these peers.
    Mka(PeerSet, Vec<u8>),
    /// A peer asks whether datagrams of this size arrive.
    Probe(PeerIndex, usize),
    /// A datagram of this size arrived at the peer.
    Probed(PeerIndex, usize),
    /// Another gateway announced itself on this LAN; at most once in ten seconds.
    SecondGateway(GatewayId),
    /// A station is claimed elsewhere that was behind this peer.
    Claimed(Station, PeerIndex),
    /// A station was heard on this LAN of which these peers have asked.
    Heard(Station, PeerSet),
}

/// Kinds of notices that wait apart: whatever a device of the LAN or a peer sends too much of takes no room from
/// the other kinds.
#[derive(Clone, Copy)]
enum Share {
    Mka,
    Stations,
    Paths,
}

/// Notices that wait at most, of each share; more than that are dropped.
const MOST: [usize; 3] = [128, 128, 128];

impl Notice {
    const fn share(&self) -> Share {
        match self {
            Self::Mka(..) => Share::Mka,
            Self::Claimed(..) | Self::Heard(..) => Share::Stations,
            Self::Probe(..) | Self::Probed(..) | Self::SecondGateway(_) => Share::Paths,
        }
    }
}

/// Notices that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiting: VecDeque<Notice>,
    /// How many of each share wait.
    counts: [usize; 3],
}

impl Notices {
    /// Takes a notice, if its share has room.
    pub(crate) fn push(&mut self, notice: Notice) {
        let share = notice.share() as usize;
        if self.counts[share] < MOST[share] {
            self.counts[share] += 1;
            self.waiting.push_back(notice);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Notice> {
        let notice = self.waiting.pop_front()?;
        self.counts[notice.share() as usize] -= 1;
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
            assert_eq!(notices.waiting.len(), before + 2, "one of the flood's kind has no room");
            while notices.pop().is_some() {}
            assert_eq!(notices.counts, [0; 3]);
            notices.push(flood(0));
            assert!(notices.pop().is_some(), "and room comes back");
        }
    }
}
