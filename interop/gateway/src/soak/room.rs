//! Three LANs of a host and a gateway each, and a network that joins the gateways.
//!
//! ```text
//! host ── lan ── gateway ── wan ──┐
//! host ── lan ── gateway ── wan ──┼── between
//! host ── lan ── gateway ── wan ──┘
//! ```

use super::counters::{Interface, Told};
use super::flows::SITES;
use crate::Failure;
use crate::gateways::Post;
use crate::namespace::Namespace;
use crate::site::{LAN, Mtu, WAN};

/// The namespaces; gateways are not running yet.
#[derive(Debug)]
pub struct Room {
    /// By site.
    pub hosts: Vec<Namespace>,
    /// By site.
    pub gateways: Vec<Namespace>,
    addresses: Vec<String>,
    _between: Namespace,
}

/// What was counted everywhere at one moment.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Of the gateways' programs.
    pub told: Vec<Told>,
    /// Of the gateways' interfaces of their LANs.
    pub lan: Vec<Interface>,
    /// Of the gateways' interfaces towards each other.
    pub wan: Vec<Interface>,
    /// Of the hosts' interfaces.
    pub host: Vec<Interface>,
}

impl Room {
    /// Lays the cables.
    ///
    /// # Errors
    /// [`Failure::NotHere`] where namespaces are forbidden.
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

    /// Where gateways are to be started.
    pub fn posts(&self) -> Vec<Post<'_>> {
        let places = self.gateways.iter().zip(&self.addresses);
        places.map(|(place, address)| Post { place, lan: LAN, wan: WAN, address }).collect()
    }

    /// Asks everything that counts.
    ///
    /// # Errors
    /// When something does not answer.
    pub fn count(&self) -> Result<Counted, Failure> {
        let of = |places: &[Namespace], name: &str| {
            places.iter().map(|place| Interface::ask(place, name)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Counted {
            told: self.gateways.iter().map(Told::ask).collect::<Result<_, _>>()?,
            lan: of(&self.gateways, LAN)?,
            wan: of(&self.gateways, WAN)?,
            host: of(&self.hosts, LAN)?,
        })
    }
}

impl Counted {
    /// What was counted since `earlier`.
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
