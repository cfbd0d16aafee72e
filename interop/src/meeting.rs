//! Lightseal and wolfSSL in a network in virtual time.

use crate::driven::{Driven, Event};
use crate::ours::{Ours, client_config, server_config};
use crate::wolfssl::{Context, Role, Settings};
use lightseal_core::Instant;
use lightseal_dtls::AggregationPolicy;
use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto};
use lightseal_net::virtual_time::{Network, NodeId};
use lightseal_net::{Either, Impairments};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Lightseal's address.
pub const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1);
/// wolfSSL's address.
pub const THERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 2);

/// Lightseal in one role and wolfSSL in the other, 20 ms apart.
pub struct Meeting {
    network: Network<Either<Ours, Driven>>,
    ours: NodeId,
    theirs: NodeId,
    seconds: u64,
    events: [Vec<Event>; 2],
}

impl Meeting {
    /// Puts both into a network at time zero. `policy` is the wish of our end only: wolfSSL does
    /// not know shared tags.
    ///
    /// # Panics
    /// Either end refuses the settings.
    pub fn new(settings: &Settings, our_role: Role, policy: &AggregationPolicy, seed: u64) -> Self {
        let mut network = Network::new(seed);
        network.impair_all(&Impairments { delay: Duration::from_millis(20), ..Impairments::NONE });
        let (ours, theirs) = match our_role {
            Role::Client => {
                let config = client_config(settings, &rustcrypto::PROVIDER);
                let settings_with_wish = wanting(config.settings(), policy);
                let config = config.with_settings(settings_with_wish).expect("valid settings");
                let context = Context::new(Role::Server, settings);
                (Ours::client(config, THERE, Instant::ZERO, seed), Driven::server(&context))
            }
            Role::Server => {
                let config = server_config(settings, &rustcrypto::PROVIDER);
                let settings_with_wish = wanting(config.settings(), policy);
                let config = config.with_settings(settings_with_wish).expect("valid settings");
                let context = Context::new(Role::Client, settings);
                (Ours::server(config, seed), Driven::client(&context, HERE, Instant::ZERO))
            }
        };
        let ours = network.add(HERE, Either::Left(ours));
        let theirs = network.add(THERE, Either::Right(theirs));
        Self { network, ours, theirs, seconds: 0, events: [Vec::new(), Vec::new()] }
    }

    /// Changes the impairments of the line between the ends.
    pub fn impair(&mut self, impairments: &Impairments) {
        self.network.impair_all(impairments);
    }

    /// Runs virtual time forward.
    pub fn run_for(&mut self, seconds: u64) {
        self.seconds += seconds;
        let Self { network, ours, events, .. } = self;
        network.run_until(Instant::from_micros(self.seconds * 1_000_000), |node, _, event| {
            let (Either::Left(event) | Either::Right(event)) = event;
            events[usize::from(node != *ours)].push(event);
        });
    }

    /// The events of our end and of the other end, since data was last exchanged.
    pub fn events(&self) -> &[Vec<Event>; 2] {
        &self.events
    }

    /// Whether each end has reported that it is connected, once, and nothing else.
    pub fn connected(&self) -> bool {
        self.events.iter().all(|events| *events == [Event::Connected])
    }

    /// Calls `call` with our end.
    ///
    /// # Panics
    /// Never: `new` has put our end at this node.
    pub fn ours<R>(&mut self, call: impl FnOnce(&mut Ours, Instant) -> R) -> R {
        self.network.call(self.ours, |end, now| call(end.left().expect("ours"), now))
    }

    /// Calls `call` with the other end.
    ///
    /// # Panics
    /// Never: `new` has put the other end at this node.
    pub fn theirs<R>(&mut self, call: impl FnOnce(&mut Driven) -> R) -> R {
        self.network.call(self.theirs, |end, _| call(end.right().expect("theirs")))
    }

    /// Sends payloads of several lengths in both directions. Returns whether each end received all
    /// of them, in order, and nothing else.
    pub fn exchange_data(&mut self) -> bool {
        self.events = [Vec::new(), Vec::new()];
        let payloads: Vec<_> = [1, 2, 15, 16, 17, 64, 500, 1100].map(|n| vec![n as u8; n]).into();
        for payload in &payloads {
            let sent = self.ours(|ours, now| ours.send(now, payload)).is_ok();
            if !(self.theirs(|theirs| theirs.send(payload)).is_ok() && sent) {
                return false;
            }
        }
        self.run_for(5);
        let data: Vec<_> = payloads.into_iter().map(Event::Data).collect();
        self.events == [data.clone(), data]
    }
}

/// The settings of an end that asks for shared tags, which only our own suite can carry.
fn wanting(
    ours: &lightseal_dtls::Settings,
    policy: &AggregationPolicy,
) -> lightseal_dtls::Settings {
    let mut ours = ours.clone();
    if policy.is_wanted() {
        ours.suites.insert(0, CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256);
    }
    ours.aggregation = policy.clone();
    ours
}
