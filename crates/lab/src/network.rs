//! A network as its planner sees it: where nodes are, how they speak, and what they are made of.

use crate::Error;
use crate::channels::{Channels, Model, Rule};
use crate::energy::Device;
use crate::links::Layer;
use crate::world::{Node, Topology, World};
use core::time::Duration;
use vocabulary::Random;

/// Everything about a world but its nodes' programs.
#[derive(Clone, Debug)]
pub struct Network {
    /// Who hears whom.
    pub topology: Topology,
    /// How frames get from radio to radio.
    pub layer: Layer,
    /// Which frames arrive.
    pub channel: Model,
    /// Links with another channel.
    pub rules: Vec<Rule>,
    /// Whether channels strike acknowledgements too.
    pub lost_acknowledgements: bool,
    /// What nodes are made of.
    pub device: Device,
    /// Whether processors take their time.
    pub computes: bool,
    /// How long after a datagram a node sends what it says to it, beside what it computes.
    pub answer_after: Duration,
}

impl Network {
    /// A line without loss, of devices as the paper used on preamble sampling, which compute at
    /// once.
    pub fn line(nodes: u16, layer: Layer) -> Self {
        Self {
            topology: Topology::line(nodes),
            layer,
            channel: Model::PERFECT,
            rules: Vec::new(),
            lost_acknowledgements: true,
            device: Device::by_name("wismote").expect("it is among the devices"),
            computes: false,
            answer_after: Duration::ZERO,
        }
    }

    /// The same with another packet delivery ratio.
    #[must_use]
    pub fn with_delivery(mut self, delivery: f64) -> Self {
        self.channel = Model::Bernoulli { delivery };
        self
    }

    /// A world without nodes.
    ///
    /// # Errors
    /// When the link layer does not suit the topology.
    pub fn world<N: Node>(&self, mut random: Random) -> Result<World<N>, Error> {
        let link = self.layer.setting().build(&self.topology, &mut random.fork());
        let link = link.map_err(Error::Fault)?;
        let channels = Channels::new(&self.channel, &self.rules, self.lost_acknowledgements);
        let mut world = World::new(self.topology.clone(), link, channels, random);
        if self.computes {
            world.compute(self.device.cpu);
        }
        world.answer_after(self.answer_after);
        Ok(world)
    }
}
