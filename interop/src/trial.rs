//! CoAP exchanges through a tunnel, and their outcome.

use crate::coap::{Server, Tap, put_and_get};
use crate::tunnel::{Report, Tunnel};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

/// The parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The share of datagrams that the relay loses in each direction, in percent.
    pub loss_percent: u8,
    /// The scheme by which both proxies aggregate; `None` for plain tags.
    pub scheme: Option<&'a str>,
    /// Number of concurrent users, each with a resource of its own.
    pub users: usize,
    /// Number of rounds of each user. In a round the user puts and gets its resource, with new
    /// clients and new content.
    pub rounds: usize,
    /// Bytes of each representation, at most [`crate::coap::MAX_CONTENT`].
    pub bytes: usize,
    /// The seed of the relay's random choices.
    pub seed: u64,
}

/// The largest number of tries of a round. At a tenth of loss and with shared tags one try in
/// twenty fails, so that this number of failures in a row does not happen.
const MAX_TRIES: usize = 6;

/// The outcome of a trial.
#[derive(Debug)]
pub struct Outcome {
    /// Rounds that never got back the content that they had put.
    pub wrong: usize,
    /// Rounds that were repeated with new clients because a client had given up.
    pub tried_again: usize,
    /// CoAP messages that entered or left the tunnel at the client's end.
    pub messages: usize,
    /// Confirmable messages that had passed before.
    pub retransmissions: usize,
    /// The statistics of the proxies and the relay.
    pub report: Report,
}

impl Outcome {
    /// Number of datagrams that the relay lost in both directions.
    pub fn lost(&self) -> u64 {
        let lost = |direction: &str| self.report.relay[direction]["lost"].as_u64().unwrap_or(0);
        lost("up") + lost("down")
    }
}

impl Trial<'_> {
    /// Runs all users at once and waits for the last one.
    ///
    /// # Panics
    /// A program does not start; libcoap's programs are in Debian's `libcoap3-bin`.
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

    /// Puts and gets until the right content comes back. Returns the number of tries.
    fn round(&self, at: SocketAddr, user: usize, round: usize, folder: &Path) -> Option<usize> {
        let content = content(user, round, self.bytes);
        let resource = format!("resource-{user}");
        (1..=MAX_TRIES).find(|_| {
            let back = put_and_get(at, &resource, &content, folder).expect("libcoap3-bin");
            // A lost exchange is tried again. Content that comes back must have been put in this or
            // an earlier round.
            if let Some(back) = &back {
                let put = (0..=round).any(|round| *back == self::content(user, round, self.bytes));
                assert!(put, "altered content for user {user}, round {round}");
            }
            back.as_ref() == Some(&content)
        })
    }
}

/// The content of a user's resource in a round, different for every user and round.
fn content(user: usize, round: usize, bytes: usize) -> Vec<u8> {
    let line = |at: usize| format!("user {user}, round {round}, line {at}\n").into_bytes();
    (0..).flat_map(line).take(bytes).collect()
}
