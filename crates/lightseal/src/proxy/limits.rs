//! Limits by the network that a client sends from and by its identity, for flows and for handshakes.
//!
//! One number for all clients lets whoever comes first take everything. A limit by network bounds what
//! one host or site can take before it has proved anything but its address, and a limit by identity
//! what the holder of one key can take from anywhere.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use lightseal_core::Instant;
use lightseal_dtls::Handle;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The time for which `--handshakes-per-network` and `--handshakes-per-identity` are given.
const MINUTE: Duration = Duration::from_secs(60);

/// Most networks or identities whose handshakes are counted one by one at a time. Further ones share
/// one limit, so that a flood from many networks takes no memory.
const MOST_COUNTED: usize = 65_536;

/// How long a client's former flow at its address may stay beside a new one that is beyond the limit of
/// its network. The endpoint asks by then whether the former one is still there.
const REPLACED_WITHIN: Duration = Duration::from_secs(20);

/// The shortest time between two searches for networks and identities that need not be counted any
/// more.
const PURGE: Duration = Duration::from_secs(1);

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
    /// The numbers of flows and handshakes by address and by network.
    addresses: HashMap<SocketAddr, usize>,
    networks: HashMap<IpAddr, usize>,
    /// The flows of each identity.
    identities: HashMap<Arc<str>, Vec<Handle>>,
    /// Flows beyond their network's limit at an address that had a flow, and since when. They may replace
    /// that flow, or come beside it.
    beyond: VecDeque<(Instant, Handle)>,
    begun: Rates<IpAddr>,
    completed: Rates<Arc<str>>,
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
        // A client that comes again from its address may replace the flow that it has.
        let replaces = self.addresses.contains_key(&peer);
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
            let peer = self.clients.get(&handle).map(|client| client.peer);
            if let Some(peer) = peer.filter(|peer| self.exceeds_network(*peer)) {
                self.ended(handle);
                return Some((handle, peer));
            }
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
        if self.exceeds_network(peer) {
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
            self.uncount_peer(from);
            self.count_peer(to);
        }
    }

    /// A flow or handshake has ended.
    pub(crate) fn ended(&mut self, handle: Handle) {
        let Some(client) = self.clients.remove(&handle) else { return };
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

    fn count_peer(&mut self, peer: SocketAddr) {
        *self.addresses.entry(peer).or_default() += 1;
        *self.networks.entry(self.limits.network_bits.network(peer)).or_default() += 1;
    }

    fn uncount_peer(&mut self, peer: SocketAddr) {
        uncount(&mut self.addresses, &peer);
        uncount(&mut self.networks, &self.limits.network_bits.network(peer));
    }
}

fn uncount<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// How many events of each key were allowed lately: each key has `most` at once, and gets one back
/// every `interval` (the generic cell rate algorithm).
#[derive(Debug)]
struct Rates<K> {
    interval: Option<Duration>,
    /// When a key will have all of its events back. A key that is absent has them.
    full_at: HashMap<K, Instant>,
    /// When all the keys for which there is no room, taken together, will have their events back.
    others_full_at: Instant,
    purged_at: Option<Instant>,
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        let full_at = HashMap::new();
        Self { interval: None, full_at, others_full_at: Instant::ZERO, purged_at: None }
    }
}

impl<K: Hash + Eq> Rates<K> {
    /// At most `most` events of each key in a minute; `None` is unlimited.
    fn new(most: Option<u32>) -> Self {
        Self { interval: most.map(|most| MINUTE / most), ..Self::default() }
    }

    /// Takes one of the key's events, if it has one.
    fn take(&mut self, now: Instant, key: K) -> bool {
        let Some(interval) = self.interval else { return true };
        if self.full_at.len() >= MOST_COUNTED {
            self.purge(now);
        }
        let full_at = match self.full_at.len() < MOST_COUNTED {
            true => self.full_at.entry(key).or_insert(now),
            false => self.full_at.get_mut(&key).unwrap_or(&mut self.others_full_at),
        };
        let next = (*full_at).max(now) + interval;
        // Rounding must not take the last of the events away.
        let allowed = next.saturating_since(now) <= MINUTE;
        if allowed {
            *full_at = next;
        }
        allowed
    }

    fn purge(&mut self, now: Instant) {
        if self.purged_at.is_none_or(|at| now.saturating_since(at) >= PURGE) {
            self.purged_at = Some(now);
            self.full_at.retain(|_, full_at| *full_at > now);
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
        let settings = crate::proxy::settings().unwrap();
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

    #[test]
    fn many_networks_take_bounded_memory_and_share_one_limit() {
        let mut rates = Rates::new(Some(2));
        assert!((0..MOST_COUNTED).all(|key| rates.take(at(0), key)));
        let more = |rates: &mut Rates<usize>, seconds, first: usize| {
            (first..first + 10).filter(|key| rates.take(at(seconds), *key)).count()
        };
        assert_eq!(more(&mut rates, 1, MOST_COUNTED), 2, "strangers share");
        assert!(rates.take(at(1), 0), "one that is counted has its own");
        assert_eq!(rates.full_at.len(), MOST_COUNTED);
        // When all have their events back they are forgotten, and there is room again.
        assert_eq!(more(&mut rates, 100, MOST_COUNTED), 10);
        assert_eq!(rates.full_at.len(), 10);
    }
}
