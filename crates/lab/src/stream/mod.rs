//! One sender, one receiver and a lossy link between them: the engine itself in virtual time.
//!
//! - [`Stream`]: what is sent, and how its records are tagged;
//! - [`run`]: sends it over a [`Link`] and logs what became of each message;
//! - [`loss`]: channels in virtual time;
//! - [`radio`]: link layers in virtual time, over several hops too;
//! - [`sockets`]: real sockets, with the impairment relay between them.

mod ends;
pub mod loss;
pub mod radio;
pub mod sockets;

use crate::Error;
use crate::statistics::Interval;
use core::time::Duration;
use dtls::{Adapt, Delivery, Scheme};
use ends::{Ends, Told};

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the sender of messages to their receiver.
    There,
    /// Back.
    Back,
}

/// What lies between two ends.
pub trait Link {
    /// Takes a datagram, sent so long after the first message. What is lost is not carried.
    ///
    /// # Errors
    /// Those of sockets.
    fn send(&mut self, at: Duration, way: Way, datagram: &[u8]) -> Result<(), Error>;

    /// The next datagram that has arrived, its bytes first in `buf`. `None` once nothing is under
    /// way any more.
    ///
    /// # Errors
    /// Those of sockets.
    fn receive(&mut self, buf: &mut [u8]) -> Result<Option<(Way, usize)>, Error>;

    /// The handshake is complete: datagrams may be lost from here on.
    fn begin(&mut self);
}

/// What a byte count holds besides payload and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// What is really sent: with one-byte record numbers a header of 2 bytes and the content type.
    Ours,
    /// 5 bytes a record, as Wagner et al. count.
    Paper,
}

impl Accounting {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ours, Self::Paper];

    /// For tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Paper => "paper",
        }
    }

    /// Bytes of a record besides payload and tags, where its number has one byte.
    pub const fn overhead_bytes(self) -> u16 {
        match self {
            Self::Ours => 3,
            Self::Paper => 5,
        }
    }

    /// What a datagram with one record counts as, in bytes.
    pub fn bytes(self, datagram: &[u8]) -> usize {
        match self {
            Self::Ours => datagram.len(),
            Self::Paper => {
                // RFC 9147, figure 3: S and L.
                let flags = datagram.first().copied().unwrap_or(0);
                let header = 2 + usize::from(flags >> 3 & 1) + 2 * usize::from(flags >> 2 & 1);
                let overhead = usize::from(self.overhead_bytes());
                datagram.len().saturating_sub(header + 1) + overhead
            }
        }
    }
}

/// What is sent, and how its records are tagged.
#[derive(Clone, Debug)]
pub struct Stream {
    /// How records are tagged, from the first to the last; nothing where `adapt` says more.
    pub scheme: Scheme,
    /// How the receiver chooses schemes itself, if it does.
    pub adapt: Option<Adapt>,
    /// Payload of each message, in bytes; at least 1.
    pub payload_bytes: usize,
    /// How many messages.
    pub messages: usize,
    /// From one message to the next.
    pub interval: Duration,
    /// When data is taken.
    pub delivery: Delivery,
    /// Messages that are sent before arrivals are looked at: 1 wherever delays matter.
    pub batch: usize,
    /// Of all randomness of the ends.
    pub seed: u64,
}

impl Stream {
    /// Ten messages a second, delivered once they are verified.
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

/// What became of a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message {
    /// Bytes that were sent, both ways, from it to the next; by [`Accounting::ALL`].
    pub bytes: [u32; 2],
    /// Datagrams of those from the sender.
    pub datagrams: u32,
    /// When it was given to the application, provisionally or not, if it was.
    pub taken: Option<Delay>,
}

/// How long a message waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Messages that were sent after it.
    pub follow_ups: u32,
    /// Since it was sent.
    pub time: Duration,
}

/// What became of a stream.
#[derive(Clone, Debug)]
pub struct Log {
    /// Payload of each message, in bytes.
    pub payload_bytes: usize,
    /// Every message, in order.
    pub messages: Vec<Message>,
    /// How records were tagged, from which message on.
    pub schemes: Vec<(usize, Scheme)>,
}

impl Log {
    /// Payload bytes taken over all bytes sent.
    pub fn goodput(&self, accounting: Accounting) -> f64 {
        goodput(&self.messages, self.payload_bytes, accounting)
    }

    /// The share of messages taken.
    pub fn taken(&self) -> f64 {
        let taken = self.messages.iter().filter(|message| message.taken.is_some()).count();
        taken as f64 / self.messages.len().max(1) as f64
    }

    /// The share of messages taken before so many others had followed.
    pub fn taken_within(&self, follow_ups: u32) -> f64 {
        let within =
            |message: &&Message| message.taken.is_some_and(|delay| delay.follow_ups <= follow_ups);
        self.messages.iter().filter(within).count() as f64 / self.messages.len().max(1) as f64
    }

