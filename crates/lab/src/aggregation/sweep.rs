//! Every payload length over a good and a bad radio channel.

use super::energy::packet_microjoules;
use super::schemes;
use crate::Error;
use crate::parallel::parallel;
use crate::statistics::Interval;
use crate::stream::loss::{BitErrors, LossyLink};
use crate::stream::{Accounting, Stream, run};
use ::lightseal_aggregation::Scheme;

/// The two radio channels of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RadioChannel {
    /// 0.65 % of packets of 4 bytes are lost, and 3.81 % of packets of 108 bytes.
    Good,
    /// 4.35 % of packets of 4 bytes are lost, and 13.52 % of packets of 108 bytes.
    Bad,
}

impl RadioChannel {
    /// The two channels.
    pub const ALL: [Self; 2] = [Self::Good, Self::Bad];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
        }
    }

    /// Loss by packet length, interpolated between the lengths that Wagner et al. measured (section
    /// IV-B).
    pub fn loss(self, seed: u64) -> BitErrors {
        let [short, long] = self.measured();
        BitErrors::between((4.0, short), (108.0, long), seed)
    }

    /// The loss rates that Wagner et al. measured for packets of 4 and of 108 bytes.
    pub const fn measured(self) -> [f64; 2] {
        match self {
            Self::Good => [0.0065, 0.0381],
            Self::Bad => [0.0435, 0.1352],
        }
    }
}

/// The longest DTLS packet that fits an IEEE 802.15.4 frame of the paper's stack, in bytes: 91
/// bytes of payload, 5 bytes of header and a full tag of 16 bytes.
pub const PACKET_BYTES: usize = 112;

/// Payload lengths in bytes: a fine grid while payloads are short, and all lengths that the paper
/// names.
pub const PAYLOADS: [usize; 31] = [
    1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 21, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80,
    85, 91, 95, 100, 102, 104,
];

/// One scheme with payloads of one length.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// How records are tagged.
    pub scheme: Scheme,
    /// Payload of each message, in bytes.
    pub payload_bytes: usize,
    /// Mean length of a packet, in bytes.
    pub packet_bytes: f64,
    /// The share of packets lost, from 0 to 1.
    pub loss: f64,
    /// Bytes of verified payload divided by bytes sent.
    pub goodput: Interval,
    /// Energy for each byte of verified payload, in µJ.
    pub energy: f64,
}

/// The longest payload in bytes whose packets fit [`PACKET_BYTES`].
pub fn longest_payload(scheme: Scheme, accounting: Accounting) -> usize {
    let tag = match scheme {
        Scheme::Plain => ::lightseal_aggregation::scheme::TAG_BYTES,
        other => other.largest_tags_len(),
    };
    PACKET_BYTES - usize::from(accounting.overhead_bytes()) - tag
}

/// Runs all schemes with payloads of every length that fits, with this many messages each. Points
/// are sorted by payload length, and for each length in the order of [`schemes`].
///
/// # Errors
///
/// Fails when an association ends early.
pub fn sweep(
    radio: RadioChannel,
    accounting: Accounting,
    messages: usize,
    seed: u64,
) -> Result<Vec<Point>, Error> {
    let fitting = PAYLOADS.into_iter().flat_map(|payload| {
        let schemes = schemes().into_iter();
        schemes.filter_map(move |scheme| {
            (payload <= longest_payload(scheme, accounting)).then_some((payload, scheme))
        })
    });
    let cells: Vec<_> = fitting.collect();
    let points = parallel(cells.len(), |cell| {
        let (payload_bytes, scheme) = cells[cell];
        let stream = Stream { seed, ..Stream::new(scheme, payload_bytes, messages) };
        let loss = radio.loss(seed ^ (cell as u64 + 1) << 32);
        let mut air = LossyLink::new(loss, accounting);
        let log = run(&stream, &mut air)?;
        let bytes = log.messages.iter().map(|m| f64::from(m.bytes[accounting as usize]));
        let packets: u32 = log.messages.iter().map(|message| message.datagrams).sum();
        let packet_bytes = bytes.sum::<f64>() / f64::from(packets.max(1));
        // Energy is linear in the length, so the mean energy is that of the mean length.
        let energy = packet_microjoules(packet_bytes) * f64::from(packets);
        let verified = log.delivered() * (messages * payload_bytes) as f64;
        Ok(Point {
            scheme,
            payload_bytes,
            packet_bytes,
            loss: air.lost as f64 / air.offered.max(1) as f64,
            goodput: log.goodput_interval(accounting),
            energy: energy / verified,
        })
    });
    points.into_iter().collect()
}

/// The point of plain tags with payloads of this length.
pub fn plain(points: &[Point], payload_bytes: usize) -> Option<&Point> {
    points.iter().find(|p| p.scheme == Scheme::Plain && p.payload_bytes == payload_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_what_the_paper_says() {
        let longest = |name: &str| longest_payload(name.parse().unwrap(), Accounting::Paper);
        assert_eq!(["off", "agg:8", "r2d2:50", "r2d2:150"].map(longest), [91, 91, 104, 102]);
    }

    #[test]
    fn the_bad_radio_loses_more_and_long_packets_are_lost_more_often() {
        let points = sweep(RadioChannel::Bad, Accounting::Paper, 400, 1).unwrap();
        let loss = |range: std::ops::Range<usize>| {
            let some: Vec<_> = points.iter().filter(|p| range.contains(&p.payload_bytes)).collect();
            some.iter().map(|point| point.loss).sum::<f64>() / some.len() as f64
        };
        assert!((0.04..0.07).contains(&loss(0..11)), "{}", loss(0..11));
        assert!((0.11..0.14).contains(&loss(90..105)), "{}", loss(90..105));
        assert_eq!(points.len(), 9 * 27 + 4 + 4 + 3 + 1);
    }
}
