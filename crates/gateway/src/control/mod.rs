//! The control path of a gateway, sans I/O: key agreement, flows, keepalives and path probing.
//!
//! A host tells [`Control`] when the management channel to a peer is up and which messages arrive,
//! and asks for what is to be done ([`Control::poll`]). The gateway with the lower identity
//! proposes new keys. Each gateway opens with the new keys before the other one seals with them, so
//! a change of keys loses no frames:
//!
//! ```text
//! leader                              follower
//!   | Propose (epoch, nonce, index)      |
//!   |----------------------------------->| opens with the new keys from here on
//!   |      Answer (epoch, nonce, index)  |
//!   |<-----------------------------------|
//!   | opens and seals with them          |
//!   | Ready (epoch)                      |
//!   |----------------------------------->| seals with them
//! ```
//!
//! Without a management channel a link continues with its keys until these are used up. If the
//! channel is lost before Ready arrives, the first datagram under the new keys has the same effect
//! as Ready.

pub mod messages;
mod probing;

use crate::claims::ClaimQueries;
use crate::codepoints::EncryptedContent;
use crate::config::ConfigError;
pub use crate::config::Timing;
use crate::gateway::Gateway;
use crate::keys::{DirectionSecret, EpochSecret, GatewayId};
use crate::link::{Inbound, Link, Outbound};
use crate::notices::Notice;
use crate::peer_set::PeerIndex;
use crate::schemes::SchemeCode;
use crate::stations::Station;
use crate::tuning::OLD_KEY_LIFETIME;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use lightseal_core::{Decode, DecodeError, Instant, Random};
use lightseal_macsec::crypto::GcmProvider;
use messages::{Hello, Message, Offer, VERSION};
use probing::{PathActivity, PathMtuSearch};
use std::collections::VecDeque;
use std::sync::Arc;
use zeroize::Zeroizing;

/// An action for the host.
#[derive(PartialEq, Eq)]
pub enum Output {
    /// Send this message over the management channel. If that fails, the channel has to be closed:
    /// the messages on a new channel establish all state again.
    Message(PeerIndex, Zeroizing<Vec<u8>>),
    /// Send this message over the management channel, unless many messages wait there already: an
    /// MKA frame may be lost, as on a LAN.
    Mka(PeerIndex, Vec<u8>),
    /// Seal this content for the peer and send it ([`Gateway::dispatch_content`]).
    Datagram(PeerIndex, EncryptedContent, Vec<u8>),
    /// Put this frame on the LAN.
    Frame(Vec<u8>),
    /// Close the management channel, since a message of the peer is invalid.
    Close(PeerIndex, DecodeError),
    /// Report this event.
    Event(Event),
}

/// An event that may be worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Frames can be sent to the peer, with the keys of this epoch.
    Up(PeerIndex, u32),
    /// The peer is configured with this scheme, which is not ours, or speaks this version.
    Incompatible(PeerIndex, SchemeCode, u8),
    /// The path to the peer carries IP packets of this many bytes.
    Mtu(PeerIndex, usize),
    /// The peer no longer answers what is sent to it through the tunnel.
    Unanswered(PeerIndex),
    /// The peer answers again what is sent to it through the tunnel.
    Answered(PeerIndex),
    /// Another gateway is on this LAN.
    SecondGateway(GatewayId),
}

impl fmt::Debug for Output {
    /// Shows only the lengths of messages, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = |f: &mut fmt::Formatter<'_>, name, peer: &PeerIndex, len: usize| {
            f.debug_tuple(name).field(peer).field(&len).finish()
        };
        match self {
            Self::Message(peer, bytes) => message(f, "Message", peer, bytes.len()),
            Self::Mka(peer, bytes) => message(f, "Mka", peer, bytes.len()),
            Self::Datagram(peer, kind, content) => {
                f.debug_tuple("Datagram").field(peer).field(kind).field(content).finish()
            }
            Self::Frame(frame) => f.debug_tuple("Frame").field(frame).finish(),
            Self::Close(peer, error) => f.debug_tuple("Close").field(peer).field(error).finish(),
            Self::Event(event) => f.debug_tuple("Event").field(event).finish(),
        }
    }
}