    /// Goodput with its interval of 95 %, from means of a hundred stretches of messages.
    pub fn goodput_interval(&self, accounting: Accounting) -> Interval {
        let stretches = self.messages.chunks(self.messages.len().div_ceil(100).max(1));
        let means = stretches.map(|some| goodput(some, self.payload_bytes, accounting));
        Interval { mean: self.goodput(accounting), ..Interval::of(&means.collect::<Vec<_>>()) }
    }
}

/// Payload bytes taken over all bytes sent, of some messages.
pub fn goodput(messages: &[Message], payload_bytes: usize, accounting: Accounting) -> f64 {
    let taken = messages.iter().filter(|message| message.taken.is_some()).count();
    let bytes = messages.iter().map(|message| u64::from(message.bytes[accounting as usize]));
    let bytes: u64 = bytes.sum();
    (taken * payload_bytes) as f64 / (bytes as f64).max(1.0)
}

/// Sends the stream over `link`.
///
/// # Errors
/// Those of the link, and when the ends do not agree on a connection over it.
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
        ends.pass_time(link, sent, |told, now| note(&mut log, stream, told, now))?;
        fill(&mut payload, index);
        log.messages.push(Message::default());
        ends.send(&payload)?;
        let receive = (index + 1) % stream.batch.max(1) == 0;
        ends.settle(link, receive, |told, now| note(&mut log, stream, told, now))?;
    }
    ends.close(link, |told, now| note(&mut log, stream, told, now))?;
    Ok(log)
}

fn note(log: &mut Log, stream: &Stream, told: Told<'_>, now: Duration) {
    let Some(newest) = log.messages.len().checked_sub(1) else { return };
    match told {
        Told::Sent(way, datagram) => {
            let message = &mut log.messages[newest];
            for (sum, accounting) in message.bytes.iter_mut().zip(Accounting::ALL) {
                *sum += accounting.bytes(datagram) as u32;
            }
            message.datagrams += u32::from(way == Way::There);
        }
        Told::Taken(payload) => {
            let Some(index) = index_of(payload, newest) else { return };
            let sent = stream.interval * u32::try_from(index).unwrap_or(u32::MAX);
            log.messages[index].taken.get_or_insert(Delay {
                follow_ups: u32::try_from(newest - index).unwrap_or(u32::MAX),
                time: now.saturating_sub(sent),
            });
        }
        Told::Changed(scheme) => log.schemes.push((newest, scheme)),
    }
}

/// The low bytes of the message's place, as far as they fit, and filling.
fn fill(payload: &mut [u8], index: usize) {
    let place = (index as u32).to_le_bytes();
    for (i, byte) in payload.iter_mut().enumerate() {
        *byte = place.get(i).copied().unwrap_or(i as u8);
    }
}

/// The place of the message with this payload, the last one that fits.
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
    use super::loss::{Air, Bernoulli, Loss};
    use super::*;

    fn stream(scheme: &str) -> Stream {
        Stream::new(scheme.parse().expect("a scheme"), 10, 640)
    }

    fn over(stream: &Stream, loss: impl Loss) -> Log {
        run(stream, &mut Air::new(loss, Accounting::Ours)).expect("a link without sockets")
    }

    #[test]
    fn without_loss_every_byte_is_accounted_for() {
        let off = over(&stream("off"), Bernoulli::new(0.0, 1));
        assert_eq!(off.taken(), 1.0);
        let near = |goodput: f64, exact: f64| {
            assert!((goodput / exact - 1.0).abs() < 0.01, "{goodput} and {exact}");
        };
        // Every 32nd record says two bytes of its number; an alert ends the stream.
        near(off.goodput(Accounting::Ours), 10.0 / 29.0);
        near(off.goodput(Accounting::Paper), 10.0 / 31.0);
        // Loss reports come back, and before the first one all numbers have two bytes.
        let long = Stream { messages: 6400, ..stream("agg:16") };
        let agg = over(&long, Bernoulli::new(0.0, 1));
        near(agg.goodput(Accounting::Ours), 10.0 / 14.0);
        near(agg.goodput(Accounting::Paper), 10.0 / 16.0);
        assert_eq!(agg.taken_within(15), 1.0);
        assert_eq!(agg.messages[0].taken.map(|delay| delay.follow_ups), Some(15));
        assert_eq!(agg.messages[0].taken.map(|delay| delay.time.as_millis()), Some(1500));
    }

    #[test]
    fn a_lost_record_costs_its_set() {
        let log = over(&stream("agg:8"), Bernoulli::new(0.02, 3));
        let sets: Vec<_> = log.messages.chunks(8).collect();
        let whole = |set: &&&[Message]| set.iter().all(|message| message.taken.is_some());
        let none = |set: &&&[Message]| set.iter().all(|message| message.taken.is_none());
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
        assert!(early.taken_within(5) > 0.9 && verified.taken_within(20) < 0.1);
        // How many records it takes depends on the rulers, which the keys choose.
        assert!(verified.taken_within(30) > 0.9);
    }
}
