//! The state of all flows in one line of the log: schemes, losses, goodput and
//! security level.

use lightseal_dtls::{Connection, Scheme, Stats};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// The state of all flows of a proxy at one moment.
#[derive(Clone, Debug)]
pub(crate) struct FlowStates {
    /// Flows whose handshake is complete.
    flows: usize,
    outward: Direction,
    inward: Direction,
    /// The number of bits that confirm what is delivered, in the flow where it is lowest.
    delivered_bits: Option<u8>,
    /// The number of records that wait for tags, and the sum of the bits that confirm them so far.
    waiting: u64,
    waiting_bits: u64,
    stats: Stats,
}

/// All flows in one direction.
#[derive(Clone, Debug, Default)]
struct Direction {
    /// The number of flows with each scheme, by the scheme's name.
    schemes: BTreeMap<String, usize>,
    /// The sum of the losses of all flows whose loss is known, in 1/65535, and the number of those
    /// flows.
    losses: u64,
    known: u64,
}

impl Direction {
    fn add(&mut self, scheme: Scheme, loss: Option<u16>) {
        *self.schemes.entry(scheme.to_string()).or_default() += 1;
        if let Some(loss) = loss {
            self.losses += u64::from(loss);
            self.known += 1;
        }
    }

    /// The mean loss of the flows whose loss is known, from 0 to 1.
    fn loss(&self) -> Option<f64> {
        ratio(self.losses, self.known * u64::from(u16::MAX))
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(scheme, _)] = self.schemes.iter().collect::<Vec<_>>()[..] {
            f.write_str(scheme)?;
        } else {
            let schemes = self.schemes.iter().map(|(name, flows)| format!("{name} x{flows}"));
            f.write_str(&schemes.collect::<Vec<_>>().join(" "))?;
        }
        match self.loss() {
            Some(loss) => write!(f, ", loss {:.2} %", loss * 100.0),
            None => f.write_str(", loss unknown"),
        }
    }
}

impl FlowStates {
    /// The state without any flow, with the counters so far.
    pub(crate) fn new(stats: Stats) -> Self {
        Self {
            flows: 0,
            outward: Direction::default(),
            inward: Direction::default(),
            delivered_bits: None,
            waiting: 0,
            waiting_bits: 0,
            stats,
        }
    }

    /// Adds a flow if its handshake is complete.
    pub(crate) fn add(&mut self, connection: &Connection) {
        let (Some(agreed), Some(level)) = (connection.negotiated(), connection.security_level())
        else {
            return;
        };
        self.flows += 1;
        self.outward.add(agreed.send, connection.reported_loss());
        self.inward.add(agreed.receive, connection.observed_loss());
        let least = self.delivered_bits.unwrap_or(level.delivered);
        self.delivered_bits = Some(least.min(level.delivered));
        self.waiting += u64::from(level.waiting);
        self.waiting_bits += u64::from(level.waiting_bits);
    }

    /// The share of payload in the bytes of datagrams sent since `before`, without handshakes.
    fn payload_share(&self, before: &Stats) -> Option<f64> {
        let (now, before) = (&self.stats.sent, &before.sent);
        ratio(
            now.message_bytes.saturating_sub(before.message_bytes),
            carrying(now.bytes, now.handshake_bytes)
                .saturating_sub(carrying(before.bytes, before.handshake_bytes)),
        )
    }

    /// The share of verified payload in the bytes of datagrams received since `before`, without
    /// handshakes.
    fn goodput(&self, before: &Stats) -> Option<f64> {
        let (now, before) = (&self.stats.received, &before.received);
        ratio(
            now.delivered_bytes.saturating_sub(before.delivered_bytes),
            carrying(now.bytes, now.handshake_bytes)
                .saturating_sub(carrying(before.bytes, before.handshake_bytes)),
        )
    }

    /// The mean number of bits that confirm a waiting record.
    fn mean_waiting_bits(&self) -> Option<f64> {
        (self.waiting > 0).then(|| self.waiting_bits as f64 / self.waiting as f64)
    }