/// The state of the management channel to one peer.
#[derive(Debug, Default)]
struct Channel {
    /// The secret that was exported from the channel; `None` while the channel is down.
    exported: Option<Zeroizing<[u8; 32]>>,
    /// Whether the peer's Hello has arrived.
    hello_received: bool,
    /// The last epoch whose keys were agreed on; 0 before the first.
    epoch: u32,
    agreement: KeyAgreement,
    /// Keys that were answered on lost channels, the newest last. The proposer may seal with any of
    /// them.
    answered_on_lost_channels: VecDeque<Answered>,
    /// When new keys are due.
    rekey_at: Option<Instant>,
    /// Whether the proposer was asked for new keys.
    rekey_requested: bool,
    /// When the next keepalive is due.
    keepalive_at: Option<Instant>,
    mtu_search: PathMtuSearch,
    /// The MTU that was reported last.
    reported_mtu: usize,
    /// The peer's IP address, and the number of frames that were sent to it, at the time of the
    /// last probe.
    probed: (Option<IpAddr>, u64),
}

/// The state of the agreement on an epoch.
#[derive(Debug, Default)]
enum KeyAgreement {
    #[default]
    Idle,
    /// This gateway has proposed keys, and has no answer yet.
    Proposed(Offer),
    /// This gateway has answered, and the proposer is not ready yet.
    Answered(Answered),
}

/// Keys that open datagrams, but do not seal yet.
#[derive(Debug)]
struct Answered {
    epoch: u32,
    index: u32,
    outbound: Arc<Outbound>,
}

/// The control path of a gateway, for all its links.
#[derive(Debug)]
pub struct Control {
    gateway: Arc<Gateway>,
    provider: &'static GcmProvider,
    random: Random,
    timing: Timing,
    channels: Vec<Channel>,
    claim_queries: ClaimQueries,
    announce_at: Instant,
    outputs: VecDeque<Output>,
}

/// How many answered keys of lost channels are kept until an agreement is complete: several
/// channels may be lost in succession.
const MAX_ANSWERED: usize = 4;
/// Interval between two calls of [`Control::handle_timeout`].
const TICK_INTERVAL: Duration = Duration::from_millis(100);

impl Control {
    /// Creates the control path of `gateway`, whose keys are for the cipher of `provider`.
    ///
    /// # Errors
    /// If an interval of `timing` is too short.
    pub fn new(
        gateway: Arc<Gateway>,
        provider: &'static GcmProvider,
        timing: Timing,
        random: Random,
    ) -> Result<Self, ConfigError> {
        timing.validate()?;
        let channel = |link: &Link| Channel {
            mtu_search: if timing.probe {
                PathMtuSearch::default()
            } else {
                PathMtuSearch::configured(link.mtu())
            },
            ..Channel::default()
        };
        let channels = gateway.links().iter().map(channel).collect();
        let (announce_at, outputs) = (Instant::ZERO, VecDeque::new());
        let claim_queries = ClaimQueries::default();
        Ok(Self {
            gateway,
            provider,
            random,
            timing,
            channels,
            claim_queries,
            announce_at,
            outputs,
        })
    }

    /// The management channel to `peer` is up. `exported` is the value that both ends export from
    /// it with the label [`EXPORTER`].
    ///
    /// [`EXPORTER`]: crate::codepoints::EXPORTER
    pub fn handle_up(&mut self, _now: Instant, peer: PeerIndex, exported: Zeroizing<[u8; 32]>) {
        self.discard_channel_state(peer);
        let Some(channel) = self.channels.get_mut(usize::from(peer.0)) else { return };
        let Channel {
            mtu_search: mut search,
            reported_mtu,
            probed,
            answered_on_lost_channels: answered,
            ..
        } = core::mem::take(channel);
        // The path was down for a while, or is another one.
        search.restart();
        let exported = Some(exported);
        *channel = Channel {
            exported,
            mtu_search: search,
            reported_mtu,
            probed,
            answered_on_lost_channels: answered,
            ..Channel::default()
        };
        let hello = Hello { version: VERSION, scheme: self.gateway.scheme().code() };
        self.queue_message(peer, &Message::Hello(hello));
    }

    /// The management channel to `peer` is down. Frames are sent with the present keys.
    pub fn handle_down(&mut self, _now: Instant, peer: PeerIndex) {
        self.discard_channel_state(peer);
        if let Some(channel) = self.channels.get_mut(usize::from(peer.0)) {
            channel.exported = None;
            channel.hello_received = false;
        }
    }

