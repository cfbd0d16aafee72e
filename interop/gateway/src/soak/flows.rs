//! Flows of MACsec frames in which every byte is determined by the flow and the frame's number.
//!
//! ```text
//! addresses | [VLAN tag] | 0x88E5 | SecTAG with SCI | flow (1) | number (8) | filler and ICV
//! ```
//!
//! The filler is derived from a secret seed, the flow and the number. A frame that was altered
//! anywhere differs from the one that was sent, and nobody without the seed can make a valid frame.

use crate::frames::ETHERTYPE;

/// Number of LANs, each with a host and a gateway.
pub const SITES: usize = 3;
/// The largest number of flows.
pub const MOST_FLOWS: u8 = 240;
/// Bytes of addresses, EtherType and SecTAG with SCI.
const HEADER: usize = 12 + 16;
const TAG: usize = 4;
const ICV: usize = 16;
/// Bytes of the flow and the number.
const MARK: usize = 9;
/// Payloads shorter than this, in bytes, have their length in SL (IEEE 802.1AE-2018, 9.7).
const SHORT: usize = 48;
const SHORTEST: usize = HEADER + MARK + ICV;
/// Bytes of the longest frame: with a VLAN tag, a full frame of a LAN with an MTU of 1500 bytes.
const LONGEST: usize = 1514;
/// TCI with the bits SC, E and C set; association number 0.
const TCI: u8 = 0x2c;

/// Every ordered pair of sites. Each pair is next to its reverse.
const PAIRS: [(usize, usize); 6] = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)];

/// The sites at which frames of a flow must arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This site, for one of its stations.
    Site(usize),
    /// Every other site.
    Everyone,
}

/// Frames of one station to another station, or to a group.
#[derive(Clone, Debug)]
pub struct Flow {
    number: u8,
    /// The site of the sender.
    pub from: usize,
    /// The sites of the receivers.
    pub to: Target,
    destination: [u8; 6],
    source: [u8; 6],
    vlan: Option<u16>,
}

impl Flow {
    /// `count` flows. Three of every four go to single stations, for every ordered pair of sites
    /// in turn, and one goes to a group, from every site in turn. Some have a VLAN tag in clear.
    pub fn all(count: u8) -> Vec<Self> {
        (0..count).map(Self::new).collect()
    }

    fn new(number: u8) -> Self {
        let place = usize::from(number);
        let vlan = (number % 5 == 4).then_some(0x2000 | 7);
        if number % 4 == 3 {
            let from = place / 4 % SITES;
            let source = [0x02, 0x4d, 0x53, from as u8, 0xff, number];
            let destination =
                if number % 8 == 3 { [0xff; 6] } else { [0x03, 0x4d, 0x53, 0, 0xff, number] };
            return Self { number, from, to: Target::Everyone, destination, source, vlan };
        }
        let alone = place - place / 4;
        let ((from, to), lane) = (PAIRS[alone % PAIRS.len()], (alone / PAIRS.len()) as u8);
        let station = |at: usize, towards: usize| [0x02, 0x4d, 0x53, at as u8, towards as u8, lane];
        let (source, destination) = (station(from, to), station(to, from));
        // Both directions have the same tag, or neither gateway would learn where the other's
        // station is.
        let vlan = (lane % 3 == 2).then_some(0x2000 | 7);
        Self { number, from, to: Target::Site(to), destination, source, vlan }
    }

    /// Whether frames of the flow must arrive at `site`.
    pub fn reaches(&self, site: usize) -> bool {
        match self.to {
            Target::Site(to) => site == to,
            Target::Everyone => site != self.from,
        }
    }

    /// Number of sites at which each frame must arrive.
    pub fn copies(&self) -> usize {
        (0..SITES).filter(|site| self.reaches(*site)).count()
    }

    /// Whether a failure of the gateway at `site` affects frames that must arrive at `at`.
    pub fn touches(&self, site: usize, at: usize) -> bool {
        site == self.from || site == at
    }

    /// Makes the frame with this number, from 1 on. The packet number is the same.
    pub fn make(&self, seed: u64, number: u64, frame: &mut Vec<u8>) {
        let mut filler = Filler::new(seed, self.number, number);
        let room = LONGEST - TAG - SHORTEST;
        // Half of the frames are short, as on a LAN of controllers; the others have every length.
        let draw = filler.next() as usize;
        let extra = if draw & 1 == 0 { (draw >> 1) % 120 } else { (draw >> 1) % (room + 1) };
        frame.clear();
        frame.extend(self.destination);
        frame.extend(self.source);
        if let Some(tag) = self.vlan {
            frame.extend(0x8100_u16.to_be_bytes());
            frame.extend(tag.to_be_bytes());
        }
        let payload = MARK + extra;
        frame.extend(ETHERTYPE.to_be_bytes());
        frame.extend([TCI, if payload < SHORT { payload as u8 } else { 0 }]);
        frame.extend((number as u32).to_be_bytes());
        frame.extend(self.source);
        frame.extend([0, 1, self.number]);
        frame.extend(number.to_be_bytes());
        let rest = extra + ICV;
        for _ in 0..rest / 8 {
            frame.extend(filler.next().to_le_bytes());
        }
        frame.extend(&filler.next().to_le_bytes()[..rest % 8]);
    }
}

