//! Flows: what both ends of a tunnel know of frames that follow each other, so that their
//! headers need not travel (the paper's section 4.2 and Table 1).
//!
//! A flow is what one MACsec association sends to one destination, by way of one peer. Its
//! sender numbers it and registers it over the management channel; once the peer has
//! acknowledged it, frames go in short. [`uplink`] is the sender's side, [`downlink`] the
//! receiver's; [`Flows`] has both, and speaks to the [`Flows`] at the other end.
//!
//! | the paper's Table 1 | here |
//! |---|---|
//! | flow table entry uplink, key SCI ∣ SA | [`uplink`]: association by [`SaKey`]; its flows, one a destination (the broadcast address too) and remote gateway, each with bidf and timeout |
//! | flow table entry downlink, key bidf | [`downlink`]: flow by peer and number, with its header ([`Template`]), window and bidf |
//! | bound | flows of one association share the next expected PN; their windows move together |
//! | identifier table, key ridf | [`downlink`]: ridf to flow and PN; an entry goes when its frame was seen |

pub mod derivation;
pub mod downlink;
pub mod messages;
mod template;
pub mod uplink;

pub use derivation::{Derivation, Rotating};
pub use messages::BaseIdentifier;
pub use template::{SaKey, Template};

use crate::bridge::PeerIndex;
use crate::counters::Reason;
use crate::lock;
use crate::tuning::{DROPS_A_TICK, SWEEP};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use downlink::Downlink;
use macsec::Header;
use messages::{Beacon, Message};
use parking_lot::MutexGuard;
use std::collections::VecDeque;
use std::sync::Mutex;
use uplink::{Uplink, Way};
use vocabulary::{Decode, DecodeError, Instant, Random};

/// Numbers of flows are below this: they travel in three bytes.
pub const NUMBERS: u32 = 1 << 24;

/// How many flows there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows that are sent, in all. One that goes to several peers counts once for each.
    pub flows: usize,
    /// Of these, to one peer.
    pub flows_a_peer: usize,
    /// Of these, of one source address.
    pub flows_a_source: usize,
    /// Of these, of one SCI.
    pub flows_an_sci: usize,
    /// New ones a second.
    pub new_a_second: u32,
    /// New ones at once.
    pub burst: u32,
    /// A flow that was silent for so long is forgotten.
    pub timeout: Duration,
    /// The same for one whose destination never sent anything back.
    pub probation: Duration,
    /// Flows that all peers may register here.
    pub received: usize,
    /// Flows that one peer may register here.
    pub received_a_peer: usize,
    /// Identifiers that are looked ahead for and behind, of all flows that are received: up to
    /// some 50 bytes each, as their table doubles when it is nearly full.
    pub identifiers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 4096,
            flows_a_peer: 2048,
            flows_a_source: 256,
            flows_an_sci: 256,
            new_a_second: 200,
            burst: 1000,
            timeout: Duration::from_secs(300),
            probation: Duration::from_secs(15),
            received: 4096,
            received_a_peer: 2048,
            identifiers: 1 << 20,
        }
    }
}

/// What a scheme needs of flows.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Whether a flow is of one AN only.
    pub an: bool,
    /// Whether it follows packet numbers.
    pub follows: bool,
    /// How identifiers derive, in schemes that have them.
    pub derivation: Option<Derivation>,
    /// Identifiers ahead of the highest packet number that are recognised.
    pub ahead: u64,
    /// The same behind.
    pub behind: u64,
    /// Whether the sender tells how far packet numbers are.
    pub beacons: bool,
}

/// Flows in both directions.
#[derive(Debug)]
pub struct Flows {
    needs: Needs,
    uplink: Uplink,
    /// Fair where work is long: frames wait for the same lock.
    downlink: parking_lot::Mutex<Downlink>,
    outbox: Mutex<VecDeque<(PeerIndex, Message)>>,
    acknowledged: AtomicU64,
    /// The time when it was last told, in microseconds.
    clock: AtomicU64,
    /// When silent flows were last looked for, in microseconds.
    swept_at: AtomicU64,
}

impl Flows {
    /// None yet.
    pub fn new(needs: Needs, limits: Limits, random: &mut Random, now: Instant) -> Self {
        Self {
            needs,
            uplink: Uplink::new(needs, limits, random, now),
            downlink: parking_lot::Mutex::new(Downlink::new(needs, limits, random)),
            outbox: Mutex::new(VecDeque::new()),
            acknowledged: AtomicU64::new(0),
            clock: AtomicU64::new(now.as_micros()),
            swept_at: AtomicU64::new(now.as_micros()),
        }
    }

    /// What the scheme needs of flows.
    pub const fn needs(&self) -> &Needs {
        &self.needs
    }

    /// How a frame with this header goes to `peer`. One of a flow that is new is registered.
    pub fn way(&self, now: Instant, peer: PeerIndex, header: &Header) -> Way {
        self.uplink.way(now, peer, header, &mut |peer, message| self.say(peer, message))
    }

    /// Whether a frame with this header would go in short now; if not, its flow is registered.
    pub fn is_known_now(&self, peer: PeerIndex, header: &Header) -> bool {
        let known = self.is_known(peer, header);
        if !known {
            self.way(self.last_told(), peer, header);
        }
        known
    }

    /// Whether a frame with this header would go in short now; nothing changes.
    pub fn is_known(&self, peer: PeerIndex, header: &Header) -> bool {
        self.uplink.is_known(peer, header)
    }

