//! One sender, one receiver and a lossy link between them: the engine itself in virtual time.
//!
//! - [`Stream`]: the messages to send, and how their records are tagged;
//! - [`run`]: sends them over a [`Link`] and logs what happened to each message;
//! - [`loss`]: channels in virtual time;
//! - [`radio`]: link layers in virtual time, over one or several hops;
//! - [`sockets`]: real sockets, with an impairment relay between them.

mod ends;
pub mod loss;
pub mod radio;
pub mod sockets;

use crate::Error;
use crate::statistics::Interval;
use core::time::Duration;
use ends::{EndEvent, Ends};
use lightseal_dtls::{Adapt, Delivery, Scheme};

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the sender of messages to their receiver.
    ToReceiver,
    /// From the receiver of messages to their sender.
    ToSender,
}

/// A path between two ends.
pub trait Link {
    /// Sends a datagram at time `at` after the first message. The link may lose it.
    ///
    /// # Errors
    ///
    /// Fails when a socket does.
    fn send(&mut self, at: Duration, direction: Direction, datagram: &[u8]) -> Result<(), Error>;

    /// Receives the next datagram that has arrived. Its bytes are the first ones of `buf`. `None`
    /// if no datagram is under way any more.
    ///
    /// # Errors
    ///
    /// Fails when a socket does.
    fn receive(&mut self, buf: &mut [u8]) -> Result<Option<(Direction, usize)>, Error>;

    /// Begins to lose datagrams. It is called when the handshake is complete.
    fn begin(&mut self);
}

/// How the bytes of a record besides payload and tags are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// The bytes that are really sent. With one-byte record numbers they are a header of 2 bytes
    /// and the content type.
    Ours,
    /// 5 bytes for each record, as Wagner et al. count.
    Paper,
}

impl Accounting {
    /// The two accountings, in the order of [`Message::bytes`].
    pub const ALL: [Self; 2] = [Self::Ours, Self::Paper];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Paper => "paper",
        }
    }

    /// Bytes of a record besides payload and tags, if its record number has one byte.
    pub const fn overhead_bytes(self) -> u16 {
        match self {
            Self::Ours => 3,
            Self::Paper => 5,
        }
    }

    /// The counted length of a datagram with one record, in bytes.
    pub fn bytes(self, datagram: &[u8]) -> usize {
        match self {
            Self::Ours => datagram.len(),
            Self::Paper => {
                // The flags S and L of RFC 9147, figure 3.
                let flags = datagram.first().copied().unwrap_or(0);
                let header = 2 + usize::from(flags >> 3 & 1) + 2 * usize::from(flags >> 2 & 1);
                let overhead = usize::from(self.overhead_bytes());
                datagram.len().saturating_sub(header + 1) + overhead
            }
        }
    }
}

/// The messages to send, and how their records are tagged.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The scheme of all records. If `adapt` is set, the scheme follows it instead.
    pub scheme: Scheme,
    /// How the receiver chooses schemes itself; `None` for a fixed scheme.
    pub adapt: Option<Adapt>,
    /// Payload of each message, in bytes; at least 1.
    pub payload_bytes: usize,
    /// Number of messages.
    pub messages: usize,
    /// Time from one message to the next.
    pub interval: Duration,
    /// When the receiver delivers data to its application.
    pub delivery: Delivery,
    /// Number of messages that are sent before the receiver handles arrivals. It must be 1 if
    /// delays matter.
    pub batch: usize,
    /// Seed of all randomness of the ends.
    pub seed: u64,
}

impl Stream {
    /// Ten messages a second, which are delivered once they are verified.
    pub const fn new(scheme: Scheme, payload_bytes: usize, messages: usize) -> Self {
        Self {
            scheme,
            adapt: None,
            payload_bytes,
            messages,
            interval: Duration::from_millis(100),
            delivery: Delivery::Verified,
            batch: 1,
            seed: 1,
        }
    }
}

/// What happened to a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message {
    /// Bytes that both ends sent from this message until the next, by [`Accounting::ALL`].
    pub bytes: [u32; 2],
    /// Number of datagrams that the sender sent in this time.
    pub datagrams: u32,
    /// The delay until the message was given to the application, provisionally or verified; `None`
    /// if it never was.
    pub delivered: Option<Delay>,
}

