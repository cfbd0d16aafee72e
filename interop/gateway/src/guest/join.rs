//! Ways to join the cables of the guest's MACsec endpoints.

use super::between::{Between, Weather};
use super::{End, Guest};
use crate::Failure;
use crate::daemon::{Daemon, Scratch};
use crate::gateways::{self, Post, Setup};
use crate::namespace::Namespace;
use std::path::PathBuf;

/// A way to join all endpoints of a guest to one network.
pub trait Join {
    /// The name in options and reports.
    fn name(&self) -> &str;

    /// The description in reports: what joins the endpoints.
    fn about(&self) -> String;

    /// Whether MKA's frames pass.
    fn carries_mka(&self) -> bool;

    /// Whether this is a bridge in the guest's own namespace on this machine.
    fn is_bridge(&self) -> bool {
        false
    }

    /// Checks whether this machine can do it.
    ///
    /// # Errors
    /// This machine lacks something: what it is.
    fn require(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Joins the endpoints. They stay joined until the returned value is dropped.
    ///
    /// # Errors
    /// This machine cannot do it, or a program that is started for it fails.
    fn join(&self, guest: &Guest) -> Result<Box<dyn Joined>, Failure>;
}

/// Endpoints that are joined, and disturbances of what joins them.
pub trait Joined {
    /// Kills the program that joins this endpoint with the others, and starts it again.
    ///
    /// # Errors
    /// There is no such program, or it does not work after the start.
    fn restart(&mut self, end: End) -> Result<(), Failure>;

    /// Loses and reorders packets between the endpoints while `during` runs, and counts them.
    ///
    /// # Errors
    /// No network between can lose packets, or `during` fails.
    fn disturbed(
        &mut self,
        during: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<Weather, Failure>;
}

/// A Linux bridge that forwards MKA's frames, as a single cable would.
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
        Err(Failure::Broken("a bridge has no program that could be restarted".into()))
    }

    fn disturbed(
        &mut self,
        _: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<Weather, Failure> {
        Err(Failure::Broken("a bridge cannot be made to lose packets".into()))
    }
}

/// One of our gateways at the cable of each endpoint, and an untrusted network between them.
#[derive(Clone, Debug)]
pub struct Gateways {
    /// The name in options and reports.
    pub name: &'static str,
    /// The path of the program `lightseal`.
    pub program: PathBuf,
    /// The gateways' configuration.
    pub setup: Setup,
}

/// The MTU between gateways in bytes: a full frame and what gateways add to it fit in.
const UNDERLAY_MTU: u32 = 1600;
/// A gateway's interface to the others.
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
        let setup = self.setup;
        Ok(Box::new(Running { running, places, between, scratch, program, setup }))
    }
}

/// Running gateways. The fields are in the order in which they must be dropped.
struct Running {
    running: Vec<Daemon>,
    places: Vec<Place>,
    between: Between,
    scratch: Scratch,
    program: PathBuf,
    setup: Setup,
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
        let mut again = gateways::launch(&self.program, &self.setup, &post, number, &self.scratch)?;
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
