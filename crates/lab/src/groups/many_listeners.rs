//! A sender with many listeners: how much it remembers of them, and how long it computes.

use super::coap;
use super::members::members;
use crate::Error;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use lightseal_core::{Instant, Random};
use lightseal_group::member::{Delivery, RequestKind, Roles};
use lightseal_group::policy::Profile;
use lightseal_group::{Member, SenderId};

/// The window of random times in which responses come, in microseconds for each listener.
const LEISURE_MICROS: u64 = 25_000;

const PORT: u16 = 5684;
const SENDER: SenderId = SenderId(0);

/// A sender and its listeners before their first exchange.
pub struct ManyListeners {
    sender: Member,
    listeners: Vec<Member>,
    random: Random,
}

/// What one request and all its responses took.
#[derive(Clone, Copy, Debug)]
pub struct TransactionCost {
    /// Number of responses that were delivered.
    pub responses: usize,
    /// By how many bytes the sender's heap grew.
    pub heap_bytes: usize,
    /// How long the sender computed.
    pub sender: Duration,
    /// How long all listeners computed in total.
    pub listeners: Duration,
    /// When the last response arrived, in virtual time.
    pub end: Instant,
}

/// The address of a node. Node 0 is the sender.
fn address(node: usize) -> IpAddr {
    let (high, low) = ((node >> 16) as u16, node as u16);
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, high, low).into()
}

fn at(node: usize) -> SocketAddr {
    SocketAddr::new(address(node), PORT)
}

impl ManyListeners {
    /// A group in its first epoch.
    ///
    /// # Errors
    ///
    /// Fails when the engine refuses a member.
    pub fn new(profile: Profile, listeners: usize, seed: u64) -> Result<Self, Error> {
        let mut random = Random::insecure(seed);
        let roles: Vec<_> = (0..=listeners)
            .map(|node| {
                let sender = (node == 0).then_some(SENDER);
                (Roles { sender, listener: node > 0 }, address(node))
            })
            .collect();
        let mut listeners = members(profile, &roles, &mut random)?;
        let sender = listeners.remove(0);
        Ok(Self { sender, listeners, random })
    }

    /// Sends one request, which all listeners answer at random times. `heap` returns the number of
    /// allocated bytes, `clock` how long the processor has computed.
    ///
    /// # Errors
    ///
    /// Fails when a member seals no record or a listener opens no request.
    pub fn transact(
        &mut self,
        heap: impl Fn() -> usize,
        clock: impl Fn() -> Duration,
    ) -> Result<TransactionCost, Error> {
        let silent = Error::Stream("a member seals no record");
        let Self { sender, listeners, random } = self;
        let now = Instant::ZERO;
        let token = random.array();
        let (mut buf, mut began) = ([0; 200], clock());
        let Ok(len) = sender.request(now, &coap::request(1, token), &mut buf) else {
            return Err(silent);
        };
        let request = buf[..len].to_vec();
        let mut worked = clock() - began;
        let leisure = LEISURE_MICROS * listeners.len() as u64;
        let mut responses = Vec::with_capacity(listeners.len());
        began = clock();
        for (index, listener) in listeners.iter_mut().enumerate() {
            let when = Instant::from_micros(random.below(leisure));
            let mut answer = None;
            listener.receive_multicast(now, at(0), &mut request.clone(), |delivery| {
                if let Delivery::Request { content, .. } = delivery {
                    answer = coap::response(content, index as u16);
                }
            });
            let answer = answer.ok_or(Error::Stream("a listener opens no request"))?;
            let kind = RequestKind::Group;
            let Ok((_, len)) = listener.respond(when, SENDER, kind, &answer, &mut buf) else {
                return Err(silent);
            };
            responses.push((when, at(1 + index), buf[..len].to_vec()));
        }
        let listening = clock() - began;
        responses.sort_by_key(|(when, from, _)| (*when, *from));
        let mut delivered = 0;
        let before = heap();
        began = clock();
        for (when, from, datagram) in &mut responses {
            sender.receive_unicast(*when, *from, datagram, |delivery| {
                if let Delivery::Response { content, .. } = delivery {
                    delivered += usize::from(coap::token_of_response(content) == Some(token));
                }
            });
        }
        worked += clock() - began;
        Ok(TransactionCost {
            responses: delivered,
            heap_bytes: heap().saturating_sub(before),
            sender: worked,
            listeners: listening,
            end: responses.last().map_or(now, |(when, ..)| *when),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_responses_of_a_crowd_are_taken() {
        for profile in Profile::ALL {
            let mut crowd = ManyListeners::new(*profile, 300, 1).unwrap();
            let taken = crowd.transact(|| 0, || Duration::ZERO).unwrap();
            assert_eq!(taken.responses, 300, "{profile}");
            assert!(taken.end > Instant::from_micros(LEISURE_MICROS * 200));
        }
    }
}