/// The delay from sending a message until its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Number of messages that were sent after it and before its delivery.
    pub follow_ups: u32,
    /// The time since it was sent.
    pub time: Duration,
}

/// What happened to the messages of a stream.
#[derive(Clone, Debug)]
pub struct Log {
    /// Payload of each message, in bytes.
    pub payload_bytes: usize,
    /// The messages, in the order in which they were sent.
    pub messages: Vec<Message>,
    /// The schemes of records, each with the message from which on it was used.
    pub schemes: Vec<(usize, Scheme)>,
}

impl Log {
    /// Bytes of delivered payload divided by all bytes sent.
    pub fn goodput(&self, accounting: Accounting) -> f64 {
        goodput(&self.messages, self.payload_bytes, accounting)
    }

    /// The share of messages that were delivered.
    pub fn delivered(&self) -> f64 {
        let delivered = self.messages.iter().filter(|message| message.delivered.is_some()).count();
        delivered as f64 / self.messages.len().max(1) as f64
    }

    /// The share of messages that were delivered when at most this many others had been sent after
    /// them.
    pub fn delivered_within(&self, follow_ups: u32) -> f64 {
        let within = |message: &&Message| {
            message.delivered.is_some_and(|delay| delay.follow_ups <= follow_ups)
        };
        self.messages.iter().filter(within).count() as f64 / self.messages.len().max(1) as f64
    }

    /// Goodput with its 95 % confidence interval, from the means of a hundred sections of the
    /// stream.
    pub fn goodput_interval(&self, accounting: Accounting) -> Interval {
        let stretches = self.messages.chunks(self.messages.len().div_ceil(100).max(1));
        let means = stretches.map(|some| goodput(some, self.payload_bytes, accounting));
        Interval { mean: self.goodput(accounting), ..Interval::of(&means.collect::<Vec<_>>()) }
    }
}

/// Bytes of delivered payload divided by all bytes sent, for some messages.
pub fn goodput(messages: &[Message], payload_bytes: usize, accounting: Accounting) -> f64 {
    let delivered = messages.iter().filter(|message| message.delivered.is_some()).count();
    let bytes = messages.iter().map(|message| u64::from(message.bytes[accounting as usize]));
    let bytes: u64 = bytes.sum();
    (delivered * payload_bytes) as f64 / (bytes as f64).max(1.0)
}

/// Sends the stream over `link`.
///
/// # Errors
///
/// The errors of the link. Also fails when the ends do not establish an association over it.
pub fn run(stream: &Stream, link: &mut dyn Link) -> Result<Log, Error> {
    let mut ends = Ends::connect(stream, link)?;
    let mut log = Log {
        payload_bytes: stream.payload_bytes,
        messages: Vec::with_capacity(stream.messages),
        schemes: vec![(0, ends.scheme())],
    };
    let mut payload = vec![0; stream.payload_bytes];
    for index in 0..stream.messages {
        let sent = stream.interval * u32::try_from(index).unwrap_or(u32::MAX);
        ends.pass_time(link, sent, |event, now| note(&mut log, stream, event, now))?;
        fill(&mut payload, index);
        log.messages.push(Message::default());
        ends.send(&payload)?;
        let receive = (index + 1) % stream.batch.max(1) == 0;
        ends.settle(link, receive, |event, now| note(&mut log, stream, event, now))?;
    }
    ends.close(link, |event, now| note(&mut log, stream, event, now))?;
    Ok(log)
}

fn note(log: &mut Log, stream: &Stream, event: EndEvent<'_>, now: Duration) {
    let Some(newest) = log.messages.len().checked_sub(1) else { return };
    match event {
        EndEvent::Sent(direction, datagram) => {
            let message = &mut log.messages[newest];
            for (sum, accounting) in message.bytes.iter_mut().zip(Accounting::ALL) {
                *sum += accounting.bytes(datagram) as u32;
            }
            message.datagrams += u32::from(direction == Direction::ToReceiver);
        }
        EndEvent::Delivered(payload) => {
            let Some(index) = index_of(payload, newest) else { return };
            let sent = stream.interval * u32::try_from(index).unwrap_or(u32::MAX);
            log.messages[index].delivered.get_or_insert(Delay {
                follow_ups: u32::try_from(newest - index).unwrap_or(u32::MAX),
                time: now.saturating_sub(sent),
            });
        }
        EndEvent::Changed(scheme) => log.schemes.push((newest, scheme)),
    }
}