    /// The state for programs, with the goodput since the start.
    pub(crate) fn json(&self) -> Value {
        json!({
            "outward": {
                "schemes": self.outward.schemes,
                "loss": self.outward.loss(),
                "payload_share": self.payload_share(&Stats::default()),
            },
            "inward": {
                "schemes": self.inward.schemes,
                "loss": self.inward.loss(),
                "goodput": self.goodput(&Stats::default()),
                "delivered_bits": self.delivered_bits,
                "waiting": self.waiting,
                "waiting_bits": self.mean_waiting_bits(),
            },
        })
    }
}

/// Makes status lines at intervals.
#[derive(Debug, Default)]
pub(crate) struct Status {
    before: Stats,
}

impl Status {
    /// The state in one line for people, with the goodput since the last line.
    pub(crate) fn line(&mut self, standing: FlowStates) -> String {
        let before = std::mem::replace(&mut self.before, standing.stats);
        if standing.flows == 0 {
            return "status: no flows".into();
        }
        let [payload, goodput] =
            [standing.payload_share(&before), standing.goodput(&before)].map(|share| match share {
                Some(share) => format!("{:.2} % of the bytes are messages", share * 100.0),
                None => "nothing lately".to_owned(),
            });
        let FlowStates { flows, outward, inward, delivered_bits, waiting, .. } = &standing;
        let flows = if *flows == 1 { "1 flow".into() } else { format!("{flows} flows") };
        let bits = delivered_bits.unwrap_or_default();
        let mut line = format!(
            "status: {flows}; out: tags {outward}, {payload}; \
             in: tags {inward}, {goodput}, each verified by {bits} bits at least"
        );
        if let Some(mean) = standing.mean_waiting_bits() {
            line += &format!(", {waiting} waiting for more than {mean:.0} bits");
        }
        line
    }
}

/// Bytes without those of handshakes.
const fn carrying(bytes: u64, handshake_bytes: u64) -> u64 {
    bytes.saturating_sub(handshake_bytes)
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(sent: u64, received: u64) -> FlowStates {
        let mut stats = Stats::default();
        (stats.sent.bytes, stats.sent.handshake_bytes) = (sent + 300, 300);
        stats.sent.message_bytes = sent / 2;
        (stats.received.bytes, stats.received.handshake_bytes) = (received + 400, 400);
        stats.received.delivered_bytes = received / 4;
        FlowStates::new(stats)
    }

    #[test]
    fn a_line_is_about_the_time_since_the_last_one() {
        let mut status = Status::default();
        assert_eq!(status.line(standing(100, 1000)), "status: no flows");
        let mut now = standing(300, 3000);
        now.flows = 3;
        now.outward.add(Scheme::Plain, None);
        now.inward.add(Scheme::Plain, None);
        for loss in [0, u16::MAX / 50] {
            now.outward.add("agg:8".parse().unwrap(), None);
            now.inward.add("agg:16".parse().unwrap(), Some(loss));
        }
        (now.delivered_bits, now.waiting, now.waiting_bits) = (Some(64), 4, 50);
        now.stats.received.delivered_bytes += 500;
        let json = now.json();
        assert_eq!(
            status.line(now),
            "status: 3 flows; out: tags agg:8 x2 off x1, loss unknown, 50.00 % of the bytes are \
             messages; in: tags agg:16 x2 off x1, loss 1.00 %, 50.00 % of the bytes are messages, \
             each verified by 64 bits at least, 4 waiting for more than 12 bits"
        );
        assert_eq!(json["inward"]["schemes"]["agg:16"], 2);
        assert_eq!(json["outward"]["loss"], Value::Null);
        let mut quiet = standing(300, 3000);
        quiet.stats.received.delivered_bytes += 500;
        quiet.flows = 1;
        quiet.inward.add("r2d2:50".parse().unwrap(), None);
        assert_eq!(
            status.line(quiet),
            "status: 1 flow; out: tags , loss unknown, nothing lately; in: tags r2d2:50, loss \
             unknown, nothing lately, each verified by 0 bits at least"
        );
    }
}