    /// Handles a message of `peer`. An invalid message closes the channel, and messages behind it
    /// on the old channel are ignored.
    pub fn handle_message(&mut self, now: Instant, peer: PeerIndex, bytes: &[u8]) {
        if self.channel(peer).is_ok_and(|channel| channel.exported.is_none()) {
            return;
        }
        let done = Message::decode(bytes).and_then(|message| self.handle(now, peer, message));
        if let Err(error) = done {
            self.handle_down(now, peer);
            self.outputs.push_back(Output::Close(peer, error));
        }
    }

    fn handle(
        &mut self,
        now: Instant,
        peer: PeerIndex,
        message: Message<'_>,
    ) -> Result<(), DecodeError> {
        let is_leader = self.is_leader(peer);
        let channel = self.channel(peer)?;
        // A second Hello would start a proposal during another one.
        if channel.hello_received == matches!(message, Message::Hello(_)) {
            return Err(DecodeError::invalid("message order: Hello comes first, and once"));
        }
        match (message, is_leader) {
            (Message::Hello(hello), _) => {
                let ours = self.gateway.scheme().code();
                if hello.scheme != ours || hello.version != VERSION {
                    let event = Event::Incompatible(peer, hello.scheme, hello.version);
                    self.outputs.push_back(Output::Event(event));
                    return Err(DecodeError::invalid(
                        "scheme: the peer is configured with another one",
                    ));
                }
                self.channel(peer)?.hello_received = true;
                // Not earlier: messages of the scheme are not sent before Hello has arrived.
                self.gateway.scheme().restart(now, peer);
                if is_leader {
                    self.propose(peer)?;
                }
                Ok(())
            }
            (Message::Propose(offer), false) => self.answer(now, peer, &offer),
            (Message::Answer(offer), true) => self.agree(now, peer, &offer),
            (Message::Ready(epoch), false) => self.ready(now, peer, epoch),
            (Message::Rekey, true) => match channel.agreement {
                KeyAgreement::Idle => self.propose(peer),
                _ => Ok(()),
            },
            (Message::Scheme(content), _) => {
                self.gateway.scheme().handle_message(now, peer, content)
            }
            (Message::Mka(frame), _) => {
                if self.gateway.accepts_mka(now, frame) {
                    self.outputs.push_back(Output::Frame(frame.to_vec()));
                }
                Ok(())
            }
            _ => Err(DecodeError::invalid("message for the role of this gateway")),
        }
    }

    /// Discards messages for a channel that is closed, and an incomplete agreement. If this gateway
    /// has answered a proposal, its keys are kept: the peer may seal with them already.
    fn discard_channel_state(&mut self, peer: PeerIndex) {
        let of_it = |output: &Output| matches!(output, Output::Message(to, _) | Output::Mka(to, _) if *to == peer);
        self.outputs.retain(|output| !of_it(output));
        let Ok(channel) = self.channel(peer) else { return };
        let KeyAgreement::Answered(answered) = core::mem::take(&mut channel.agreement) else {
            return;
        };
        channel.answered_on_lost_channels.push_back(answered);
        if channel.answered_on_lost_channels.len() > MAX_ANSWERED
            && let Some(oldest) = channel.answered_on_lost_channels.pop_front()
        {
            self.gateway.links().remove(oldest.index);
        }
    }

    /// Seals with keys that were answered on a lost channel, as soon as the peer seals with them.
    fn adopt_answered_keys(&mut self, now: Instant, peer: PeerIndex) -> Result<(), DecodeError> {
        let gateway = Arc::clone(&self.gateway);
        let channel = self.channel(peer)?;
        let is_used = |answered: &Answered| gateway.links().is_used(answered.index);
        let Some(newest) = channel.answered_on_lost_channels.iter().rposition(is_used) else {
            return Ok(());
        };
        // Keys that were answered later may have been agreed on as well.
        let answered = channel.answered_on_lost_channels.drain(..=newest).next_back();
        answered.map_or(Ok(()), |answered| self.activate_keys(now, peer, answered))
    }

    /// Whether this gateway proposes keys, rather than the peer.
    fn is_leader(&self, peer: PeerIndex) -> bool {
        let ours = self.gateway.settings().id;
        self.gateway.links().get(peer).is_some_and(|link| ours < link.id())
    }