    /// How often a peer acknowledged a flow; where it grew, frames that were held may go.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// What is received: to look up, and to note.
    pub fn downlink(&self) -> impl core::ops::DerefMut<Target = Downlink> {
        self.downlink.lock()
    }

    fn say(&self, peer: PeerIndex, message: Message) {
        lock(&self.outbox).push_back((peer, message));
    }

    /// Takes what `peer` says of flows.
    ///
    /// # Errors
    /// Where it makes no sense.
    pub fn handle_message(
        &self,
        now: Instant,
        peer: PeerIndex,
        bytes: &[u8],
    ) -> Result<(), DecodeError> {
        match Message::decode(bytes)? {
            Message::Register(register) => {
                if register.secret.is_some() != self.needs.derivation.is_some() {
                    return Err(DecodeError::Invalid("flow with the secret of another scheme"));
                }
                let number = register.number;
                let took = self.downlink.lock().register(now, peer, register)?;
                catch_up(&mut self.downlink.lock());
                let answer = if took { Message::Acknowledge } else { Message::Refuse };
                self.say(peer, answer(number));
            }
            Message::Acknowledge(number) => {
                self.uplink.handle_answer(now, peer, number, true);
                self.acknowledged.fetch_add(1, Ordering::Release);
            }
            Message::Refuse(number) => self.uplink.handle_answer(now, peer, number, false),
            Message::Remove(number) => self.downlink.lock().remove(peer, number),
        }
        Ok(())
    }

    /// The next message for a peer.
    pub fn poll_message(&self) -> Option<(PeerIndex, Vec<u8>)> {
        let said = lock(&self.outbox).pop_front();
        let (peer, message) = said.or_else(|| {
            let (peer, number) = self.downlink.lock().poll_refused()?;
            Some((peer, Message::Refuse(number)))
        })?;
        Some((peer, message.to_vec()))
    }

    /// The next beacon for a peer.
    pub fn poll_beacon(&self) -> Option<(PeerIndex, Vec<u8>)> {
        self.uplink.poll_beacon().map(|(peer, beacon)| (peer, beacon.to_vec()))
    }

    /// Takes a beacon of `peer`, which is authentic.
    pub fn handle_beacon(&self, now: Instant, peer: PeerIndex, content: &[u8]) {
        let Ok(Beacon(entries)) = Beacon::decode(content) else { return };
        let mut downlink = self.downlink.lock();
        for (number, pn) in entries {
            downlink.advance_to(now, peer, number, pn);
            MutexGuard::bump(&mut downlink);
            catch_up(&mut downlink);
        }
    }

    /// A frame of `peer` with this header came sealed: identifiers go on from there.
    pub fn hear(&self, peer: PeerIndex, header: &Header) {
        let now = self.last_told();
        let mut downlink = self.downlink.lock();
        downlink.hear(now, peer, header);
        catch_up(&mut downlink);
    }

    /// As [`Downlink::take`].
    ///
    /// # Errors
    /// The same.
    pub fn take(
        &self,
        now: Instant,
        ridf: [u8; 8],
        clear: [u8; 2],
        rest: usize,
    ) -> Result<(PeerIndex, Header), (Option<PeerIndex>, Reason)> {
        let mut downlink = self.downlink.lock();
        let lagged = downlink.lags();
        let taken = downlink.take(now, ridf, clear, rest);
        match taken {
            Err((_, Reason::UnknownIdentifier)) if lagged => {
                // Its window may be among those that lag.
                catch_up(&mut downlink);
                downlink.take(now, ridf, clear, rest)
            }
            _ => {
                // Whoever had them lag sees to that.
                if !lagged {
                    catch_up(&mut downlink);
                }
                taken
            }
        }
    }

    fn last_told(&self) -> Instant {
        Instant::from_micros(self.clock.load(Ordering::Relaxed))
    }

    /// The management channel to `peer` is new: flows are registered anew as their frames come,
    /// and those of the peer are known for a while yet.
    pub fn restart(&self, now: Instant, peer: PeerIndex) {
        lock(&self.outbox).retain(|(to, _)| *to != peer);
        self.uplink.restart(peer);
        self.downlink.lock().restart(now, peer);
    }

    /// Makes beacons due, lets some flows go that are of channels that are no more, and once a
    /// second those that were silent for too long.
    pub fn handle_timeout(&self, now: Instant) {
        self.clock.store(now.as_micros(), Ordering::Relaxed);
        self.uplink.make_due();
        // A few at a time: frames wait for the same lock.
        let mut downlink = self.downlink.lock();
        for _ in 0..DROPS_A_TICK {
            if !downlink.expire(now) {
                break;
            }
            MutexGuard::bump(&mut downlink);
        }
        drop(downlink);
        let swept_at = Instant::from_micros(self.swept_at.load(Ordering::Relaxed));
        if now - swept_at < SWEEP {
            return;
        }
        self.swept_at.store(now.as_micros(), Ordering::Relaxed);
        let answered = |header: &Header| self.downlink.lock().answers(header);
        self.uplink
            .expire(now, &answered, &mut |peer, number| self.say(peer, Message::Remove(number)));
    }

    /// Flows that are sent, and that are received.
    pub fn count(&self) -> (usize, usize) {
        (self.uplink.len(), self.downlink.lock().len())
    }
}

/// Moves all windows to where they should be, step by step: frames have their turn between two.
fn catch_up(downlink: &mut MutexGuard<'_, Downlink>) {
    while downlink.lags() {
        downlink.catch_up();
        MutexGuard::bump(downlink);
    }
}
