//! Limits by the network that a client sends from and by its identity, for flows and for handshakes.
//!
//! One number for all clients lets whoever comes first take everything. A limit by network bounds what
//! one host or site can take before it has proved anything but its address, and a limit by identity
//! what the holder of one key can take from anywhere.

mod rates;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use lightseal_core::Instant;
use lightseal_dtls::Handle;
use rates::Rates;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How long a client's former flow at its address may stay beside a new one that is beyond the limit of
/// its network. The endpoint asks by then whether the former one is still there.
const REPLACED_WITHIN: Duration = Duration::from_secs(20);

const HEADING: &str = "Limits";

/// The flags.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LimitArgs {
    /// Maximum number of flows of clients of one network, unfinished handshakes included [default:
    /// unlimited].
    #[arg(long, value_name = "N", help_heading = HEADING,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) flows_per_network: Option<usize>,
    /// Maximum number of flows of clients with one identity. A further flow takes the place of the
    /// identity's flow that was silent longest [default: unlimited].
    #[arg(long, value_name = "N", help_heading = HEADING,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) flows_per_identity: Option<usize>,
    /// Maximum number of handshakes that clients of one network may begin in a minute; as many may
    /// begin at once. A handshake beyond it is ignored, and the client tries again [default:
    /// unlimited].
    #[arg(long, value_name = "N", help_heading = HEADING,
          value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    pub(crate) handshakes_per_network: Option<u32>,
    /// Maximum number of handshakes that clients with one identity may complete in a minute. A flow
    /// beyond it is closed [default: unlimited].
    #[arg(long, value_name = "N", help_heading = HEADING,
          value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    pub(crate) handshakes_per_identity: Option<u32>,
    /// How many leading bits of IPv4 and of IPv6 addresses the addresses of one network have in
    /// common.
    #[arg(long, value_name = "V4/V6", default_value_t, help_heading = HEADING)]
    pub(crate) network_bits: NetworkBits,
}

impl LimitArgs {
    /// The limits that the flags give.
    pub(crate) const fn limits(&self) -> Limits {
        Limits {
            flows_per_network: self.flows_per_network,
            flows_per_identity: self.flows_per_identity,
            handshakes_per_network: self.handshakes_per_network,
            handshakes_per_identity: self.handshakes_per_identity,
            network_bits: self.network_bits,
        }
    }
}

/// How many leading bits the addresses of one network have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetworkBits {
    v4: u8,
    v6: u8,
}

impl Default for NetworkBits {
    /// An IPv4 address is one host or the NAT of one site. A site gets an IPv6 prefix of 56 bits or
    /// less (RFC 6177), and each of its hosts has as many addresses as it wants.
    fn default() -> Self {
        Self { v4: 32, v6: 56 }
    }
}

impl NetworkBits {
    /// The network of an address: the address with all further bits set to 0.
    pub(crate) fn network(self, address: SocketAddr) -> IpAddr {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.v4)).unwrap_or(0);
                IpAddr::V4((u32::from(ip) & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.v6)).unwrap_or(0);
                IpAddr::V6((u128::from(ip) & mask).into())
            }
        }
    }
}

impl FromStr for NetworkBits {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected two numbers such as 32/56: 0 to 32 bits of IPv4, and 0 to \
                                128 bits of IPv6 addresses";
        let (v4, v6) = text.split_once('/').ok_or(EXPECTED)?;
        match (v4.parse(), v6.parse()) {
            (Ok(v4 @ 0..=32), Ok(v6 @ 0..=128)) => Ok(Self { v4, v6 }),
            _ => Err(EXPECTED),
        }
    }
}

impl fmt::Display for NetworkBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.v4, self.v6)
    }
}

/// The limits; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) flows_per_network: Option<usize>,
    pub(crate) flows_per_identity: Option<usize>,
    /// In a minute.
    pub(crate) handshakes_per_network: Option<u32>,
    /// In a minute.
    pub(crate) handshakes_per_identity: Option<u32>,
    pub(crate) network_bits: NetworkBits,
}

impl Limits {
    /// Whether clients are limited before they have an association.
    pub(crate) const fn limit_networks(&self) -> bool {
        self.flows_per_network.is_some() || self.handshakes_per_network.is_some()
    }
}

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    FlowsOfNetwork,
    HandshakesOfNetwork,
    HandshakesOfIdentity,
    /// All flows together reached their limit (`--max-flows`).
    Flows,
    /// The proxy takes no new clients any more.
    Draining,
    /// There was no socket for the flow, or no address for it.
    NoSocket,
}

