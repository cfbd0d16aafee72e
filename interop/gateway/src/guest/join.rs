//! What joins the cables of the guest's ends.

use super::Guest;
use crate::Failure;
use crate::daemon::Scratch;
use crate::gateways::{self, Post, Setup};
use crate::namespace::Namespace;
use std::any::Any;
use std::path::PathBuf;

/// A way to join all ends of a guest to one network.
pub trait Join {
    /// As a word.
    fn name(&self) -> &str;

    /// In a sentence: what joins them.
    fn about(&self) -> String;

    /// Whether MKA gets through.
    fn carries_mka(&self) -> bool;

    /// Whether it is a bridge of the guest's own room.
    fn is_bridge(&self) -> bool {
        false
    }

    /// Whether it can be had here.
    ///
    /// # Errors
    /// What is missing.
    fn require(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Joins the ends. What is given back lasts as long as they are to be joined.
    ///
    /// # Errors
    /// When it cannot be done here, or something that is started for it fails.
    fn join(&self, guest: &Guest) -> Result<Box<dyn Any>, Failure>;
}

/// A Linux bridge that lets MKA through: as good as one cable.
#[derive(Clone, Copy, Debug)]
pub struct Bridge;

impl Join for Bridge {
    fn name(&self) -> &str {
        "bridge"
    }

    fn about(&self) -> String {
        "a bridge".into()
    }

    fn is_bridge(&self) -> bool {
        true
    }

    fn carries_mka(&self) -> bool {
        true
    }

    fn join(&self, guest: &Guest) -> Result<Box<dyn Any>, Failure> {
        guest.join_by_bridge()?;
        Ok(Box::new(()))
    }
}

/// A gateway of ours at the cable of each end, and a network that nobody trusts between them.
#[derive(Clone, Debug)]
pub struct Gateways {
    /// As a word.
    pub name: &'static str,
    /// The `lightseal` program.
    pub program: PathBuf,
    /// How they are set up.
    pub setup: Setup,
}

/// In bytes: what is added to a full frame still fits.
const UNDERLAY_MTU: u32 = 1600;
/// A gateway's interface towards the others.
const WAN: &str = "wan";

impl Join for Gateways {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> String {
        let Setup { scheme, lan_io, underlay_io, .. } = self.setup;
        let short = if self.setup.compress { ", short headers" } else { "" };
        format!("a gateway each: {scheme}{short}, LAN by {lan_io}, underlay by {underlay_io}")
    }

    fn carries_mka(&self) -> bool {
        true
    }

    fn require(&self) -> Result<(), Failure> {
        gateways::require(&self.program)
    }

    fn join(&self, guest: &Guest) -> Result<Box<dyn Any>, Failure> {
        let scratch = Scratch::new("gateways")?;
        let between = Namespace::new("between")?;
        between.ip("link add net type bridge mcast_snooping 0")?;
        between.ip("link set net up")?;
        let mut places = Vec::new();
        for end in guest.ends() {
            let place = Namespace::new("gw")?;
            let port = format!("to-{}", end.name());
            place.cable(WAN, &between, &port, UNDERLAY_MTU)?;
            between.ip(&format!("link set {port} master net"))?;
            let address = format!("192.0.2.{}", 1 + end as u8);
            place.ip(&format!("addr add {address}/24 dev {WAN}"))?;
            guest.hand_over(end, &place)?;
            places.push((place, end.tap(), address));
        }
        let posts: Vec<_> = places
            .iter()
            .map(|(place, lan, address)| Post { place, lan, wan: WAN, address })
            .collect();
        let running = gateways::start(&self.program, &self.setup, &posts, &scratch)?;
        // In the order in which they are to end.
        Ok(Box::new((running, places, between, scratch)))
    }
}
