//! What joins the cables of the guest's ends.

use super::between::{Between, Weather};
use super::{End, Guest};
use crate::Failure;
use crate::daemon::{Daemon, Scratch};
use crate::gateways::{self, Post, Setup};
use crate::namespace::Namespace;
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
    fn join(&self, guest: &Guest) -> Result<Box<dyn Joined>, Failure>;
}

/// What joins the ends, for as long as it lasts, and what can happen to it.
pub trait Joined {
    /// What joins an end is killed, and started again.
    ///
    /// # Errors
    /// When nothing does that could be, or it does not come back.
    fn restart(&mut self, end: End) -> Result<(), Failure>;

    /// Packets between the ends are lost and overtaken while `during` runs; how many.
    ///
    /// # Errors
    /// When there are none, or `during` fails.
    fn disturbed(
        &mut self,
        during: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<Weather, Failure>;
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

    fn join(&self, guest: &Guest) -> Result<Box<dyn Joined>, Failure> {
        guest.join_by_bridge()?;
        Ok(Box::new(*self))
    }
}

impl Joined for Bridge {
    fn restart(&mut self, _: End) -> Result<(), Failure> {
        Err(Failure::Broken("a bridge is not started".into()))
    }

    fn disturbed(
        &mut self,
        _: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<Weather, Failure> {
        Err(Failure::Broken("a bridge loses nothing".into()))
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

    fn join(&self, guest: &Guest) -> Result<Box<dyn Joined>, Failure> {
        let scratch = Scratch::new("gateways")?;
        let mut between = Between::new()?;
        let mut places = Vec::new();
        for end in guest.ends() {
            let place = Namespace::new("gw")?;
            between.connect(&place, WAN, UNDERLAY_MTU)?;
            let address = format!("192.0.2.{}", 1 + end as u8);
            place.ip(&format!("addr add {address}/24 dev {WAN}"))?;
            guest.hand_over(end, &place)?;
            places.push(Place { place, lan: end.tap(), address });
        }
        let posts: Vec<_> = places.iter().map(Place::post).collect();
        let running = gateways::start(&self.program, &self.setup, &posts, &scratch)?;
        let program = self.program.clone();
        Ok(Box::new(Running { running, places, between, scratch, program }))
    }
}

/// Gateways that carry. The fields are in the order in which they are to end.
struct Running {
    running: Vec<Daemon>,
    places: Vec<Place>,
    between: Between,
    scratch: Scratch,
    program: PathBuf,
}

struct Place {
    place: Namespace,
    lan: &'static str,
    address: String,
}

impl Place {
    fn post(&self) -> Post<'_> {
        Post { place: &self.place, lan: self.lan, wan: WAN, address: &self.address }
    }
}

impl Joined for Running {
    fn restart(&mut self, end: End) -> Result<(), Failure> {
        let number = end as usize;
        self.running.remove(number).kill();
        let post = self.places[number].post();
        let mut again = gateways::launch(&self.program, &post, number, &self.scratch)?;
        let peers = self.places.len() - 1;
        gateways::await_peers(&self.program, &mut again, number, peers, &self.scratch)?;
        self.running.insert(number, again);
        Ok(())
    }

    fn disturbed(
        &mut self,
        during: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<Weather, Failure> {
        self.between.disturbed(during)
    }
}
