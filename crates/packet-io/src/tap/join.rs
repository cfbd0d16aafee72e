//! Joins consecutive TCP segments into a large one, so that the host processes one packet instead
//! of forty.
//!
//! Segments are joined only if the host could restore them from the joined one, by the rules of
//! Linux's own GRO: same connection, acknowledgment, window, flags and options, next sequence
//! number, and a right checksum.

use super::VnetHeader;
use super::headers::{ACK, PSH, SegmentOffsets, TCP_CHECKSUM, be32, fold, put16};

/// A segment that may be joined with others.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offsets: SegmentOffsets,
    seq: u32,
    len: usize,
    pushes: bool,
}

impl Segment {
    fn read(frame: &[u8]) -> Option<Self> {
        let offsets = SegmentOffsets::find(frame)?;
        let SegmentOffsets { ip, tcp, payload, .. } = offsets;
        let flags = frame[tcp + 13];
        let len = frame.len() - payload;
        let may = ip == 14
            && len > 0
            && offsets.ip_len(frame) == Some(frame.len() - ip)
            && flags & !PSH == ACK
            && offsets.is_right(frame);
        let seq = be32(frame, tcp + 4)?;
        may.then_some(Self { offsets, seq, len, pushes: flags & PSH != 0 })
    }

    /// Whether two frames belong to one connection.
    fn is_of_one(&self, frame: &[u8], other: &[u8]) -> bool {
        let (addresses, tcp) = (self.offsets.addresses(), self.offsets.tcp);
        frame[..14] == other[..14]
            && other.get(addresses.clone()) == Some(&frame[addresses])
            && other.get(tcp..tcp + 4) == Some(&frame[tcp..tcp + 4])
    }

    /// Whether the headers differ only in fields that a joined segment has once or that count up.
    fn has_like_headers(&self, frame: &[u8], other: &[u8]) -> bool {
        let SegmentOffsets { is_ipv6, ip, tcp, payload } = self.offsets;
        let same = |range: std::ops::Range<usize>| frame[range.clone()] == other[range];
        let ip_same = if is_ipv6 {
            same(ip..ip + 4) && same(ip + 6..ip + 8)
        } else {
            same(ip..ip + 2) && same(ip + 6..ip + 10)
        };
        // The fields compared are acknowledgment, data offset, window, urgent pointer and options.
        ip_same && same(tcp + 8..tcp + 13) && same(tcp + 14..tcp + 16) && same(tcp + 18..payload)
    }
}

/// Frames that are written as one large segment.
#[derive(Clone, Copy, Debug)]
struct Group {
    lead: usize,
    first: Segment,
    /// Length in bytes of the payload of all frames.
    payload: usize,
    is_closed: bool,
    pushes: bool,
}

/// Decides which frames of a batch are written as one.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    groups: Vec<Option<Group>>,
    /// The indices of a group and of a frame in it, for each frame. Frames are written in this
    /// order.
    order: Vec<(usize, usize)>,
}

