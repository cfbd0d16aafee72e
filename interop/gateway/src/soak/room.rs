//! Three LANs with a host and a gateway each, and a network that joins the gateways.
//!
//! ```text
//! host ── lan ── gateway ── wan ──┐
//! host ── lan ── gateway ── wan ──┼── between
//! host ── lan ── gateway ── wan ──┘
//! ```

use super::counters::{Interface, MetricSamples};
use super::flows::SITES;
use crate::Failure;
use crate::gateways::Post;
use crate::namespace::Namespace;
use crate::site::{LAN, Mtu, WAN};

/// The namespaces of the network. Gateways are not running yet.
#[derive(Debug)]
pub struct Room {
    /// The hosts by site.
    pub hosts: Vec<Namespace>,
    /// The gateways by site.
    pub gateways: Vec<Namespace>,
    addresses: Vec<String>,
    _between: Namespace,
}

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct CounterSnapshot {
    /// The counters of the gateways' programs, by site.
    pub told: Vec<MetricSamples>,
    /// The counters of the gateways' interfaces to their LANs, by site.
    pub lan: Vec<Interface>,
    /// The counters of the gateways' interfaces to each other, by site.
    pub wan: Vec<Interface>,
    /// The counters of the hosts' interfaces, by site.
    pub host: Vec<Interface>,
}

impl Room {
    /// Makes the namespaces and lays the cables.
    ///
    /// # Errors
    /// [`Failure::NotHere`] if namespaces are forbidden.
    pub fn build(mtu: Mtu) -> Result<Self, Failure> {
        let between = Namespace::new("between")?;
        between.ip("link add net type bridge mcast_snooping 0")?;
        between.ip("link set net up")?;
        let (mut hosts, mut gateways, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for site in 0..SITES {
            let (host, gateway) = (Namespace::new("host")?, Namespace::new("gw")?);
            host.cable(LAN, &gateway, LAN, mtu.lan)?;
            let port = format!("to-{site}");
            gateway.cable(WAN, &between, &port, mtu.underlay)?;
            between.ip(&format!("link set {port} master net"))?;
            let address = format!("192.0.2.{}", 1 + site);
            gateway.ip(&format!("addr add {address}/24 dev {WAN}"))?;
            hosts.push(host);
            gateways.push(gateway);
            addresses.push(address);
        }
        Ok(Self { hosts, gateways, addresses, _between: between })
    }

    /// The places at which gateways are to be started.
    pub fn posts(&self) -> Vec<Post<'_>> {
        let places = self.gateways.iter().zip(&self.addresses);
        places.map(|(place, address)| Post { place, lan: LAN, wan: WAN, address }).collect()
    }

    /// Reads all counters.
    ///
    /// # Errors
    /// A gateway or an interface does not answer.
    pub fn count(&self) -> Result<CounterSnapshot, Failure> {
        let of = |places: &[Namespace], name: &str| {
            places.iter().map(|place| Interface::ask(place, name)).collect::<Result<Vec<_>, _>>()
        };
        Ok(CounterSnapshot {
            told: self.gateways.iter().map(MetricSamples::ask).collect::<Result<_, _>>()?,
            lan: of(&self.gateways, LAN)?,
            wan: of(&self.gateways, WAN)?,
            host: of(&self.hosts, LAN)?,
        })
    }
}

impl CounterSnapshot {
    /// The growth since `earlier`.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        let interfaces = |now: Vec<Interface>, then: &[Interface]| {
            now.into_iter().zip(then).map(|(now, then)| now.since(*then)).collect()
        };
        let told = self.told.into_iter().zip(&earlier.told);
        Self {
            told: told.map(|(now, then)| now.since(then)).collect(),
            lan: interfaces(self.lan, &earlier.lan),
            wan: interfaces(self.wan, &earlier.wan),
            host: interfaces(self.host, &earlier.host),
        }
    }
}
