//! CoAP sessions through a tunnel, and what became of them.

use crate::coap::{Server, Tap, put_and_get};
use crate::tunnel::{Report, Tunnel};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// Of the relay, each way.
    pub loss_percent: u8,
    /// What both proxies aggregate with; `None` leaves each record its own tag.
    pub scheme: Option<&'a str>,
    /// Users at a time, each with a resource of their own.
    pub users: usize,
    /// How often each puts and gets it, each time with new clients and another content.
    pub rounds: usize,
    /// Bytes of each content, at most [`crate::coap::MAX_CONTENT`].
    pub bytes: usize,
    /// Of the relay's choices.
    pub seed: u64,
}

/// How often a round is tried. At a tenth of loss and with shared tags one in
/// twenty fails, so that this many in a row do not happen.
const MAX_TRIES: usize = 6;

/// What became of it.
#[derive(Debug)]
pub struct Outcome {
    /// Rounds that never got back what they had put.
    pub wrong: usize,
    /// Rounds that were tried again, with new clients, since one had given up.
    pub tried_again: usize,
    /// CoAP messages that reached the tunnel or came out of it at the client's end.
    pub messages: usize,
    /// Confirmable ones among them that had been there before.
    pub retransmissions: usize,
    /// What the proxies and the relay counted.
    pub report: Report,
}

impl Outcome {
    /// Datagrams that the relay lost, both ways.
    pub fn lost(&self) -> u64 {
        let lost = |direction: &str| self.report.relay[direction]["lost"].as_u64().unwrap_or(0);
        lost("up") + lost("down")
    }
}

impl Trial<'_> {
    /// Runs all users at once and waits for the last.
    ///
    /// # Panics
    /// When a program does not start; libcoap's are in Debian's `libcoap3-bin`.
    pub fn run(&self, folder: &Path) -> Outcome {
        let server = Server::start();
        let tunnel =
            Tunnel::start(server.address(), self.loss_percent, self.scheme, self.seed, folder);
        let tap = Tap::start(tunnel.entrance());
        let tries: Vec<_> = thread::scope(|scope| {
            let start = |user| {
                let at = tap.address();
                scope.spawn(move || -> Vec<Option<usize>> {
                    (0..self.rounds).map(|round| self.round(at, user, round, folder)).collect()
                })
            };
            let users: Vec<_> = (0..self.users).map(start).collect();
            users.into_iter().flat_map(|user| user.join().expect("it ends")).collect()
        });
        Outcome {
            wrong: tries.iter().filter(|tries| tries.is_none()).count(),
            tried_again: tries.iter().filter(|tries| tries.is_some_and(|n| n > 1)).count(),
            messages: tap.messages(),
            retransmissions: tap.retransmissions(),
            report: tunnel.end(),
        }
    }

    /// Puts and gets until the right content comes back: how many times that took.
    fn round(&self, at: SocketAddr, user: usize, round: usize, folder: &Path) -> Option<usize> {
        let content = content(user, round, self.bytes);
        let resource = format!("resource-{user}");
        (1..=MAX_TRIES).find(|_| {
            let back = put_and_get(at, &resource, &content, folder).expect("libcoap3-bin");
            // What is lost is tried again. What comes must have been put, now or before.
            if let Some(back) = &back {
                let put = (0..=round).any(|round| *back == self::content(user, round, self.bytes));
                assert!(put, "altered content for user {user}, round {round}");
            }
            back.as_ref() == Some(&content)
        })
    }
}

/// Different for every user and round.
fn content(user: usize, round: usize, bytes: usize) -> Vec<u8> {
    let line = |at: usize| format!("user {user}, round {round}, line {at}\n").into_bytes();
    (0..).flat_map(line).take(bytes).collect()
}