impl Refusal {
    /// All reasons, in the order of their declaration.
    pub(crate) const ALL: [Self; 6] = [
        Self::FlowsOfNetwork,
        Self::HandshakesOfNetwork,
        Self::HandshakesOfIdentity,
        Self::Flows,
        Self::Draining,
        Self::NoSocket,
    ];

    /// The name of the reason in statistics and metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::FlowsOfNetwork => "flows_per_network",
            Self::HandshakesOfNetwork => "handshakes_per_network",
            Self::HandshakesOfIdentity => "handshakes_per_identity",
            Self::Flows => "max_flows",
            Self::Draining => "draining",
            Self::NoSocket => "no_socket",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FlowsOfNetwork => "its network has as many flows as it may (--flows-per-network)",
            Self::HandshakesOfNetwork => {
                "its network begins more handshakes than it may (--handshakes-per-network)"
            }
            Self::HandshakesOfIdentity => {
                "its identity completes more handshakes than it may (--handshakes-per-identity)"
            }
            Self::Flows => "as many flows are open as may be (--max-flows)",
            Self::Draining => "this proxy drains and takes no new clients",
            Self::NoSocket => "there is no socket for it",
        })
    }
}

/// What clients have taken of their limits.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    limits: Limits,
    /// The client of each flow and handshake.
    clients: HashMap<Handle, Client>,
    /// The flows and handshakes at each address, and their number in each network.
    addresses: HashMap<SocketAddr, AtAddress>,
    networks: HashMap<IpAddr, usize>,
    /// The flows of each identity.
    identities: HashMap<Arc<str>, Vec<Handle>>,
    /// When flows began that are listed in [`AtAddress::beyond`], or were.
    beyond: VecDeque<(Instant, Handle)>,
    begun: Rates<IpAddr>,
    completed: Rates<Arc<str>>,
}

/// The flows and handshakes at an address.
#[derive(Debug, Default)]
struct AtAddress {
    count: usize,
    /// Complete flows beyond the limit of the network, oldest first. Each may replace one of the others
    /// here, or come beside it.
    beyond: Vec<Handle>,
}

impl AtAddress {
    /// Whether a further flow may still replace one of these.
    const fn may_be_replaced(&self) -> bool {
        self.beyond.len() < self.count - self.beyond.len()
    }
}

#[derive(Debug)]
struct Client {
    peer: SocketAddr,
    /// Known once the handshake is complete.
    identity: Option<Arc<str>>,
}

