//! An engine whose network loses datagrams.

use crate::{Request, step::Step};
use core::fmt;
use core::net::SocketAddr;
use lightseal_core::{AddressPair, Engine, Instant, Output, Random};

/// An engine that loses each datagram, received or sent, with a given probability.
#[derive(Debug)]
pub struct Lossy<E> {
    engine: E,
    permille: u32,
    rng: Random,
    traffic: Traffic,
}

/// What passed between the engine and the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Datagrams that arrived, the lost ones among them.
    pub received: u64,
    /// Datagrams that the engine wanted to send, the lost ones among them.
    pub sent: u64,
    /// Lost datagrams of both directions.
    pub lost: u64,
    /// Lost datagrams that the engine wanted to send.
    pub lost_sent: u64,
}

/// Members of a JSON object, without braces.
impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { received, sent, lost, lost_sent } = self;
        write!(
            f,
            "\"received\": {received}, \"sent\": {sent}, \"lost\": {lost}, \
             \"lost_sent\": {lost_sent}"
        )
    }
}

impl<E> Lossy<E> {
    /// Loses `permille` of 1000 datagrams in each direction. The seed decides which.
    pub fn new(engine: E, permille: u32, seed: u64) -> Self {
        Self { engine, permille, rng: Random::insecure(seed), traffic: Traffic::default() }
    }

    /// The engine.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// The numbers of datagrams.
    pub const fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn loses(&mut self) -> bool {
        let loses = self.permille > 0 && self.rng.below(1000) < u64::from(self.permille);
        self.traffic.lost += u64::from(loses);
        loses
    }
}

impl<E> Engine for Lossy<E>
where
    E: for<'a> Engine<Event<'a> = Request> + 'static,
{
    type Event<'a>
        = Request
    where
        Self: 'a;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.handle_datagram_on(now, AddressPair::to(from), datagram);
    }

    fn handle_datagram_on(&mut self, now: Instant, way: AddressPair, datagram: &mut [u8]) {
        self.traffic.received += 1;
        match self.loses() {
            true => self.engine.handle_timeout(now),
            false => self.engine.handle_datagram_on(now, way, datagram),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Request> {
        loop {
            match Step::of(&mut self.engine, buf) {
                Step::Datagram { to, len } => {
                    self.traffic.sent += 1;
                    if !self.loses() {
                        return Step::Datagram { to, len }.output(buf);
                    }
                    self.traffic.lost_sent += 1;
                }
                step => return step.output(buf),
            }
        }
    }
}
