//! A stream over radios: a node that sends, a node that receives, and relays between them.

use super::ends::{Ends, address};
use super::loss::{Bernoulli, LossyLink};
use super::{Accounting, Delay, Direction, Log, Message, Stream, fill, index_of};
use crate::Error;
use crate::energy::{Computation, Device, ResourceUse};
use crate::handshakes::WorkCounter;
use crate::network::Network;
use crate::statistics::quantile;
use crate::world::{NextAction, Node, NodeId};
use core::time::Duration;
use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::{Connection, Endpoint, Event, Scheme};

/// The result of a stream, and what its sender spent.
#[derive(Clone, Debug)]
pub struct StreamResult {
    /// What happened to each message.
    pub log: Log,
    /// The time and the timeslots that the sender spent from the first message to the last.
    pub spent: ResourceUse,
}

/// Means of a stream's results.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Bytes of delivered payload divided by the DTLS bytes that both ends sent.
    pub goodput: f64,
    /// The share of messages that were delivered.
    pub delivered: f64,
    /// The median time from sending a message until its delivery, in s.
    pub median_delay_s: f64,
    /// The 95th percentile of that time, in s.
    pub p95_delay_s: f64,
    /// The mean energy that the sender spends on a message, listening included, in mJ.
    pub millijoules: f64,
}

impl StreamResult {
    /// Summarises the results, with bytes counted by `accounting` and a sender that is the given
    /// device.
    pub fn summarize(&self, device: &Device, accounting: Accounting) -> Summary {
        let delays = self.log.messages.iter().filter_map(|message| message.delivered);
        let delays: Vec<f64> = delays.map(|delay| delay.time.as_secs_f64()).collect();
        Summary {
            goodput: self.log.goodput(accounting),
            delivered: self.log.delivered(),
            median_delay_s: quantile(&delays, 0.5),
            p95_delay_s: quantile(&delays, 0.95),
            millijoules: device.millijoules(&self.spent) / self.log.messages.len().max(1) as f64,
        }
    }
}

/// How long the world goes on after the last message, so that messages under way can arrive.
const TAIL: Duration = Duration::from_secs(600);

/// Sends the stream from the last node of `network` to its root, over an association that has
/// already been established.
///
/// # Errors
///
/// Fails when the network is invalid, or the engines refuse their configuration.
pub fn run(stream: &Stream, network: &Network) -> Result<StreamResult, Error> {
    let mut ideal = LossyLink::new(Bernoulli::new(0.0, 1), Accounting::Ours);
    let ends = Ends::connect(stream, &mut ideal)?;
    let scheme = ends.scheme();
    let (sender, receiver, start) = ends.into_parts();
    let schedule = SendSchedule { start, interval: stream.interval, messages: stream.messages };
    let mut world = network.world(Random::insecure(stream.seed))?;
    let (root, last) = (NodeId(0), NodeId(network.topology.len() as u16 - 1));
    let mut source = Some(Source::new(sender, schedule, stream.payload_bytes, root, scheme));
    let mut sink = Some(Sink::new(receiver, schedule, last));
    for id in network.topology.nodes() {
        let program = match id {
            _ if id == root => sink.take().map_or(StreamNode::Relay, StreamNode::Sink),
            _ if id == last => source.take().map_or(StreamNode::Relay, StreamNode::Source),
            _ => StreamNode::Relay,
        };
        world.add(start, program);
    }
    let end = schedule.sent_at(stream.messages);
    world.run(end, |_, _| false);
    let spent = world.spent(last, start);
    world.run(end + TAIL, |_, _| false);
    let (StreamNode::Source(source), StreamNode::Sink(sink)) = (world.node(last), world.node(root))
    else {
        return Err(Error::Stream("a stream needs two nodes"));
    };
    let mut messages = source.messages.clone();
    for (message, heard) in messages.iter_mut().zip(&sink.messages) {
        message.delivered = heard.delivered;
        message.bytes.iter_mut().zip(heard.bytes).for_each(|(sum, back)| *sum += back);
    }
    let schemes = source.schemes.clone();
    Ok(StreamResult { log: Log { payload_bytes: stream.payload_bytes, messages, schemes }, spent })
}

