//! An engine whose network loses datagrams.

use crate::{Request, step::Step};
use core::net::SocketAddr;
use lightseal_core::{Engine, Instant, Output, Random};

/// An engine that loses each datagram, received or sent, with a given probability.
#[derive(Debug)]
pub struct Lossy<E> {
    engine: E,
    permille: u32,
    rng: Random,
    lost: u64,
}

impl<E> Lossy<E> {
    /// Loses `permille` of 1000 datagrams in each direction. The seed decides which.
    pub fn new(engine: E, permille: u32, seed: u64) -> Self {
        Self { engine, permille, rng: Random::insecure(seed), lost: 0 }
    }

    /// The engine.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// The number of lost datagrams, received and sent ones together.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    fn loses(&mut self) -> bool {
        let loses = self.permille > 0 && self.rng.below(1000) < u64::from(self.permille);
        self.lost += u64::from(loses);
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
        match self.loses() {
            true => self.engine.handle_timeout(now),
            false => self.engine.handle_datagram(now, from, datagram),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Request> {
        loop {
            match Step::of(&mut self.engine, buf) {
                Step::Datagram { .. } if self.loses() => {}
                step => return step.output(buf),
            }
        }
    }
}
