//! MACsec frames made beforehand, for measurements without MACsec endpoints.
//!
//! They look like real frames, but have zeros in the place of ciphertext. Within a flow only the
//! packet number changes from frame to frame, as tunnels expect.

/// EtherType of MACsec.
pub const ETHERTYPE: u16 = 0x88e5;
/// Length of the shortest frame in bytes: addresses, EtherType, SecTAG with SCI, and ICV.
pub const SHORTEST: usize = 12 + 16 + 16;
/// Number of flows in a stream, each with a source address and a secure channel of its own.
pub const FLOWS: usize = 8;
/// The position of the packet number in a frame.
const NUMBER: std::ops::Range<usize> = 16..20;
/// Payloads shorter than this, in bytes, have their length in SL (IEEE 802.1AE-2018, 9.7).
const SHORT: usize = 48;
/// TCI with the bits SC, E and C set; association number 0.
const TCI: u8 = 0x2c;

/// The side of a tunnel that a frame comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that sends streams.
    A,
    /// The side that receives streams and answers echoes.
    B,
}

impl Side {
    /// The hardware address of the station of this flow.
    const fn address(self, flow: usize) -> [u8; 6] {
        [0x02, 0x4d, 0x53, 0, self as u8, flow as u8]
    }
}

/// One direction of a flow between one station on each side.
#[derive(Clone, Debug)]
pub struct Flow {
    from: Side,
    number: usize,
    packet_number: u32,
}

impl Flow {
    /// The flow with this number, 0 to 255, from this side. Its first packet number is 1.
    pub const fn new(from: Side, number: usize) -> Self {
        Self { from, number, packet_number: 0 }
    }

    /// Writes the next frame, `frame_bytes` long without the frame check sequence.
    ///
    /// # Panics
    /// If `frame_bytes` is less than [`SHORTEST`].
    pub fn next_into(&mut self, frame: &mut Vec<u8>, frame_bytes: usize) {
        assert!(frame_bytes >= SHORTEST, "{frame_bytes} bytes hold no MACsec frame");
        let (own, other) = match self.from {
            Side::A => (Side::A, Side::B),
            Side::B => (Side::B, Side::A),
        };
        self.packet_number = self.packet_number.wrapping_add(1);
        let payload = frame_bytes - SHORTEST;
        frame.clear();
        frame.extend(other.address(self.number));
        frame.extend(own.address(self.number));
        frame.extend(ETHERTYPE.to_be_bytes());
        frame.extend([TCI, if payload < SHORT { payload as u8 } else { 0 }]);
        frame.extend(self.packet_number.to_be_bytes());
        frame.extend(own.address(self.number));
        frame.extend([0, 1]);
        frame.resize(frame_bytes, 0);
    }

    /// The packet number of the newest frame.
    pub const fn packet_number(&self) -> u32 {
        self.packet_number
    }
}

/// The packet number of a frame made by a [`Flow`]; `None` for any other frame.
pub fn packet_number(frame: &[u8]) -> Option<u32> {
    if frame.len() < SHORTEST || frame[12..14] != ETHERTYPE.to_be_bytes() {
        return None;
    }
    frame[NUMBER].try_into().ok().map(u32::from_be_bytes)
}

/// The flow number of such a frame.
pub fn flow_number(frame: &[u8]) -> Option<usize> {
    frame.get(11).map(|number| usize::from(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_flow_differ_in_their_number_alone() {
        let mut flow = Flow::new(Side::A, 3);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        flow.next_into(&mut first, 96);
        flow.next_into(&mut second, 96);
        assert_eq!((packet_number(&first), packet_number(&second)), (Some(1), Some(2)));
        let differ: Vec<_> = (0..96).filter(|at| first[*at] != second[*at]).collect();
        assert_eq!(differ, [19]);
        assert_eq!(flow_number(&first), Some(3));
    }

    #[test]
    fn short_payloads_say_how_long_they_are() {
        let mut frame = Vec::new();
        for (bytes, said) in [(SHORTEST, 0), (SHORTEST + 47, 47), (SHORTEST + 48, 0)] {
            Flow::new(Side::B, 0).next_into(&mut frame, bytes);
            assert_eq!((frame.len(), frame[15]), (bytes, said));
        }
    }

    #[test]
    fn answers_come_from_where_questions_went() {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        Flow::new(Side::A, 1).next_into(&mut there, 64);
        Flow::new(Side::B, 1).next_into(&mut back, 64);
        assert_eq!((&there[..6], &there[6..12]), (&back[6..12], &back[..6]));
        assert_eq!(packet_number(&there[..SHORTEST - 1]), None);
    }
}
