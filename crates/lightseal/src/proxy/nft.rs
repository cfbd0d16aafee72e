//! `lightseal proxy fleet nft`: rules with which the kernel shares out datagrams among the nodes of a
//! fleet, without remembering anything about them.
//!
//! A datagram whose first record has a connection ID goes to the node that owns the ID's slot, and any
//! other to a node that its sender's address decides. Later fragments of a datagram have neither, so
//! fragments are counted and dropped.

use crate::database::StoreUrl;
use crate::failure::{Context, Failure};
use crate::proxy::fleet::slots::{NodeNumber, SLOTS, rightful_owner};
use crate::proxy::state::Owners;
use crate::units::counted;
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

/// The name of the tables, of which each address family has one.
const TABLE: &str = "lightseal_fleet";

#[derive(Clone, Debug, Args)]
pub(crate) struct FleetNftArgs {
    /// Address of the fleet, to which devices send. Give one of IPv4, one of IPv6, or both.
    #[arg(long = "address", value_name = "ADDR", required = true)]
    addresses: Vec<IpAddr>,
    /// Port of the fleet, on which its nodes listen too.
    #[arg(long, default_value_t = 5684)]
    port: u16,
    /// A node, and its address in the family of an --address. Give each node with an address for each
    /// of these families.
    #[arg(long = "node", value_name = "NUMBER=ADDR", required = true)]
    nodes: Vec<NodeAddress>,
    /// Database of the fleet, which says whose each slot is. The user needs the right to read the table
    /// lightseal.slot [default: the slots are shared among the nodes as if all of them were there].
    #[arg(long, value_name = "URL")]
    store: Option<StoreUrl>,
    /// Print only what replaces the map of slots in rules that are in use, in one transaction.
    #[arg(long)]
    map: bool,
    /// Have nft load the rules instead of printing them, and whenever slots move, replace the map.
    /// While the database does not answer, the last map stays.
    #[arg(long, requires = "store", conflicts_with = "map")]
    follow: bool,
}

/// What `--node` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeAddress(NodeNumber, IpAddr);

impl FromStr for NodeAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, address) =
            text.split_once('=').ok_or("expected NUMBER=ADDR, as 1=10.0.0.1")?;
        let address = address.parse().map_err(|_| format!("{address} is no IP address"))?;
        Ok(Self(number.parse()?, address))
    }
}

/// Prints the rules, or loads them.
///
/// # Errors
///
/// If there are two addresses of one family, a node lacks one, the database does not answer, or the
/// rules cannot be written or loaded.
pub(crate) fn run(args: &FleetNftArgs) -> Result<(), Failure> {
    let mut database = args.store.clone().map(Owners::new).transpose()?;
    let numbers = || args.nodes.iter().map(|node| node.0);
    let mut owners = match &mut database {
        Some(database) => database.read()?,
        None => std::array::from_fn(|slot| rightful_owner(slot as u8, numbers())),
    };
    let mut rules = Rules::all(args, owners)?;
    if !args.follow {
        let text = written(&rules, if args.map { Rules::write_map } else { Rules::write });
        return std::io::stdout().lock().write_all(text.as_bytes()).context("standard output");
    }
    load(&written(&rules, Rules::write))?;
    tracing::info!("the rules are loaded; their map follows the slots");
    let mut fails = false;
    while let Some(database) = &mut database {
        std::thread::sleep(LOOK);
        let read = match database.read() {
            Ok(read) => read,
            Err(failure) => {
                if !std::mem::replace(&mut fails, true) {
                    tracing::warn!("{failure}; the last map stays");
                }
                continue;
            }
        };
        if std::mem::take(&mut fails) {
            tracing::info!("the database answers again");
        }
        if read != owners {
            let moved = read.iter().zip(&owners).filter(|(new, old)| new != old).count();
            owners = read;
            rules = Rules::all(args, owners)?;
            load(&written(&rules, Rules::write_map))?;
            tracing::info!("{} moved to other nodes", counted(moved as u64, "slot"));
        }
    }
    Ok(())
}