impl Joiner {
    /// Begins a batch.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
        self.order.clear();
    }

    /// Adds the frame with index `number`. `bytes` returns the bytes of this frame and of earlier
    /// ones.
    pub(super) fn add<'a>(&mut self, number: usize, bytes: impl Fn(usize) -> &'a [u8]) {
        let frame = bytes(number);
        let Some(segment) = Segment::read(frame) else {
            self.start(number, None);
            return;
        };
        // A frame that cannot be joined must not be overtaken, so only groups after the last such
        // frame are considered.
        let open = self
            .groups
            .iter_mut()
            .enumerate()
            .rev()
            .map_while(|(i, group)| group.as_mut().map(|group| (i, group)));
        for (i, group) in open {
            let lead = bytes(group.lead);
            if !segment.is_of_one(frame, lead)
                || segment.offsets.is_ipv6 != group.first.offsets.is_ipv6
            {
                continue;
            }
            let next = group.first.seq.wrapping_add(group.payload as u32);
            let headers = group.first.offsets.payload;
            let joins = !group.is_closed
                && segment.offsets == group.first.offsets
                && segment.seq == next
                && segment.len <= group.first.len
                && headers - 14 + group.payload + segment.len <= 65_535
                && segment.has_like_headers(frame, lead);
            if joins {
                group.payload += segment.len;
                group.pushes |= segment.pushes;
                group.is_closed = segment.pushes || segment.len < group.first.len;
                self.order.push((i, number));
                return;
            }
            break;
        }
        let group = Group {
            lead: number,
            first: segment,
            payload: segment.len,
            is_closed: segment.pushes,
            pushes: segment.pushes,
        };
        self.start(number, Some(group));
    }

    fn start(&mut self, number: usize, group: Option<Group>) {
        self.order.push((self.groups.len(), number));
        self.groups.push(group);
    }

    /// Ends a batch: no further frame is added before [`clear`](Self::clear).
    pub(super) fn finish(&mut self) {
        self.order.sort_unstable();
    }

    /// The runs of frames that are written as one, in the order of writing.
    pub(super) fn runs(&self) -> impl Iterator<Item = &[(usize, usize)]> {
        self.order.chunk_by(|one, other| one.0 == other.0)
    }

    /// The offset in bytes of the payload in each frame of a group. Their headers have the same
    /// length.
    pub(super) fn payload_at(&self, group: usize) -> usize {
        self.groups[group].map_or(0, |group| group.first.offsets.payload)
    }

    /// Changes the first frame's headers to those of the whole group. Returns the header that
    /// describes it to the kernel.
    pub(super) fn lead(&self, group: usize, frame: &mut [u8]) -> VnetHeader {
        let Some(group) = self.groups[group].filter(|group| group.payload > group.first.len) else {
            return VnetHeader::default();
        };
        let offsets = group.first.offsets;
        let len = offsets.payload + group.payload;
        offsets.set_len(frame, len);
        if group.pushes {
            frame[offsets.tcp + 13] |= PSH;
        }
        let pseudo = fold(offsets.pseudo_sum(frame, len));
        put16(frame, offsets.tcp + TCP_CHECKSUM, pseudo);
        VnetHeader {
            flags: VnetHeader::NEEDS_CHECKSUM,
            kind: if offsets.is_ipv6 { VnetHeader::TCP6 } else { VnetHeader::TCP4 },
            headers: offsets.payload as u16,
            size: group.first.len as u16,
            checksum_start: offsets.tcp as u16,
            checksum_offset: TCP_CHECKSUM as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::headers::FIN;
    use super::super::headers::tests::segment;
    use super::super::split::{Split, finish_checksum};
    use super::*;

    fn join(frames: &[Vec<u8>]) -> (Joiner, Vec<Vec<usize>>) {
        let mut joiner = Joiner::default();
        for number in 0..frames.len() {
            joiner.add(number, |number| &frames[number]);
        }
        joiner.finish();
        let runs = joiner.runs().map(|run| run.iter().map(|(_, frame)| *frame).collect());
        let runs = runs.collect();
        (joiner, runs)
    }

    fn runs(frames: &[Vec<u8>]) -> Vec<Vec<usize>> {
        join(frames).1
    }

    #[test]
    fn what_was_split_is_joined_again() {
        let payload: Vec<u8> = (0..3500_u32).map(|i| (i / 7) as u8).collect();
        for is_ipv6 in [false, true] {
            let large = segment(is_ipv6, 77, ACK | PSH, &payload);
            let tcp = SegmentOffsets::find(&large).unwrap().tcp as u16;
            let header = VnetHeader { size: 1000, checksum_start: tcp, ..VnetHeader::default() };
            let mut split = Split::new(&large, &header, 2000).unwrap();
            let mut frames = Vec::new();
            while !split.is_done() {
                let mut room = vec![0; 2000];
                let len = split.next(&large, &mut room);
                frames.push(room[..len].to_vec());
            }
            let (joiner, runs) = join(&frames);
            assert_eq!(runs, [[0, 1, 2, 3]]);
            let mut joined = frames[0].clone();
            let header = joiner.lead(0, &mut joined);
            for frame in &frames[1..] {
                joined.extend(&frame[joiner.payload_at(0)..]);
            }
            assert_eq!((header.size, header.checksum_start), (1000, tcp));
            finish_checksum(&mut joined, tcp.into(), header.checksum_offset.into());
            assert_eq!(joined, large);
        }
    }

    #[test]
    fn only_neighbours_of_a_connection_are_joined() {
        let next = |seq| segment(false, seq, ACK, &[1; 100]);
        assert_eq!(runs(&[next(0), next(100), next(200)]), [vec![0, 1, 2]]);
        assert_eq!(runs(&[next(0), next(101)]), [[0], [1]], "a gap");
        assert_eq!(runs(&[next(100), next(0)]), [[0], [1]], "out of order");
        assert_eq!(runs(&[next(0), next(0)]), [[0], [1]], "twice");
        let longer = segment(false, 100, ACK, &[1; 101]);
        assert_eq!(runs(&[next(0), longer]), [[0], [1]]);
        let shorter = segment(false, 100, ACK, &[1; 99]);
        assert_eq!(runs(&[next(0), shorter, next(199)]), [vec![0, 1], vec![2]]);
        let pushed = segment(false, 100, ACK | PSH, &[1; 100]);
        assert_eq!(runs(&[next(0), pushed, next(200)]), [vec![0, 1], vec![2]]);
        let last = segment(false, 100, ACK | FIN, &[1; 100]);
        assert_eq!(runs(&[next(0), last, next(200)]), [[0], [1], [2]]);
        let empty = segment(false, 100, ACK, &[]);
        assert_eq!(runs(&[next(0), empty, next(100)]), [[0], [1], [2]]);
        let six = segment(true, 100, ACK, &[1; 100]);
        assert_eq!(runs(&[next(0), six, next(100)]), [vec![0, 2], vec![1]]);
        assert_eq!(runs(&[next(0), vec![], vec![0; 14], next(100)]), [[0], [1], [2], [3]]);
    }

    #[test]
    fn each_header_that_differs_keeps_segments_apart() {
        let first = segment(false, 0, ACK, &[1; 100]);
        let second = segment(false, 100, ACK, &[1; 100]);
        let offsets = SegmentOffsets::find(&second).unwrap();
        let mut apart = 0;
        for at in 0..second.len() {
            let mut changed = second.clone();
            changed[at] ^= 0x20;
            // The checksums are made right, as if the segment had been sent like this.
            if let Some(found) = SegmentOffsets::find(&changed) {
                let len = changed.len();
                found.set_len(&mut changed, len);
                put16(&mut changed, found.tcp + TCP_CHECKSUM, 0);
                let sum = super::super::headers::sum(&changed[found.tcp..]);
                let checksum = !fold(found.pseudo_sum(&changed, len) + sum);
                put16(&mut changed, found.tcp + TCP_CHECKSUM, checksum);
            }
            let is_apart = runs(&[first.clone(), changed]).len() == 2;
            apart += usize::from(is_apart);
            let is_rewritten = [16, 17, 24, 25].contains(&at)
                || (offsets.tcp + TCP_CHECKSUM..offsets.tcp + TCP_CHECKSUM + 2).contains(&at);
            let may_differ = is_rewritten || [18, 19].contains(&at) || at >= offsets.payload;
            assert_eq!(is_apart, !may_differ, "byte {at}");
        }
        assert!(apart > 40);
    }

    #[test]
    fn a_wrong_checksum_is_left_for_the_host_to_see() {
        let mut wrong = segment(false, 100, ACK, &[1; 100]);
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(runs(&[segment(false, 0, ACK, &[1; 100]), wrong]), [[0], [1]]);
    }

    #[test]
    fn a_joined_segment_is_no_longer_than_ip_allows() {
        let frames: Vec<_> = (0..64).map(|i| segment(false, i * 1416, ACK, &[1; 1416])).collect();
        let runs = runs(&frames);
        assert_eq!(runs.len(), 2);
        assert!(52 + runs[0].len() * 1416 <= 65_535 && 52 + (runs[0].len() + 1) * 1416 > 65_535);
    }
}