    fn propose(&mut self, peer: PeerIndex) -> Result<(), DecodeError> {
        let index = self.gateway.links().free_index(&mut self.random);
        let nonce = self.random.array();
        let channel = self.channel(peer)?;
        let offer = Offer { epoch: channel.epoch.wrapping_add(1), nonce, index };
        channel.agreement = KeyAgreement::Proposed(offer);
        self.queue_message(peer, &Message::Propose(offer));
        Ok(())
    }

    fn answer(&mut self, now: Instant, peer: PeerIndex, theirs: &Offer) -> Result<(), DecodeError> {
        self.adopt_answered_keys(now, peer)?;
        let channel = self.channel(peer)?;
        // A proposer that proposes again without Ready has not received the answer.
        if let KeyAgreement::Answered(Answered { index, .. }) =
            core::mem::take(&mut channel.agreement)
        {
            self.gateway.links().remove(index);
        }
        let index = self.gateway.links().free_index(&mut self.random);
        let nonce = self.random.array();
        let channel = self.channel(peer)?;
        if theirs.epoch != channel.epoch.wrapping_add(1) {
            return Err(DecodeError::invalid("epoch"));
        }
        let exported = channel.exported.as_ref().ok_or(DecodeError::invalid("channel"))?;
        let secret = EpochSecret::new(exported, &theirs.nonce, &nonce);
        let (inbound, outbound) = self.keys(peer, &secret, theirs)?;
        self.gateway.links().install(index, peer, inbound);
        let epoch = theirs.epoch;
        let outbound = Arc::new(outbound);
        self.channel(peer)?.agreement = KeyAgreement::Answered(Answered { epoch, index, outbound });
        self.queue_message(peer, &Message::Answer(Offer { epoch, nonce, index }));
        Ok(())
    }

    fn agree(&mut self, now: Instant, peer: PeerIndex, theirs: &Offer) -> Result<(), DecodeError> {
        let channel = self.channel(peer)?;
        let KeyAgreement::Proposed(ours) = core::mem::take(&mut channel.agreement) else {
            return Err(DecodeError::invalid("answer without a proposal"));
        };
        if ours.epoch != theirs.epoch {
            return Err(DecodeError::invalid("epoch"));
        }
        let exported = channel.exported.as_ref().ok_or(DecodeError::invalid("channel"))?;
        let secret = EpochSecret::new(exported, &ours.nonce, &theirs.nonce);
        let (inbound, outbound) = self.keys(peer, &secret, theirs)?;
        self.gateway.links().install(ours.index, peer, inbound);
        self.queue_message(peer, &Message::Ready(ours.epoch));
        self.channel(peer)?.epoch = ours.epoch;
        let (epoch, index) = (ours.epoch, ours.index);
        self.activate_keys(now, peer, Answered { epoch, index, outbound: Arc::new(outbound) })
    }

    fn ready(&mut self, now: Instant, peer: PeerIndex, epoch: u32) -> Result<(), DecodeError> {
        match core::mem::take(&mut self.channel(peer)?.agreement) {
            KeyAgreement::Answered(answered) if answered.epoch == epoch => {
                let channel = self.channel(peer)?;
                channel.epoch = epoch;
                channel.answered_on_lost_channels.clear();
                self.activate_keys(now, peer, answered)
            }
            _ => Err(DecodeError::invalid("epoch")),
        }
    }

    /// Seals with new keys from now on, and lets the old ones expire after a while.
    fn activate_keys(
        &mut self,
        now: Instant,
        peer: PeerIndex,
        Answered { epoch, index, outbound }: Answered,
    ) -> Result<(), DecodeError> {
        let rekey_at = now + self.timing.rekey;
        let channel = self.channel(peer)?;
        channel.rekey_at = Some(rekey_at);
        channel.rekey_requested = false;
        // A keepalive at once tells the peer our address.
        channel.keepalive_at = Some(now);
        let present = match &channel.agreement {
            KeyAgreement::Answered(answered) => Some(answered),
            _ => None,
        };
        let newer =
            channel.answered_on_lost_channels.iter().chain(present).map(|answered| answered.index);
        let keep: Vec<_> = newer.chain([index]).collect();
        self.gateway.links().retire(peer, &keep, now + OLD_KEY_LIFETIME);
        if let Some(link) = self.gateway.links().get(peer) {
            link.set_outbound(Some(outbound));
        }
        self.outputs.push_back(Output::Event(Event::Up(peer, epoch)));
        Ok(())
    }