/// The times at which messages are sent.
#[derive(Clone, Copy, Debug)]
struct SendSchedule {
    start: Instant,
    interval: Duration,
    messages: usize,
}

impl SendSchedule {
    fn sent_at(&self, index: usize) -> Instant {
        self.start + self.interval * u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// The index of the last message sent by this time.
    fn newest(&self, now: Instant) -> usize {
        let interval = lightseal_core::time::micros(self.interval).max(1);
        let passed = lightseal_core::time::micros(now.saturating_since(self.start)) / interval;
        (passed as usize).min(self.messages.saturating_sub(1))
    }
}

/// A node of a stream.
enum StreamNode {
    Source(Box<Source>),
    Sink(Box<Sink>),
    Relay,
}

struct Source {
    engine: Connection,
    schedule: SendSchedule,
    next: usize,
    payload: Vec<u8>,
    root: NodeId,
    messages: Vec<Message>,
    schemes: Vec<(usize, Scheme)>,
    work_counter: WorkCounter,
}

struct Sink {
    engine: Endpoint,
    schedule: SendSchedule,
    peer: NodeId,
    messages: Vec<Message>,
    work_counter: WorkCounter,
}

fn count(message: Option<&mut Message>, datagram: &[u8]) {
    let Some(message) = message else { return };
    for (sum, accounting) in message.bytes.iter_mut().zip(Accounting::ALL) {
        *sum += accounting.bytes(datagram) as u32;
    }
}

impl Source {
    fn new(
        engine: Connection,
        schedule: SendSchedule,
        payload_bytes: usize,
        root: NodeId,
        scheme: Scheme,
    ) -> Box<Self> {
        Box::new(Self {
            engine,
            schedule,
            next: 0,
            payload: vec![0; payload_bytes],
            root,
            messages: vec![Message::default(); schedule.messages],
            schemes: vec![(0, scheme)],
            work_counter: WorkCounter::default(),
        })
    }

    fn wake(&mut self, now: Instant) {
        if self.next <= self.schedule.messages && self.schedule.sent_at(self.next) <= now {
            if self.next < self.schedule.messages {
                fill(&mut self.payload, self.next);
                // A message that the engine refuses is not sent, and counts as lost.
                let _ = self.engine.send(now, &self.payload, &mut []);
            } else {
                self.engine.close(now);
            }
            self.next += 1;
        }
        self.engine.handle_timeout(now);
    }

    fn poll(&mut self, buf: &mut [u8]) -> NextAction {
        let newest = self.next.saturating_sub(1).min(self.schedule.messages.saturating_sub(1));
        let mut wake = None;
        loop {
            match self.engine.poll_output(buf) {
                Output::Datagram { payload, .. } => {
                    let message = self.messages.get_mut(newest);
                    count(message, payload);
                    let len = payload.len();
                    if let Some(message) = self.messages.get_mut(newest) {
                        message.datagrams += 1;
                    }
                    self.work_counter.datagram(self.root, payload, 0);
                    return NextAction::Send { to: self.root, len };
                }
                Output::Event(Event::AggregationChanged { send, .. }) => {
                    self.schemes.push((newest, send));
                }
                Output::Event(_) => {}
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => {
                    wake = Some(at);
                    break;
                }
                Output::Idle => break,
            }
        }
        let due = (self.next <= self.schedule.messages).then(|| self.schedule.sent_at(self.next));
        wake.into_iter().chain(due).min().map_or(NextAction::Idle, NextAction::WakeAt)
    }
}

impl Sink {
    fn new(engine: Endpoint, schedule: SendSchedule, peer: NodeId) -> Box<Self> {
        let messages = vec![Message::default(); schedule.messages];
        Box::new(Self { engine, schedule, peer, messages, work_counter: WorkCounter::default() })
    }

