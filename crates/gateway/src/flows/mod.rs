//! Flows: state that both ends of a tunnel keep for frames with a common header, so that the header
//! need not be sent with each frame (the paper's section 4.2 and Table 1).
//!
//! A flow is the sequence of frames that one MACsec association sends to one destination through
//! one peer gateway. The sending gateway numbers the flow and registers it over the management
//! channel. Once the peer has acknowledged it, its frames are sent in short form. [`uplink`] is the
//! sender's side, [`downlink`] the receiver's side. [`Flows`] has both, and exchanges messages with
//! the [`Flows`] of the other gateway.
//!
//! | the paper's Table 1 | here |
//! |---|---|
//! | flow table entry uplink, key SCI ∣ SA | [`uplink`]: association by [`AssociationId`]; its flows, one a destination (the broadcast address too) and remote gateway, each with bidf and timeout |
//! | flow table entry downlink, key bidf | [`downlink`]: flow by peer and number, with its header ([`Template`]), window and bidf |
//! | bound | flows of one association share the next expected PN; their windows move together |
//! | identifier table, key ridf | [`downlink`]: ridf to flow and PN; an entry is removed when its frame has arrived |

pub mod derivation;
pub mod downlink;
pub mod messages;
mod template;
pub mod uplink;

pub use derivation::{Derivation, Rotating, keyed};
pub use messages::BaseIdentifier;
pub use template::{AssociationId, Template};

pub use crate::codepoints::FLOW_NUMBERS;
use crate::config::ConfigError;
pub use crate::config::FlowLimits;
use crate::counters::Reason;
use crate::lock;
use crate::peer_set::PeerIndex;
use crate::tuning::{DROP_STEPS_PER_TICK, SWEEP_INTERVAL};
use core::sync::atomic::{AtomicU64, Ordering};
use downlink::Downlink;
use lightseal_core::{Decode, DecodeError, Instant, Random};
use lightseal_macsec::Header;
use messages::{Beacon, Message};
use parking_lot::MutexGuard;
use std::collections::VecDeque;
use std::sync::Mutex;
use uplink::{SendForm, Uplink};

/// What a scheme requires of its flows; the default is flows without identifiers.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct FlowOptions {
    /// Whether a flow has one AN only: a new AN is a new flow.
    pub an: bool,
    /// Whether the flow follows packet numbers, that is extends them to 64 bits.
    pub follows: bool,
    /// How identifiers are derived, in schemes that have them.
    pub derivation: Option<Derivation>,
    /// How many packet numbers ahead of the highest one have identifiers in the receiver's table.
    pub ahead: u64,
    /// How many packet numbers behind the highest one have identifiers in the receiver's table.
    pub behind: u64,
    /// Whether the sender reports its highest packet numbers in beacons.
    pub beacons: bool,
}

/// The flows in both directions.
#[derive(Debug)]
pub struct Flows {
    options: FlowOptions,
    uplink: Uplink,
    /// A fair lock: work on the table can be long, and frames wait for the lock.
    downlink: parking_lot::Mutex<Downlink>,
    messages: Mutex<VecDeque<(PeerIndex, Message)>>,
    acknowledged: AtomicU64,
    /// The time of the last call of `handle_timeout`, in microseconds.
    ticked_at: AtomicU64,
    /// When idle flows were last searched for, in microseconds.
    swept_at: AtomicU64,
}

impl Flows {
    /// Creates empty tables.
    ///
    /// # Errors
    /// If the limits are invalid, or the identifiers of a flow do not fit them.
    pub fn new(
        options: FlowOptions,
        limits: FlowLimits,
        random: &mut Random,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        limits.check()?;
        if options.derivation.is_some() {
            limits.check_window(options.ahead, options.behind)?;
        }
        Ok(Self {
            options,
            uplink: Uplink::new(options, limits, random, now),
            downlink: parking_lot::Mutex::new(Downlink::new(options, limits, random)),
            messages: Mutex::new(VecDeque::new()),
            acknowledged: AtomicU64::new(0),
            ticked_at: AtomicU64::new(now.as_micros()),
            swept_at: AtomicU64::new(now.as_micros()),
        })
    }

    /// What the scheme requires of flows.
    pub const fn options(&self) -> &FlowOptions {
        &self.options
    }

    /// How a frame with this header is to be sent to `peer`. If its flow is new, it is registered.
    pub fn send_form(&self, now: Instant, peer: PeerIndex, header: &Header) -> SendForm {
        self.uplink
            .send_form(now, peer, header, &mut |peer, message| self.queue_message(peer, message))
    }

    /// Whether a frame with this header could be sent in short form now; if not, its flow is
    /// registered.
    pub fn is_known_or_register(&self, peer: PeerIndex, header: &Header) -> bool {
        let known = self.is_known(peer, header);
        if !known {
            self.send_form(self.last_tick(), peer, header);
        }
        known
    }

    /// Whether a frame with this header could be sent in short form now. Changes nothing.
    pub fn is_known(&self, peer: PeerIndex, header: &Header) -> bool {
        self.uplink.is_known(peer, header)
    }

    /// How many acknowledgements of flows have arrived. When the count has grown, frames that were
    /// held may be ready.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Locks the table of flows that are received.
    pub fn downlink(&self) -> impl core::ops::DerefMut<Target = Downlink> {
        self.downlink.lock()
    }

    fn queue_message(&self, peer: PeerIndex, message: Message) {
        lock(&self.messages).push_back((peer, message));
    }