impl Ledger {
    /// A ledger without clients.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            begun: Rates::new(limits.handshakes_per_network),
            completed: Rates::new(limits.handshakes_per_identity),
            limits,
            ..Self::default()
        }
    }

    /// Takes other limits. The flows that exist are to be [restored](Self::restored) then: each stays,
    /// whatever the limits. Handshakes that are under way count once they are complete, and those of
    /// the last minute count if their limit is the same.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        let former = std::mem::replace(self, Self::new(limits));
        if former.limits.handshakes_per_network == limits.handshakes_per_network
            && former.limits.network_bits == limits.network_bits
        {
            self.begun = former.begun;
        }
        if former.limits.handshakes_per_identity == limits.handshakes_per_identity {
            self.completed = former.completed;
        }
    }

    /// Whether clients are limited before they have an association.
    pub(crate) const fn limits_networks(&self) -> bool {
        self.limits.limit_networks()
    }

    /// Whether a client that has proved its address may begin a handshake now. It takes one of the
    /// network's handshakes.
    pub(crate) fn begin(&mut self, now: Instant, peer: SocketAddr) -> Result<(), Refusal> {
        if self.is_network_full(peer) {
            return Err(Refusal::FlowsOfNetwork);
        }
        let network = self.limits.network_bits.network(peer);
        match self.begun.take(now, network) {
            true => Ok(()),
            false => Err(Refusal::HandshakesOfNetwork),
        }
    }

    /// Whether the network of a client has as many flows as it may.
    fn is_network_full(&self, peer: SocketAddr) -> bool {
        let network = self.limits.network_bits.network(peer);
        // A client that comes again from its address may replace a flow that it has, once each.
        let replaces = self.addresses.get(&peer).is_some_and(AtAddress::may_be_replaced);
        let flows = self.networks.get(&network).copied().unwrap_or(0);
        !replaces && self.limits.flows_per_network.is_some_and(|most| flows >= most)
    }

    /// Whether the network of a client has more flows than it may.
    fn exceeds_network(&self, peer: SocketAddr) -> bool {
        let network = self.limits.network_bits.network(peer);
        let flows = self.networks.get(&network).copied().unwrap_or(0);
        self.limits.flows_per_network.is_some_and(|most| flows > most)
    }

    /// The next flow that has not replaced another one in time, and is beyond its network's limit. It
    /// does not count any more.
    pub(crate) fn next_beyond(&mut self, now: Instant) -> Option<(Handle, SocketAddr)> {
        while let Some((since, handle)) = self.beyond.front().copied()
            && now.saturating_since(since) >= REPLACED_WITHIN
        {
            self.beyond.pop_front();
            let Some(peer) = self.clients.get(&handle).map(|client| client.peer) else { continue };
            let here = self.addresses.get(&peer);
            let is_beyond = here.is_some_and(|here| here.beyond.contains(&handle));
            if is_beyond && self.exceeds_network(peer) {
                self.ended(handle);
                return Some((handle, peer));
            }
            self.take_beyond(handle, peer);
        }
        None
    }

    /// A client's handshake has begun.
    pub(crate) fn began(&mut self, handle: Handle, peer: SocketAddr) {
        if !self.limits_networks() && self.limits.flows_per_identity.is_none() {
            return;
        }
        if let Entry::Vacant(vacant) = self.clients.entry(handle) {
            vacant.insert(Client { peer, identity: None });
            self.count_peer(peer);
        }
    }

    /// A client's handshake is complete. Whether the client may have the flow, and which flow of its
    /// identity ends for that: the first by `quiet`, if there are too many.
    pub(crate) fn complete<Q: Ord>(
        &mut self,
        now: Instant,
        (handle, peer): (Handle, SocketAddr),
        identity: &Arc<str>,
        quiet: impl Fn(&Handle) -> Q,
    ) -> Result<Option<Handle>, Refusal> {
        if !self.completed.take(now, Arc::clone(identity)) {
            return Err(Refusal::HandshakesOfIdentity);
        }
        // The handshake of a client whose key was looked up has begun unseen.
        if !self.clients.contains_key(&handle) && self.is_network_full(peer) {
            return Err(Refusal::FlowsOfNetwork);
        }
        self.began(handle, peer);
        if self.exceeds_network(peer)
            && let Some(here) = self.addresses.get_mut(&peer)
        {
            // It counts itself, and replaces another one.
            here.count -= 1;
            let replaces = here.may_be_replaced();
            here.count += 1;
            if !replaces {
                return Err(Refusal::FlowsOfNetwork);
            }
            here.beyond.push(handle);
            self.beyond.push_back((now, handle));
        }
        let Some(most) = self.limits.flows_per_identity else { return Ok(None) };
        let flows = self.identities.entry(Arc::clone(identity)).or_default();
        let gives_way = match flows.len() >= most {
            true => flows.iter().copied().min_by_key(quiet),
            false => None,
        };
        flows.push(handle);
        if let Some(client) = self.clients.get_mut(&handle) {
            client.identity = Some(Arc::clone(identity));
        }
        if let Some(handle) = gives_way {
            self.ended(handle);
        }
        Ok(gives_way)
    }

    /// A flow was restored that a proxy before this one had accepted, or that was there before the
    /// limits changed. It counts for the limits, which it may exceed. Nothing happens if it counts.
    pub(crate) fn restored(&mut self, handle: Handle, peer: SocketAddr, identity: &Arc<str>) {
        self.began(handle, peer);
        if let Some(client) = self.clients.get_mut(&handle)
            && client.identity.is_none()
            && self.limits.flows_per_identity.is_some()
        {
            client.identity = Some(Arc::clone(identity));
            self.identities.entry(Arc::clone(identity)).or_default().push(handle);
        }
    }

    /// A client sends from another address now. It keeps its flow, whatever the limit of the network
    /// there.
    pub(crate) fn moved(&mut self, handle: Handle, to: SocketAddr) {
        if let Some(client) = self.clients.get_mut(&handle) {
            let from = std::mem::replace(&mut client.peer, to);
            let is_beyond = self.take_beyond(handle, from);
            self.uncount_peer(from);
            self.count_peer(to);
            if is_beyond && let Some(there) = self.addresses.get_mut(&to) {
                there.beyond.push(handle);
            }
        }
    }

    /// A flow or handshake has ended.
    pub(crate) fn ended(&mut self, handle: Handle) {
        let Some(client) = self.clients.remove(&handle) else { return };
        if !self.take_beyond(handle, client.peer)
            && let Some(here) = self.addresses.get_mut(&client.peer)
            && !here.beyond.is_empty()
        {
            // The oldest flow beyond the limit has its place now.
            here.beyond.remove(0);
        }
        self.uncount_peer(client.peer);
        if let Some(identity) = client.identity
            && let Some(flows) = self.identities.get_mut(&identity)
        {
            flows.retain(|flow| *flow != handle);
            if flows.is_empty() {
                self.identities.remove(&identity);
            }
        }
    }

    /// A flow is not beyond its network's limit any more. Returns whether it was.
    fn take_beyond(&mut self, handle: Handle, peer: SocketAddr) -> bool {
        let here = self.addresses.get_mut(&peer).map(|here| &mut here.beyond);
        let found = here.and_then(|of| Some((of.iter().position(|other| *other == handle)?, of)));
        found.map(|(at, beyond)| beyond.remove(at)).is_some()
    }

    fn count_peer(&mut self, peer: SocketAddr) {
        self.addresses.entry(peer).or_default().count += 1;
        *self.networks.entry(self.limits.network_bits.network(peer)).or_default() += 1;
    }

    fn uncount_peer(&mut self, peer: SocketAddr) {
        if let Some(here) = self.addresses.get_mut(&peer) {
            here.count -= 1;
            if here.count == 0 {
                self.addresses.remove(&peer);
            }
        }
        let network = self.limits.network_bits.network(peer);
        if let Some(count) = self.networks.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(1) + Duration::from_secs(seconds)
    }

    /// Handles come from endpoints alone.
    fn handles(count: usize) -> Vec<Handle> {
        use lightseal_core::{Engine, Output, Random};
        use lightseal_dtls::{ClientConfig, Connection, CookiePolicy, Endpoint, Psk, ServerConfig};
        let psk = Psk::external(b"a", &[7; 32]).unwrap();
        let settings = crate::provider::settings().unwrap();
        let config = ServerConfig::with(Arc::new(psk.clone()), settings).unwrap();
        let config = config.with_cookies(CookiePolicy::WhenRetrying);
        let mut server = Endpoint::server(Arc::new(config), Random::insecure(1));
        let config = Arc::new(ClientConfig::new(psk));
        let mut buf = vec![0; 2048];
        for number in 0..count {
            let peer = address(&format!("192.0.2.1:{}", 1000 + number));
            let rng = Random::insecure(number as u64);
            let mut client = Connection::client(Arc::clone(&config), peer, at(0), rng);
            let Output::Datagram { payload, .. } = client.poll_output(&mut buf) else {
                panic!("a client begins with a hello");
            };
            let mut hello = payload.to_vec();
            server.handle_datagram(at(0), peer, &mut hello);
        }
        let handles: Vec<_> = server.connections().map(|(handle, _)| handle).collect();
        assert_eq!(handles.len(), count);
        handles
    }

    #[test]
    fn a_network_is_what_addresses_begin_with() {
        let bits: NetworkBits = "24/56".parse().unwrap();
        let network = |text| bits.network(address(text)).to_string();
        assert_eq!(network("192.0.2.77:1"), "192.0.2.0");
        assert_eq!(network("[::ffff:192.0.2.77]:1"), "192.0.2.0");
        assert_eq!(network("[2001:db8:1:2345:6::7]:1"), "2001:db8:1:2300::");
        let all: NetworkBits = "0/0".parse().unwrap();
        assert_eq!(all.network(address("192.0.2.77:1")).to_string(), "0.0.0.0");
        let whole: NetworkBits = "32/128".parse().unwrap();
        assert_eq!(whole.network(address("[2001:db8::7]:1")).to_string(), "2001:db8::7");
        assert_eq!(NetworkBits::default().to_string().parse(), Ok(NetworkBits::default()));
        for wrong in ["", "32", "33/56", "32/129", "-1/0", "a/b", "1/2/3"] {
            assert!(wrong.parse::<NetworkBits>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn flows_are_limited_by_network_and_by_identity() {
        let limits =
            Limits { flows_per_network: Some(2), flows_per_identity: Some(2), ..Limits::default() };
        let mut ledger = Ledger::new(limits);
        let handles = handles(4);
        let (a, b): (Arc<str>, Arc<str>) = ("psk:a".into(), "psk:b".into());
        let (here, there) = (address("192.0.2.1:1"), address("192.0.2.2:1"));
        let again = address("192.0.2.1:2");
        for (handle, peer) in [(handles[0], here), (handles[1], again)] {
            assert_eq!(ledger.begin(at(0), peer), Ok(()));
            ledger.began(handle, peer);
        }
        let third = address("192.0.2.1:3");
        assert_eq!(ledger.begin(at(0), third), Err(Refusal::FlowsOfNetwork));
        assert_eq!(ledger.begin(at(0), here), Ok(()), "it replaces its own flow");
        // The flow that was accepted first is the quietest one.
        let complete = |ledger: &mut Ledger, at: usize, peer, identity: &Arc<str>| {
            ledger.complete(self::at(0), (handles[at], peer), identity, |handle| *handle)
        };
        assert_eq!(complete(&mut ledger, 0, here, &a), Ok(None));
        assert_eq!(complete(&mut ledger, 1, again, &a), Ok(None));
        assert_eq!(ledger.begin(at(0), there), Ok(()));
        ledger.began(handles[2], there);
        assert_eq!(complete(&mut ledger, 3, there, &b), Ok(None));
        assert_eq!(ledger.begin(at(0), third), Err(Refusal::FlowsOfNetwork));
        assert_eq!(complete(&mut ledger, 2, there, &a), Ok(Some(handles[0])));
        assert_eq!(ledger.begin(at(0), third), Ok(()), "the flow that gave way made room");
        // One that moves away makes room in its network, and keeps its place with its identity.
        ledger.began(handles[0], third);
        assert_eq!(ledger.begin(at(0), address("192.0.2.1:4")), Err(Refusal::FlowsOfNetwork));
        ledger.moved(handles[1], there);
        assert_eq!(ledger.begin(at(0), address("192.0.2.1:4")), Ok(()));
        assert_eq!(complete(&mut ledger, 0, third, &a), Ok(Some(handles[1])));
        for handle in handles {
            ledger.ended(handle);
        }
        let Ledger { clients, addresses, networks, identities, .. } = ledger;
        assert!(clients.is_empty() && addresses.is_empty());
        assert!(networks.is_empty() && identities.is_empty());
    }

    /// The hellos of such clients wait in the engine, and nobody is asked when their keys are known.
    #[test]
    fn a_client_whose_key_was_looked_up_counts_once_its_handshake_is_complete() {
        let limits = Limits { flows_per_network: Some(1), ..Limits::default() };
        let mut ledger = Ledger::new(limits);
        let handles = handles(2);
        let peers = [address("192.0.2.1:1"), address("192.0.2.1:2")];
        let identity: Arc<str> = "psk:a".into();
        for peer in peers {
            assert_eq!(ledger.begin(at(0), peer), Ok(()), "nobody is there yet");
        }
        let mut complete =
            |n: usize| ledger.complete(at(0), (handles[n], peers[n]), &identity, |handle| *handle);
        assert_eq!(complete(0), Ok(None));
        assert_eq!(complete(1), Err(Refusal::FlowsOfNetwork));
        ledger.ended(handles[0]);
        assert_eq!(ledger.begin(at(0), peers[1]), Ok(()));
    }

    /// A client proxy has many flows at one address, and one that was started again comes from the
    /// address of its former flows.
    #[test]
    fn a_further_flow_at_an_address_ends_unless_it_replaces_another_one_in_time() {
        for replaces in [false, true] {
            let limits = Limits { flows_per_network: Some(1), ..Limits::default() };
            let mut ledger = Ledger::new(limits);
            let (handles, peer) = (handles(2), address("192.0.2.1:1"));
            for handle in &handles {
                assert_eq!(ledger.begin(at(0), peer), Ok(()));
                ledger.began(*handle, peer);
                let done = ledger.complete(at(0), (*handle, peer), &"psk:a".into(), |of| *of);
                assert_eq!(done, Ok(None));
            }
            assert_eq!(ledger.next_beyond(at(19)), None);
            if replaces {
                ledger.ended(handles[0]);
            }
            let expected = (!replaces).then_some((handles[1], peer));
            assert_eq!(ledger.next_beyond(at(20)), expected, "replaces: {replaces}");
            assert_eq!(ledger.next_beyond(at(20)), None);
            assert_eq!(ledger.networks.values().copied().collect::<Vec<_>>(), [1]);
        }
    }

    /// Whoever has a flow could otherwise have any number of further ones, 20 s each.
    #[test]
    fn an_address_has_one_flow_beyond_the_limit_for_each_that_it_may_replace() {
        let limits = Limits { flows_per_network: Some(2), ..Limits::default() };
        let mut ledger = Ledger::new(limits);
        let (handles, peer) = (handles(8), address("192.0.2.1:1"));
        let comes = |ledger: &mut Ledger, at, n: usize| {
            ledger.begin(self::at(at), peer)?;
            ledger.began(handles[n], peer);
            let client = (handles[n], peer);
            ledger.complete(self::at(at), client, &"psk:a".into(), |of| *of).map(|_| ())
        };
        for n in 0..4 {
            assert_eq!(comes(&mut ledger, 0, n), Ok(()), "two, and two that may replace them");
        }
        assert_eq!(comes(&mut ledger, 0, 4), Err(Refusal::FlowsOfNetwork));
        // One that was not asked about before is refused when its handshake is complete.
        let unseen = ledger.complete(at(0), (handles[4], peer), &"psk:a".into(), |of| *of);
        assert_eq!(unseen, Err(Refusal::FlowsOfNetwork));
        // A flow has replaced another one, and may be replaced in turn.
        ledger.ended(handles[0]);
        assert_eq!(comes(&mut ledger, 10, 4), Ok(()));
        assert_eq!(comes(&mut ledger, 10, 5), Err(Refusal::FlowsOfNetwork));
        // One that moves away and back is beyond the limit as before.
        ledger.moved(handles[3], address("192.0.2.1:2"));
        ledger.moved(handles[3], peer);
        assert_eq!(ledger.next_beyond(at(20)), Some((handles[3], peer)));
        assert_eq!(ledger.next_beyond(at(29)), None);
        assert_eq!(ledger.next_beyond(at(30)), Some((handles[4], peer)));
        assert_eq!(ledger.networks.values().copied().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn other_limits_count_the_flows_that_are_there() {
        let mut ledger = Ledger::new(Limits::default());
        let handles = handles(2);
        let peers = [address("192.0.2.1:1"), address("192.0.3.1:1")];
        let identity: Arc<str> = "psk:a".into();
        for (handle, peer) in handles.iter().zip(peers) {
            assert_eq!(ledger.complete(at(0), (*handle, peer), &identity, |of| *of), Ok(None));
        }
        let flows = || handles.iter().zip(peers).map(|(handle, peer)| (*handle, peer, &identity));
        let wide = NetworkBits { v4: 16, v6: 56 };
        for (limits, allowed) in [
            (Limits { flows_per_network: Some(2), ..Limits::default() }, true),
            (Limits { flows_per_network: Some(2), network_bits: wide, ..Limits::default() }, false),
            (Limits { flows_per_network: Some(3), network_bits: wide, ..Limits::default() }, true),
        ] {
            ledger.set_limits(limits);
            flows().for_each(|(handle, peer, identity)| ledger.restored(handle, peer, identity));
            assert_eq!(ledger.begin(at(0), address("192.0.2.2:1")).is_ok(), allowed, "{limits:?}");
        }
        ledger.ended(handles[0]);
        ledger.ended(handles[1]);
        assert!(ledger.networks.is_empty() && ledger.addresses.is_empty());
    }

    #[test]
    fn the_handshakes_of_an_identity_are_limited_in_time() {
        let limits = Limits { handshakes_per_identity: Some(1), ..Limits::default() };
        let mut ledger = Ledger::new(limits);
        let handle = handles(1)[0];
        let mut complete = |seconds, identity: &str| {
            let client = (handle, address("192.0.2.1:1"));
            ledger.complete(at(seconds), client, &identity.into(), |_| 0)
        };
        assert_eq!(complete(0, "psk:a"), Ok(None));
        assert_eq!(complete(59, "psk:a"), Err(Refusal::HandshakesOfIdentity));
        assert_eq!(complete(59, "psk:b"), Ok(None));
        assert_eq!(complete(60, "psk:a"), Ok(None));
        assert!(ledger.clients.is_empty(), "no flow is counted if none is limited");
    }

    #[test]
    fn handshakes_come_back_with_time() {
        let limits = Limits { handshakes_per_network: Some(6), ..Limits::default() };
        let mut ledger = Ledger::new(limits);
        let (here, there) = (address("192.0.2.1:1"), address("192.0.2.2:1"));
        let mut begin = |seconds, peer| ledger.begin(at(seconds), peer).is_ok();
        assert!((0..6).all(|_| begin(0, here)));
        assert!(!begin(0, here) && !begin(9, here));
        assert!(begin(0, there), "another network has its own");
        assert!(begin(10, here) && !begin(10, here));
        assert!((0..6).all(|_| begin(100, here)) && !begin(100, here));
    }
}