    fn poll(&mut self, now: Instant, buf: &mut [u8]) -> NextAction {
        let newest = self.schedule.newest(now);
        loop {
            match self.engine.poll_output(buf) {
                Output::Datagram { payload, .. } => {
                    count(self.messages.get_mut(newest), payload);
                    self.work_counter.datagram(self.peer, payload, 0);
                    return NextAction::Send { to: self.peer, len: payload.len() };
                }
                Output::Event(event) => {
                    let (Event::Data(data) | Event::Provisional { data, .. }) = event.event else {
                        continue;
                    };
                    let Some(index) = index_of(data, newest) else { continue };
                    let time = now.saturating_since(self.schedule.sent_at(index));
                    let follow_ups = u32::try_from(newest - index).unwrap_or(u32::MAX);
                    self.messages[index].delivered.get_or_insert(Delay { follow_ups, time });
                }
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => return NextAction::WakeAt(at),
                Output::Idle => return NextAction::Idle,
            }
        }
    }
}

impl Node for StreamNode {
    fn receive(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
        match self {
            Self::Source(source) => {
                source.work_counter.datagram(from, datagram, 0);
                source.engine.handle_datagram(now, address(Direction::ToSender), datagram);
            }
            Self::Sink(sink) => {
                sink.work_counter.datagram(from, datagram, 0);
                sink.engine.handle_datagram(now, address(Direction::ToReceiver), datagram);
            }
            Self::Relay => {}
        }
    }

    fn wake(&mut self, now: Instant) {
        match self {
            Self::Source(source) => source.wake(now),
            Self::Sink(sink) => sink.engine.handle_timeout(now),
            Self::Relay => {}
        }
    }

    fn poll(&mut self, now: Instant, buf: &mut [u8]) -> NextAction {
        match self {
            Self::Source(source) => source.poll(buf),
            Self::Sink(sink) => sink.poll(now, buf),
            Self::Relay => NextAction::Idle,
        }
    }

    fn work(&mut self) -> Computation {
        match self {
            Self::Source(source) => source.work_counter.take(),
            Self::Sink(sink) => sink.work_counter.take(),
            Self::Relay => Computation::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::ChannelModel;
    use crate::links::{Layer, tsch, xmac};

    fn stream(scheme: &str) -> Stream {
        let scheme = scheme.parse().expect("a scheme");
        Stream { interval: Duration::from_secs(2), ..Stream::new(scheme, 10, 200) }
    }

    fn tsch(nodes: u16) -> Network {
        Network::line(nodes, Layer::Tsch(tsch::TschSettings::dedicated(31, 1)))
    }

    #[test]
    fn without_loss_every_message_comes_later_by_its_hops() {
        let mean = |nodes| {
            let course = run(&stream("off"), &tsch(nodes)).expect("the simulation runs");
            let delays: Vec<f64> = course
                .log
                .messages
                .iter()
                .map(|message| message.delivered.expect("nothing is lost").time.as_secs_f64())
                .collect();
            assert!(course.spent.of(crate::energy::Activity::Send) > 0);
            delays.iter().sum::<f64>() / delays.len() as f64
        };
        let delays = [2, 3, 4].map(mean);
        assert!(delays[0] < 0.32 && delays[0] < delays[1] && delays[1] < delays[2], "{delays:?}");
    }

    #[test]
    fn shared_tags_save_bytes_over_radios_too() {
        let network = tsch(3);
        let [off, agg] =
            ["off", "agg:8"].map(|name| run(&stream(name), &network).expect("the simulation runs"));
        assert_eq!((off.log.delivered(), agg.log.delivered()), (1.0, 1.0));
        assert!(agg.log.goodput(Accounting::Ours) > 1.5 * off.log.goodput(Accounting::Ours));
    }

    #[test]
    fn where_frames_are_lost_for_good_sets_are_too() {
        let layer = Layer::XMac(xmac::XMacSettings::contiki(125.0));
        let network = Network::line(2, layer).with_delivery(0.95);
        let network = Network { channel: ChannelModel::Bernoulli { delivery: 0.95 }, ..network };
        let [off, agg] =
            ["off", "agg:8"].map(|name| run(&stream(name), &network).expect("the simulation runs"));
        assert!((0.88..0.99).contains(&off.log.delivered()), "{}", off.log.delivered());
        assert!(agg.log.delivered() < off.log.delivered());
    }
}