    /// Handles a message of `peer` about flows.
    ///
    /// # Errors
    /// If the message is malformed or does not fit the scheme.
    pub fn handle_message(
        &self,
        now: Instant,
        peer: PeerIndex,
        bytes: &[u8],
    ) -> Result<(), DecodeError> {
        match Message::decode(bytes)? {
            Message::Register(register) => {
                if register.secret.is_some() != self.options.derivation.is_some() {
                    return Err(DecodeError::invalid(
                        "flow: base identifier missing or unexpected",
                    ));
                }
                let number = register.number;
                let took = self.downlink.lock().register(now, peer, register)?;
                move_all_lagging_windows(&mut self.downlink.lock());
                let answer = if took { Message::Acknowledge } else { Message::Refuse };
                self.queue_message(peer, answer(number));
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

    /// The next message that is to be sent to a peer.
    pub fn poll_message(&self) -> Option<(PeerIndex, Vec<u8>)> {
        let said = lock(&self.messages).pop_front();
        let (peer, message) = said.or_else(|| {
            let (peer, number) = self.downlink.lock().poll_refused()?;
            Some((peer, Message::Refuse(number)))
        })?;
        Some((peer, message.to_vec()))
    }

    /// The next beacon that is to be sent to a peer.
    pub fn poll_beacon(&self) -> Option<(PeerIndex, Vec<u8>)> {
        self.uplink.poll_beacon().map(|(peer, beacon)| (peer, beacon.to_vec()))
    }

    /// Handles a beacon of `peer`, which is authentic.
    pub fn handle_beacon(&self, now: Instant, peer: PeerIndex, content: &[u8]) {
        let Ok(Beacon(entries)) = Beacon::decode(content) else { return };
        let mut downlink = self.downlink.lock();
        for (number, pn) in entries {
            downlink.advance_to(now, peer, number, pn);
            MutexGuard::bump(&mut downlink);
            move_all_lagging_windows(&mut downlink);
        }
    }

    /// A frame of `peer` with this header arrived sealed. The expected identifiers move on to the
    /// packet numbers after it.
    pub fn note_sealed_frame(&self, peer: PeerIndex, header: &Header) {
        let now = self.last_tick();
        let mut downlink = self.downlink.lock();
        downlink.note_sealed_frame(now, peer, header);
        move_all_lagging_windows(&mut downlink);
    }

    /// Finds the frame of an identifier, see [`Downlink::take_identifier`].
    ///
    /// # Errors
    /// As for [`Downlink::take_identifier`].
    pub fn take_identifier(
        &self,
        now: Instant,
        ridf: [u8; 8],
        clear: [u8; 2],
        rest: usize,
    ) -> Result<(PeerIndex, Header), (Option<PeerIndex>, Reason)> {
        let mut downlink = self.downlink.lock();
        let lagged = downlink.has_lagging_windows();
        let taken = downlink.take_identifier(now, ridf, clear, rest);
        match taken {
            Err((_, Reason::UnknownIdentifier)) if lagged => {
                // The identifier may belong to a window that lags behind.
                move_all_lagging_windows(&mut downlink);
                downlink.take_identifier(now, ridf, clear, rest)
            }
            _ => {
                // The thread that made the windows lag moves them on.
                if !lagged {
                    move_all_lagging_windows(&mut downlink);
                }
                taken
            }
        }
    }

    fn last_tick(&self) -> Instant {
        Instant::from_micros(self.ticked_at.load(Ordering::Relaxed))
    }

    /// The management channel to `peer` is new. Flows to the peer are registered anew with their
    /// next frames; flows from the peer stay known for a while.
    pub fn restart(&self, now: Instant, peer: PeerIndex) {
        lock(&self.messages).retain(|(to, _)| *to != peer);
        self.uplink.restart(peer);
        self.downlink.lock().restart(now, peer);
    }

    /// Makes beacons due, removes some flows of closed management channels, and once a second those
    /// flows that were idle for too long. To be called about ten times a second.
    pub fn handle_timeout(&self, now: Instant) {
        self.ticked_at.store(now.as_micros(), Ordering::Relaxed);
        self.uplink.make_due();
        // A few flows at a time, since frames wait for the same lock.
        let mut downlink = self.downlink.lock();
        for _ in 0..DROP_STEPS_PER_TICK {
            if !downlink.expire(now) {
                break;
            }
            MutexGuard::bump(&mut downlink);
        }
        drop(downlink);
        let swept_at = Instant::from_micros(self.swept_at.load(Ordering::Relaxed));
        if now - swept_at < SWEEP_INTERVAL {
            return;
        }
        self.swept_at.store(now.as_micros(), Ordering::Relaxed);
        let answered = |header: &Header| self.downlink.lock().has_return_traffic(header);
        self.uplink.expire(now, &answered, &mut |peer, number| {
            self.queue_message(peer, Message::Remove(number));
        });
    }

    /// How many flows are sent and how many are received.
    pub fn count(&self) -> (usize, usize) {
        (self.uplink.len(), self.downlink.lock().len())
    }
}

/// Moves all windows to their positions, step by step. Between two steps, frames that wait for the
/// lock get it.
fn move_all_lagging_windows(downlink: &mut MutexGuard<'_, Downlink>) {
    while downlink.has_lagging_windows() {
        downlink.move_lagging_windows();
        MutexGuard::bump(downlink);
    }
}
