//! An engine whose datagrams an attacker on the path copies, alters and sends ahead of the genuine
//! ones.

use crate::mutate;
use exchange::Request;
use exchange::step::Step;
use lightseal_core::{Engine, Instant, Output, Random};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// The number of past datagrams that are altered and replayed.
const REMEMBERED: usize = 64;

/// The longest altered datagram in bytes: the UDP payload of an Ethernet frame.
const MOST_BYTES: usize = 1472;

/// The attacker's datagrams leave in bursts of this many, so that the receiver's buffer does not
/// overflow before it sees them.
const BURST: u32 = 6;

/// The time between two bursts.
const PAUSE: Duration = Duration::from_millis(1);

/// An engine with such an attacker in front of its peer.
#[derive(Debug)]
pub struct Altering<E> {
    engine: E,
    copies: usize,
    rng: Random,
    past: VecDeque<Vec<u8>>,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    made: u64,
    now: Instant,
    /// The datagrams that may leave before the next pause.
    burst: u32,
    /// When the pause ends.
    resume: Instant,
}

impl<E> Altering<E> {
    /// Sends `copies` datagrams of the attacker ahead of each genuine one.
    pub fn new(engine: E, copies: usize, seed: u64) -> Self {
        let (past, waiting) = (VecDeque::new(), VecDeque::new());
        Self {
            engine,
            copies,
            rng: Random::insecure(seed),
            past,
            waiting,
            made: 0,
            now: Instant::ZERO,
            burst: BURST,
            resume: Instant::ZERO,
        }
    }

    /// The engine.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// The number of datagrams that the attacker has sent.
    pub const fn made(&self) -> u64 {
        self.made
    }

    fn attack(&mut self, to: SocketAddr, genuine: &[u8]) {
        if self.copies > 0 {
            if self.past.len() == REMEMBERED {
                self.past.pop_front();
            }
            self.past.push_back(genuine.to_vec());
        }
        for _ in 0..self.copies {
            let corpus = self.past.make_contiguous();
            let mut datagram = match self.rng.below(8) {
                0 => mutate::noise(&mut self.rng),
                1 => corpus[self.rng.below(corpus.len() as u64) as usize].clone(),
                _ => mutate::altered(&mut self.rng, corpus),
            };
            datagram.truncate(MOST_BYTES);
            self.waiting.push_back((to, datagram));
            self.made += 1;
        }
        self.waiting.push_back((to, genuine.to_vec()));
    }
}

impl<E> Engine for Altering<E>
where
    E: for<'a> Engine<Event<'a> = Request> + 'static,
{
    type Event<'a>
        = Request
    where
        Self: 'a;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.now = now;
        self.engine.handle_datagram(now, from, datagram);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.engine.handle_timeout(now);
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Request> {
        loop {
            if !self.waiting.is_empty() && self.burst == 0 {
                if self.now < self.resume {
                    return Output::WakeAt(self.resume);
                }
                self.burst = BURST;
            }
            if let Some((to, datagram)) = self.waiting.pop_front() {
                if self.copies > 0 {
                    self.burst -= 1;
                    self.resume = self.now + PAUSE;
                }
                let len = datagram.len().min(buf.len());
                buf[..len].copy_from_slice(&datagram[..len]);
                return Step::Datagram { to, len }.output(buf);
            }
            match Step::of(&mut self.engine, buf) {
                Step::Datagram { to, len } => self.attack(to, &buf[..len]),
                step => return step.output(buf),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exchange::{Client, Exchange, Options, Server};
    use lightseal_net::either::Either;
    use lightseal_net::virtual_time::Network;

    #[test]
    fn genuine_payloads_arrive_once_and_nothing_else_does() {
        let attacked = Options {
            handshakes: 20,
            payloads: 8,
            attacked: true,
            deadline: Duration::from_secs(2),
            ..Options::default()
        };
        let addresses: [SocketAddr; 2] =
            ["10.0.0.1:1", "10.0.0.2:2"].map(|text| text.parse().unwrap());
        let mut network = Network::new(1);
        let engine = Client::new(&attacked, addresses[1], Instant::ZERO).unwrap();
        let client = network.add(addresses[0], Either::Left(Altering::new(engine, 8, 5)));
        let server = network.add(addresses[1], Either::Right(Server::new(&attacked).unwrap()));
        let mut is_over = false;
        while !is_over && network.step(|node, _, _| is_over |= node == client) {}
        let (Either::Left(client), Either::Right(server)) =
            (network.engine(client), network.engine(server))
        else {
            panic!("the ends are exchanged");
        };
        let (sent, received) = (client.engine().counters(), server.counters());
        assert!(client.made() > 1000 && sent.completed >= 5, "{} {sent:?}", client.made());
        assert!(client.engine().succeeded(), "{sent:?}");
        assert_eq!((received.alien, received.replayed), (0, 0), "{received:?}");
        assert!(received.delivered >= sent.echoed);
    }
}
