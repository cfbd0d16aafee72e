//! The description of a network: its topology, its link layer and its devices.

use crate::Error;
use crate::channels::{ChannelModel, Channels, LinkChannel};
use crate::energy::Device;
use crate::links::Layer;
use crate::world::{Node, Topology, World};
use core::time::Duration;
use lightseal_core::Random;

/// Everything about a simulated world except the programs of its nodes.
#[derive(Clone, Debug)]
pub struct Network {
    /// Which nodes hear each other, and how packets are routed.
    pub topology: Topology,
    /// The link layer and its settings.
    pub layer: Layer,
    /// The channel of all links that `rules` does not name.
    pub channel: ChannelModel,
    /// The links whose channel differs.
    pub rules: Vec<LinkChannel>,
    /// Whether acknowledgements can be lost as well.
    pub lost_acknowledgements: bool,
    /// The device that all nodes are.
    pub device: Device,
    /// Whether computation takes time.
    pub computes: bool,
    /// The delay from a datagram's arrival to the node's answer, in addition to its computation.
    pub answer_delay: Duration,
}

impl Network {
    /// A line of nodes without loss. The devices are those of the paper's experiments on preamble
    /// sampling, and their computation takes no time.
    pub fn line(nodes: u16, layer: Layer) -> Self {
        Self {
            topology: Topology::line(nodes),
            layer,
            channel: ChannelModel::PERFECT,
            rules: Vec::new(),
            lost_acknowledgements: true,
            device: Device::by_name("wismote").expect("a known device"),
            computes: false,
            answer_delay: Duration::ZERO,
        }
    }

    /// The network with another packet delivery ratio.
    #[must_use]
    pub fn with_delivery(mut self, delivery: f64) -> Self {
        self.channel = ChannelModel::Bernoulli { delivery };
        self
    }

    /// A world of this network without nodes.
    ///
    /// # Errors
    ///
    /// Fails when the link layer does not suit the topology.
    pub fn world<N: Node>(&self, mut random: Random) -> Result<World<N>, Error> {
        let link = self.layer.settings().build(&self.topology, &mut random.fork());
        let link = link.map_err(Error::InvalidSetting)?;
        let channels = Channels::new(&self.channel, &self.rules, self.lost_acknowledgements);
        let mut world = World::new(self.topology.clone(), link, channels, random);
        if self.computes {
            world.compute(self.device.cpu);
        }
        world.answer_delay(self.answer_delay);
        Ok(world)
    }
}
