//! Splits a TCP segment that is larger than any frame, as the host leaves it to hardware, into
//! frames.

use super::VnetHeader;
use super::headers::{CWR, FIN, PSH, SegmentOffsets, TCP_CHECKSUM, be16, be32, fold, put16, sum};

/// Length in bytes of the longest segment: Ethernet, two VLAN tags, 65 535 bytes of IP.
pub(super) const MAX_LEN: usize = 14 + 8 + 65_535;

/// The state of splitting a large segment.
#[derive(Debug)]
pub(super) struct Split {
    offsets: SegmentOffsets,
    /// Payload in bytes of each frame but the last.
    size: usize,
    /// The offset at which the next frame's payload begins.
    at: usize,
    /// The length of the large segment.
    end: usize,
    /// Number of frames split off so far.
    count: u32,
}

impl Split {
    /// Begins to split a large segment; `None` if it is no valid one, or if its frames are longer
    /// than `max_packet` bytes.
    pub(super) fn new(large: &[u8], header: &VnetHeader, max_packet: usize) -> Option<Self> {
        let offsets = SegmentOffsets::find(large)?;
        let size = usize::from(header.size);
        let is_sound = size > 0
            && usize::from(header.checksum_start) == offsets.tcp
            && offsets.payload < large.len()
            && offsets.payload + size <= max_packet;
        let (at, end) = (offsets.payload, large.len());
        is_sound.then_some(Self { offsets, size, at, end, count: 0 })
    }

    /// Whether all of the segment was split off.
    pub(super) const fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// Writes the next frame and returns its length in bytes.
    pub(super) fn next(&mut self, large: &[u8], into: &mut [u8]) -> usize {
        let SegmentOffsets { is_ipv6, ip, tcp, payload } = self.offsets;
        let some = self.size.min(self.end - self.at);
        let len = payload + some;
        let frame = &mut into[..len];
        frame[..payload].copy_from_slice(&large[..payload]);
        frame[payload..].copy_from_slice(&large[self.at..self.at + some]);
        if !is_ipv6 {
            let identification = be16(large, ip + 4).unwrap_or(0).wrapping_add(self.count as u16);
            put16(frame, ip + 4, identification);
        }
        self.offsets.set_len(frame, len);
        let before = (self.at - payload) as u32;
        let seq = be32(large, tcp + 4).unwrap_or(0).wrapping_add(before);
        frame[tcp + 4..tcp + 8].copy_from_slice(&seq.to_be_bytes());
        self.at += some;
        // FIN and PSH belong to the last frame, CWR to the first one (as RFC 3168 requires).
        if !self.is_done() {
            frame[tcp + 13] &= !(FIN | PSH);
        }
        if self.count > 0 {
            frame[tcp + 13] &= !CWR;
        }
        self.count += 1;
        put16(frame, tcp + TCP_CHECKSUM, 0);
        let checksum = !fold(self.offsets.pseudo_sum(frame, len) + sum(&frame[tcp..]));
        put16(frame, tcp + TCP_CHECKSUM, checksum);
        len
    }
}

/// Completes the checksum that the host left to hardware. It covers all bytes from `start` on and
/// is `offset` bytes after `start`, where the sum of the pseudo-header is. Offsets outside of the
/// frame are ignored.
pub(super) fn finish_checksum(frame: &mut [u8], start: usize, offset: usize) {
    let Some(part) = frame.get_mut(start..).filter(|part| offset + 2 <= part.len()) else { return };
    // In UDP, 0 would mean that there is no checksum (RFC 768).
    let checksum = match !fold(sum(part)) {
        0 => 0xFFFF,
        checksum => checksum,
    };
    put16(part, offset, checksum);
}

#[cfg(test)]
mod tests {
    use super::super::headers::ACK;
    use super::super::headers::tests::segment;
    use super::*;

    fn cut(large: &[u8], size: u16, max_packet: usize) -> Option<Vec<Vec<u8>>> {
        let checksum_start = SegmentOffsets::find(large)?.tcp as u16;
        let header = VnetHeader { size, checksum_start, ..VnetHeader::default() };
        let mut split = Split::new(large, &header, max_packet)?;
        let mut frames = Vec::new();
        while !split.is_done() {
            let mut room = vec![0; max_packet];
            let len = split.next(large, &mut room);
            frames.push(room[..len].to_vec());
        }
        Some(frames)
    }

    #[test]
    fn a_large_segment_becomes_frames_as_tcp_would_have_sent_them() {
        let payload: Vec<u8> = (0..2500_u32).map(|i| i as u8).collect();
        for is_ipv6 in [false, true] {
            let large = segment(is_ipv6, u32::MAX - 999, ACK | PSH | CWR | FIN, &payload);
            let frames = cut(&large, 1000, 1600).unwrap();
            let flags = [ACK | CWR, ACK, ACK | PSH | FIN];
            assert_eq!(frames.len(), 3);
            for (i, frame) in frames.iter().enumerate() {
                let part = &payload[i * 1000..payload.len().min(i * 1000 + 1000)];
                let seq = (u32::MAX - 999).wrapping_add(i as u32 * 1000);
                let mut expected = segment(is_ipv6, seq, flags[i], part);
                if !is_ipv6 {
                    put16(&mut expected, 18, 7 + i as u16);
                    let len = expected.len();
                    SegmentOffsets::find(&expected).unwrap().set_len(&mut expected, len);
                }
                assert_eq!(frame, &expected, "{i}");
            }
        }
    }

    #[test]
    fn what_fits_no_frame_is_not_cut() {
        let large = segment(false, 0, ACK, &[0; 3000]);
        let headers = SegmentOffsets::find(&large).unwrap().payload;
        assert!(cut(&large, 1000, headers + 1000).is_some());
        assert!(cut(&large, 1000, headers + 999).is_none());
        assert!(cut(&large, 0, 1600).is_none());
        assert!(cut(&large[..headers], 1000, 1600).is_none());
    }

    #[test]
    fn checksums_are_finished_inside_of_the_frame_only() {
        let whole = segment(true, 5, ACK, b"odd");
        let offsets = SegmentOffsets::find(&whole).unwrap();
        let mut frame = whole.clone();
        let pseudo = fold(offsets.pseudo_sum(&whole, whole.len()));
        put16(&mut frame, offsets.tcp + TCP_CHECKSUM, pseudo);
        finish_checksum(&mut frame, offsets.tcp, TCP_CHECKSUM);
        assert_eq!(frame, whole);
        for start in [whole.len() - TCP_CHECKSUM - 1, whole.len(), usize::MAX] {
            finish_checksum(&mut frame, start, TCP_CHECKSUM);
            assert_eq!(frame, whole);
        }
    }
}