/// How often a program that follows the slots looks at them.
const LOOK: Duration = Duration::from_millis(500);

fn written(all: &[Rules], write: fn(&Rules, &mut String) -> fmt::Result) -> String {
    let mut text = String::new();
    all.iter().try_for_each(|rules| write(rules, &mut text)).expect("a String takes everything");
    text
}

/// Has nft load a text, as one transaction.
fn load(text: &str) -> Result<(), Failure> {
    let nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn();
    let mut nft = nft.context("nft (the package nftables)")?;
    let written = nft.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    let status = nft.wait().context("nft")?;
    written.transpose().context("nft")?;
    if status.success() { Ok(()) } else { Err(Failure::new("nft does not take the rules")) }
}

/// An address family, by its name for nft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The name of the table's family and of its header.
    const fn name(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    /// What matches a fragment, the first one included.
    const fn fragment(self) -> &'static str {
        match self {
            // The flag for more fragments, and the offset.
            Self::V4 => "ip frag-off & 0x3fff != 0",
            Self::V6 => "exthdr frag exists",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// The rules of one address family.
struct Rules {
    family: Family,
    address: IpAddr,
    port: u16,
    owners: [Option<NodeNumber>; SLOTS],
    nodes: BTreeMap<NodeNumber, IpAddr>,
}

impl Rules {
    /// The rules of all families that the fleet has.
    fn all(args: &FleetNftArgs, owners: [Option<NodeNumber>; SLOTS]) -> Result<Vec<Self>, Failure> {
        let mut all = Vec::<Self>::new();
        for address in &args.addresses {
            let family = Family::of(*address);
            if all.iter().any(|other| other.family == family) {
                return Err(Failure::new(format_args!("two of --address are {family}: give one")));
            }
            all.push(Self::new(family, *address, args, owners)?);
        }
        for NodeAddress(number, address) in &args.nodes {
            let family = Family::of(*address);
            if !all.iter().any(|of| of.family == family) {
                let why =
                    format_args!("node {number} has an address of {family}, the fleet has none");
                return Err(Failure::new(why));
            }
        }
        let nameless =
            owners.iter().flatten().find(|owner| args.nodes.iter().all(|of| of.0 != **owner));
        if let Some(owner) = nameless {
            tracing::warn!("node {owner} has slots, and no --node says where it is");
        }
        Ok(all)
    }

    fn new(
        family: Family,
        address: IpAddr,
        args: &FleetNftArgs,
        owners: [Option<NodeNumber>; SLOTS],
    ) -> Result<Self, Failure> {
        let mut nodes = BTreeMap::new();
        for NodeAddress(number, address) in &args.nodes {
            if Family::of(*address) == family && nodes.insert(*number, *address).is_some() {
                let why = format_args!("node {number} has two addresses of {family}");
                return Err(Failure::new(why));
            }
        }
        if let Some(NodeAddress(number, _)) =
            args.nodes.iter().find(|of| !nodes.contains_key(&of.0))
        {
            return Err(Failure::new(format_args!("node {number} has no address of {family}")));
        }
        Ok(Self { family, address, port: args.port, owners, nodes })
    }

    /// The elements of the map from slots to addresses.
    fn elements(&self) -> String {
        let mut elements = String::new();
        for (slot, owner) in self.owners.iter().enumerate() {
            if let Some(address) = owner.and_then(|owner| self.nodes.get(&owner)) {
                let comma = if elements.is_empty() { "" } else { ", " };
                let _ = write!(elements, "{comma}{slot:#04x} : {address}");
            }
        }
        elements
    }

    /// Writes what replaces the map, in one transaction.
    fn write_map(&self, out: &mut String) -> fmt::Result {
        let family = self.family.name();
        writeln!(out, "flush map {family} {TABLE} slots")?;
        writeln!(out, "add element {family} {TABLE} slots {{ {} }}", self.elements())
    }

    /// Writes all rules, which replace what is there.
    fn write(&self, out: &mut String) -> fmt::Result {
        let Self { family, address, port, .. } = self;
        let (name, fragment) = (family.name(), family.fragment());
        let addresses: Vec<_> = self.nodes.values().map(ToString::to_string).collect();
        let (addresses, elements) = (addresses.join(", "), self.elements());
        write!(
            out,
            "\
# The fleet at {address}, port {port}: {family}. Load this with `nft -f FILE`.
table {name} {TABLE}
delete table {name} {TABLE}
table {name} {TABLE} {{
\tcounter by_id {{ comment \"datagrams with a connection ID\" }}
\tcounter by_address {{ comment \"all other datagrams\" }}
\tcounter fragments {{ comment \"fragments, which are dropped\" }}

\tmap slots {{
\t\ttypeof @th,72,8 : {name} daddr
\t\telements = {{ {elements} }}
\t}}

\tset nodes {{
\t\ttype {address_type}
\t\telements = {{ {addresses} }}
\t}}

\tchain arriving {{
\t\ttype filter hook prerouting priority raw; policy accept;
\t\t{name} daddr {address} meta l4proto udp {fragment} counter name fragments drop
\t\t{name} daddr {address} udp dport {port} goto share
\t\t{name} daddr @nodes udp dport {port} notrack
\t\t{name} saddr @nodes udp sport {port} notrack
\t}}

\tchain share {{
\t\tnotrack
\t\t# DTLS 1.3 with a connection ID: 001C in the first byte. DTLS 1.2: content type 25.
\t\t@th,64,4 0x3 {name} daddr set @th,72,8 map @slots counter name by_id accept
\t\t@th,64,8 0x19 {name} daddr set @th,152,8 map @slots counter name by_id accept
\t\t{name} daddr set jhash {name} saddr . udp sport mod 256 map @slots counter name by_address
\t}}

\tchain answering {{
\t\ttype filter hook output priority raw; policy accept;
\t\t{name} saddr @nodes udp sport {port} notrack
\t}}

\tchain leaving {{
\t\ttype filter hook postrouting priority srcnat; policy accept;
\t\t{name} saddr @nodes udp sport {port} {name} saddr set {address}
\t}}
}}
",
            address_type = match family {
                Family::V4 => "ipv4_addr",
                Family::V6 => "ipv6_addr",
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(map: bool) -> String {
        let nodes = ["1=10.0.0.1", "2=10.0.0.2", "1=fd00::1", "2=fd00::2"];
        let args = FleetNftArgs {
            addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
            port: 5684,
            nodes: nodes.iter().map(|node| node.parse().unwrap()).collect(),
            store: None,
            map,
            follow: false,
        };
        let owners = std::array::from_fn(|slot| Some(NodeNumber(1 + slot as u8 % 2)));
        let all = Rules::all(&args, owners).unwrap();
        if map { written(&all, Rules::write_map) } else { written(&all, Rules::write) }
    }

    #[test]
    fn each_slot_leads_to_its_node_in_both_families() {
        for text in [rules(false), rules(true)] {
            for element in
                ["0x00 : 10.0.0.1", "0xff : 10.0.0.2", "0x7e : fd00::1", "0x7f : fd00::2"]
            {
                assert_eq!(text.matches(element).count(), 1, "{element} in\n{text}");
            }
        }
        let map = rules(true);
        assert_eq!(map.lines().count(), 4);
        assert!(!rules(false).contains("flush map"));
    }

    #[test]
    fn a_node_is_a_number_and_an_address() {
        assert_eq!("7=::1".parse(), Ok(NodeAddress(NodeNumber(7), "::1".parse().unwrap())));
        for wrong in ["7", "7=", "300=::1", "=::1", "7=host", "7=10.0.0.1:5684"] {
            assert!(wrong.parse::<NodeAddress>().is_err(), "{wrong}");
        }
    }
}