/// Fills a payload. Its first bytes are the low bytes of the message's index, as many as fit.
fn fill(payload: &mut [u8], index: usize) {
    let place = (index as u32).to_le_bytes();
    for (i, byte) in payload.iter_mut().enumerate() {
        *byte = place.get(i).copied().unwrap_or(i as u8);
    }
}

/// The index of the message with this payload: the largest one that matches and is not above
/// `newest`.
fn index_of(payload: &[u8], newest: usize) -> Option<usize> {
    let bytes = payload.len().min(4);
    let mut low = [0; 4];
    low[..bytes].copy_from_slice(&payload[..bytes]);
    let modulus = 1u64 << (8 * bytes);
    let back = (newest as u64).wrapping_sub(u32::from_le_bytes(low).into()) % modulus;
    newest.checked_sub(back as usize)
}

#[cfg(test)]
mod tests {
    use super::loss::{Bernoulli, Loss, LossyLink};
    use super::*;

    fn stream(scheme: &str) -> Stream {
        Stream::new(scheme.parse().expect("a scheme"), 10, 640)
    }

    fn over(stream: &Stream, loss: impl Loss) -> Log {
        run(stream, &mut LossyLink::new(loss, Accounting::Ours)).expect("a link without sockets")
    }

    #[test]
    fn without_loss_every_byte_is_accounted_for() {
        let off = over(&stream("off"), Bernoulli::new(0.0, 1));
        assert_eq!(off.delivered(), 1.0);
        let near = |goodput: f64, exact: f64| {
            assert!((goodput / exact - 1.0).abs() < 0.01, "{goodput} and {exact}");
        };
        // Every 32nd record has a two-byte record number, and an alert ends the stream.
        near(off.goodput(Accounting::Ours), 10.0 / 29.0);
        near(off.goodput(Accounting::Paper), 10.0 / 31.0);
        // Loss reports are sent back, and before the first one all record numbers have two bytes.
        let long = Stream { messages: 6400, ..stream("agg:16") };
        let agg = over(&long, Bernoulli::new(0.0, 1));
        near(agg.goodput(Accounting::Ours), 10.0 / 14.0);
        near(agg.goodput(Accounting::Paper), 10.0 / 16.0);
        assert_eq!(agg.delivered_within(15), 1.0);
        assert_eq!(agg.messages[0].delivered.map(|delay| delay.follow_ups), Some(15));
        assert_eq!(agg.messages[0].delivered.map(|delay| delay.time.as_millis()), Some(1500));
    }

    #[test]
    fn a_lost_record_costs_its_set() {
        let log = over(&stream("agg:8"), Bernoulli::new(0.02, 3));
        let sets: Vec<_> = log.messages.chunks(8).collect();
        let whole = |set: &&&[Message]| set.iter().all(|message| message.delivered.is_some());
        let none = |set: &&&[Message]| set.iter().all(|message| message.delivered.is_none());
        assert_eq!(sets.iter().filter(whole).count() + sets.iter().filter(none).count(), 80);
        assert!(sets.iter().filter(none).count() > 3);
    }

    #[test]
    fn messages_are_known_by_a_single_byte() {
        for newest in [0, 5, 255, 256, 1000] {
            for index in newest - 60.min(newest)..=newest {
                let mut payload = [0];
                fill(&mut payload, index);
                assert_eq!(index_of(&payload, newest), Some(index));
            }
        }
    }

    #[test]
    fn progressive_delivery_is_earlier() {
        let verified = over(&stream("r2d2:50"), Bernoulli::new(0.0, 1));
        let early = Stream { delivery: Delivery::Progressive(32), ..stream("r2d2:50") };
        let early = over(&early, Bernoulli::new(0.0, 1));
        assert!(early.delivered_within(5) > 0.9 && verified.delivered_within(20) < 0.1);
        // How many records it takes depends on the rulers, which are derived from the keys.
        assert!(verified.delivered_within(30) > 0.9);
    }
}