/// The flow and the number that a frame carries; `None` for any other frame.
fn claimed(frame: &[u8]) -> Option<(u8, u64)> {
    let at = match frame.get(12..14)? {
        [0x88, 0xe5] => HEADER,
        [0x81, 0x00] => HEADER + TAG,
        _ => return None,
    };
    let mark = frame.get(at..at + MARK)?;
    Some((mark[0], u64::from_be_bytes(mark[1..].try_into().ok()?)))
}

/// Checks that frames are equal to those that were sent.
#[derive(Debug)]
pub struct Checker<'a> {
    flows: &'a [Flow],
    seed: u64,
    made: Vec<u8>,
}

impl<'a> Checker<'a> {
    /// A checker for frames of these flows, made with this seed.
    pub fn new(flows: &'a [Flow], seed: u64) -> Self {
        Self { flows, seed, made: Vec::new() }
    }

    /// The flow and the number of a frame, if the frame equals the one that was sent under them to
    /// the last byte.
    pub fn check(&mut self, frame: &[u8]) -> Option<(usize, u64)> {
        let (flow, number) = claimed(frame)?;
        let flow = usize::from(flow);
        self.flows.get(flow)?.make(self.seed, number, &mut self.made);
        (self.made == frame).then_some((flow, number))
    }
}

/// Sebastiano Vigna's SplitMix64. It is fast, and a gateway cannot predict it without the seed.
struct Filler(u64);

impl Filler {
    fn new(seed: u64, flow: u8, number: u64) -> Self {
        let mut mixed = Self(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(mixed.next() ^ u64::from(flow) << 56)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// The set of a flow's frames that have arrived, one bit for each number.
#[derive(Clone, Debug, Default)]
pub struct Seen(Vec<u64>);

impl Seen {
    /// Adds a number. Returns `false` if it was in the set already.
    pub fn note(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1_u64 << (number % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// How many of the numbers from `after + 1` to `last` are not in the set.
    pub fn missing(&self, after: u64, last: u64) -> u64 {
        let word = |number: u64| self.0.get((number / 64) as usize).copied().unwrap_or(0);
        (after + 1..=last).filter(|number| word(*number) >> (number % 64) & 1 == 0).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn twenty_four_flows_join_every_pair_both_ways_and_groups() {
        let flows = Flow::all(24);
        for (from, to) in PAIRS {
            let is = |flow: &&Flow| (flow.from, flow.to) == (from, Target::Site(to));
            assert_eq!(flows.iter().filter(is).count(), 3);
        }
        for site in 0..SITES {
            let is = |flow: &&Flow| flow.from == site && flow.to == Target::Everyone;
            assert_eq!(flows.iter().filter(is).count(), 2);
        }
        let ends: BTreeSet<_> = flows.iter().map(|f| (f.source, f.destination)).collect();
        assert_eq!(ends.len(), 24);
        for flow in flows.iter().filter(|flow| flow.to != Target::Everyone) {
            let back = |other: &&Flow| other.source == flow.destination && other.vlan == flow.vlan;
            assert_eq!(flows.iter().filter(back).count(), 1, "each is answered");
        }
    }

    #[test]
    fn a_frame_is_itself_and_no_other() {
        let flows = Flow::all(24);
        let mut checker = Checker::new(&flows, 5);
        let mut frame = Vec::new();
        for (at, flow) in flows.iter().enumerate() {
            for number in 1..40 {
                flow.make(5, number, &mut frame);
                assert!((SHORTEST..=LONGEST).contains(&frame.len()));
                assert_eq!(checker.check(&frame), Some((at, number)));
                let place = number as usize * 7 % frame.len();
                frame[place] ^= 4;
                assert_eq!(checker.check(&frame), None, "byte {place}");
                frame[place] ^= 4;
                assert_eq!(checker.check(&frame[..frame.len() - 1]), None);
                assert_eq!(Checker::new(&flows, 6).check(&frame), None, "another seed");
            }
        }
        assert_eq!(checker.check(&[]), None);
    }

    #[test]
    fn what_was_seen_is_told_from_what_was_not() {
        let mut seen = Seen::default();
        assert!(seen.note(1) && seen.note(64) && seen.note(200));
        assert!(!seen.note(64));
        assert_eq!((seen.missing(0, 200), seen.missing(0, 1), seen.missing(1, 2)), (197, 0, 1));
        assert_eq!(seen.missing(63, 64), 0);
    }
}
