//! What tasks share to say how a gateway stands.

use super::standing::{About, standing};
use super::tally::Tally;
use crate::config::Config;
use crate::identity::PublicKey;
use crate::status::Standing;
use gateway::bridge::PeerIndex;
use gateway::gateway::Gateway;
use packet_io::xdp::Attachment;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A gateway as its present configuration has it.
pub(super) struct Keeper {
    pub(super) config: Config,
    pub(super) public_key: PublicKey,
    pub(super) gateway: Arc<Gateway>,
    pub(super) io: String,
    pub(super) programs: [Option<Attachment>; 2],
    pub(super) started: Instant,
    tallies: Vec<Arc<Tally>>,
    channels: Mutex<Channels>,
}

/// The management channels, as they stand.
pub(super) struct Channels(pub(super) Vec<ChannelState>);

#[derive(Clone, Debug)]
pub(super) struct ChannelState {
    pub(super) up: bool,
    pub(super) since: Instant,
    pub(super) why_down: Option<String>,
}

impl Keeper {
    /// No channel is up.
    pub(super) fn new(
        config: Config,
        public_key: PublicKey,
        gateway: Arc<Gateway>,
        io: String,
        programs: [Option<Attachment>; 2],
        started: Instant,
        tallies: Vec<Arc<Tally>>,
    ) -> Self {
        let state = ChannelState { up: false, since: Instant::now(), why_down: None };
        let channels = Mutex::new(Channels(vec![state; config.peers.len()]));
        Self { config, public_key, gateway, io, programs, started, tallies, channels }
    }

    pub(super) fn standing(&self) -> Standing {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        standing(&About {
            config: &self.config,
            public_key: self.public_key,
            gateway: &self.gateway,
            channels: &channels,
            started: self.started,
            now: Instant::now(),
            io: &self.io,
            passed: self.programs[0].as_ref().map(Attachment::passed).unwrap_or_default(),
            ports: Tally::total(&self.tallies),
        })
    }

    /// Notes that the channel to a peer came up or went down.
    pub(super) fn note(&self, peer: usize, up: bool, why: Option<String>) {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = channels.0.get_mut(peer) {
            if state.up != up {
                state.since = Instant::now();
            }
            state.up = up;
            state.why_down = why;
        }
    }

    /// The name of a peer in the configuration.
    pub(super) fn name(&self, peer: PeerIndex) -> &str {
        self.config.peers.get(usize::from(peer.0)).map_or("?", |peer| &peer.name)
    }
}

/// The keeper of the day, for tasks that outlive it.
#[derive(Clone)]
pub(super) struct Shown(Arc<Mutex<Arc<Keeper>>>);

impl Shown {
    pub(super) fn new(keeper: Arc<Keeper>) -> Self {
        Self(Arc::new(Mutex::new(keeper)))
    }

    pub(super) fn get(&self) -> Arc<Keeper> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, keeper: Arc<Keeper>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = keeper;
    }
}