    fn keys(
        &self,
        peer: PeerIndex,
        secret: &EpochSecret,
        theirs: &Offer,
    ) -> Result<(Inbound, Outbound), DecodeError> {
        let us = self.gateway.settings().id;
        let link = self.gateway.links().get(peer).ok_or(DecodeError::invalid("peer"))?;
        let Offer { epoch, index, .. } = *theirs;
        let cipher = |sender, receiver| {
            let secret = DirectionSecret::new(secret, &sender, &receiver, epoch);
            self.gateway.scheme().cipher(&secret)
        };
        let inbound = Inbound::new(secret.clone(), (link.id(), us), epoch, self.provider)
            .with_cipher(cipher(link.id(), us));
        let outbound = Outbound::new(secret.clone(), (us, link.id()), epoch, index, self.provider)
            .with_cipher(cipher(us, link.id()));
        Ok((inbound, outbound))
    }

    /// Asks for new keys with every peer.
    pub fn rekey(&mut self) {
        for channel in &mut self.channels {
            channel.rekey_at = channel.rekey_at.map(|_| Instant::ZERO);
        }
    }

    /// Runs the timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.gateway.handle_timeout(now);
        let gateway = Arc::clone(&self.gateway);
        if self.timing.announce > Duration::ZERO && now >= self.announce_at {
            self.announce_at = now + self.timing.announce;
            self.outputs.push_back(Output::Frame(gateway.announcement().to_vec()));
        }
        self.ask_about_claims(now);
        for link in gateway.links().iter() {
            let peer = link.peer();
            let is_leader = self.is_leader(peer);
            let _no_peer = self.adopt_answered_keys(now, peer);
            let Ok(channel) = self.channel(peer) else { continue };
            let due = channel.rekey_at.is_some_and(|at| now >= at) || link.needs_rekey();
            if due && channel.hello_received && matches!(channel.agreement, KeyAgreement::Idle) {
                if is_leader {
                    let _no_channel = self.propose(peer);
                } else if !channel.rekey_requested {
                    channel.rekey_requested = true;
                    self.queue_message(peer, &Message::Rekey);
                }
            }
            self.send_keepalive(now, peer);
            if self.timing.probe || self.timing.check {
                self.probe(now, peer);
            }
        }
    }

    fn send_keepalive(&mut self, now: Instant, peer: PeerIndex) {
        let every = self.timing.keepalive;
        let Ok(channel) = self.channel(peer) else { return };
        if channel.keepalive_at.is_some_and(|at| now >= at) {
            channel.keepalive_at = (every > Duration::ZERO).then_some(now + every);
            self.outputs.push_back(Output::Datagram(peer, EncryptedContent::Keepalive, Vec::new()));
        }
    }

    fn probe(&mut self, now: Instant, peer: PeerIndex) {
        let gateway = Arc::clone(&self.gateway);
        let Some(link) = gateway.links().get(peer).filter(|link| link.is_up()) else { return };
        let Ok(channel) = self.channel(peer) else { return };
        let search = &mut channel.mtu_search;
        let (place, count) =
            (link.address().map(|at| at.ip()), link.counters().frames_out.packets.get());
        match channel.probed.0 {
            None => search.restart(),
            was if was != place => search.revalidate(),
            _ => {}
        }
        let activity = PathActivity {
            heard: search.sent_at().is_some_and(|sent_at| link.opened_at() > sent_at),
            sent: channel.probed.1 != count,
            sent_long: link.has_sent_long_frame(),
        };
        let mut probes = Vec::new();
        search.handle_timeout(now, activity, |mtu| probes.push(mtu));
        if !probes.is_empty() {
            channel.probed = (place, count);
            link.clear_long_frame();
        }
        self.report_path(link);
        for mtu in probes {
            // Sealing adds the prefix and the tag, and the kind takes one byte.
            let around = link.headers() + crate::link::SEAL_OVERHEAD + 1;
            let padding = vec![0; mtu.saturating_sub(around)];
            self.outputs.push_back(Output::Datagram(peer, EncryptedContent::Probe, padding));
        }
    }

    /// Reports the MTU and the state of the path to a peer if they have changed. Not called for
    /// each answer to a probe, so that only the result of a search is reported.
    fn report_path(&mut self, link: &Link) {
        let peer = link.peer();
        let Ok(channel) = self.channel(peer) else { return };
        let (mtu, unanswered) = (channel.mtu_search.mtu(), channel.mtu_search.is_unanswered());
        let reported = core::mem::replace(&mut channel.reported_mtu, mtu);
        if self.timing.probe && reported != mtu {
            self.outputs.push_back(Output::Event(Event::Mtu(peer, mtu)));
        }
        if unanswered != link.is_unanswered() {
            let event = if unanswered { Event::Unanswered(peer) } else { Event::Answered(peer) };
            self.outputs.push_back(Output::Event(event));
        }
        link.set_mtu(mtu);
        link.set_unanswered(unanswered);
    }

    /// The next action, or `None`: then the host should wait until [`wake_at`](Self::wake_at).
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        loop {
            // Outputs are made one by one; further events stay in queues that have limits.
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            // Notices come last: a device that floods the LAN with MKA frames fills their whole
            // queue.
            if let Some((peer, content)) = self.gateway.scheme().poll_message(now) {
                let content = Zeroizing::new(content);
                if self.channel(peer).is_ok_and(|channel| channel.hello_received) {
                    self.queue_message(peer, &Message::Scheme(&content));
                }
            } else if let Some((peer, content)) = self.gateway.scheme().poll_beacon(now) {
                return Some(Output::Datagram(peer, EncryptedContent::Beacon, content));
            } else {
                let notice = self.gateway.poll_notice()?;
                self.handle_notice(now, notice);
            }
        }
    }

    fn handle_notice(&mut self, now: Instant, notice: Notice) {
        match notice {
            Notice::Mka(to, frame) => {
                for peer in to {
                    if self.channel(peer).is_ok_and(|channel| channel.hello_received) {
                        let message = Message::Mka(&frame).to_vec();
                        self.outputs.push_back(Output::Mka(peer, message));
                    }
                }
            }
            Notice::Probe(peer, size) => {
                let size = u16::try_from(size).unwrap_or(u16::MAX).to_be_bytes();
                let answer = Output::Datagram(peer, EncryptedContent::ProbeAnswer, size.to_vec());
                self.outputs.push_back(answer);
            }
            Notice::Probed(peer, size) => {
                let gateway = Arc::clone(&self.gateway);
                if let (Ok(channel), Some(link)) = (self.channel(peer), gateway.links().get(peer)) {
                    channel.mtu_search.handle_answer(size + link.headers());
                    link.set_mtu(channel.mtu_search.mtu());
                }
            }
            Notice::Claimed(station, peer) => {
                self.claim_queries.add(station, peer);
                self.ask_about_claims(now);
            }
            Notice::Heard(station, peers) => {
                let heard = |peer| about(station, peer, EncryptedContent::StationHeard);
                self.outputs.extend(peers.map(heard));
            }
            Notice::SecondGateway(id) => {
                self.outputs.push_back(Output::Event(Event::SecondGateway(id)));
            }
        }
    }

    /// Sends the queries that are due about stations that were claimed elsewhere.
    fn ask_about_claims(&mut self, now: Instant) {
        let outputs = &mut self.outputs;
        self.claim_queries.handle_timeout(now, self.gateway.stations(), |peer, station| {
            outputs.push_back(about(station, peer, EncryptedContent::StationQuery));
        });
    }

    /// When [`handle_timeout`](Self::handle_timeout) should be called next.
    pub fn wake_at(&self, now: Instant) -> Instant {
        now + TICK_INTERVAL
    }

    fn channel(&mut self, peer: PeerIndex) -> Result<&mut Channel, DecodeError> {
        self.channels.get_mut(usize::from(peer.0)).ok_or(DecodeError::invalid("peer"))
    }

    fn queue_message(&mut self, peer: PeerIndex, message: &Message<'_>) {
        let message = Zeroizing::new(message.to_vec());
        self.outputs.push_back(Output::Message(peer, message));
    }
}

/// The datagram to `peer` with a query or an answer about a station.
fn about(station: Station, peer: PeerIndex, kind: EncryptedContent) -> Output {
    Output::Datagram(peer, kind, station.to_bytes().to_vec())
}
