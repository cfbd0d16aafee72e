//! A host's port to its LAN, for frames made beforehand.

use crate::Failure;
use crate::frames::ETHERTYPE;
use lightseal_packet_io::af_packet::{PacketPort, PacketSocketSettings};
use lightseal_packet_io::{Frame, Interface, LanPort, Pool, PoolSettings, Statistics, Waiter};
use std::time::Duration;

/// The longest frame in bytes.
const FRAME_BYTES: usize = 4096;
/// Number of frames in memory: enough for a batch that is sent and one that is received.
const FRAMES: usize = 512;

/// A packet socket and memory for its frames. It is opened on a thread in the host's namespace and
/// stays on that thread.
pub(crate) struct Station {
    port: PacketPort,
    pool: Pool,
    frames: Vec<Frame>,
    waiter: Waiter,
}

impl Station {
    /// Opens `interface` for MACsec frames to any destination.
    pub(crate) fn open(interface: &str) -> Result<Self, Failure> {
        let ethertypes = vec![ETHERTYPE];
        Self::open_with(interface, PacketSocketSettings::for_ethertypes(ethertypes))
    }

    /// Opens `interface` for all frames, of which up to `buffer_bytes` may wait in the kernel.
    pub(crate) fn open_for_all(interface: &str, buffer_bytes: usize) -> Result<Self, Failure> {
        let mut settings = PacketSocketSettings::default();
        settings.buffer_bytes = buffer_bytes;
        Self::open_with(interface, settings)
    }

    fn open_with(interface: &str, settings: PacketSocketSettings) -> Result<Self, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::not_here(interface, why);
        let found = Interface::find(interface).map_err(|why| failed(&why))?;
        let port = PacketPort::open(&found, &settings).map_err(|why| failed(&why))?;
        let pool = Pool::new(PoolSettings::new(FRAME_BYTES, FRAMES)).map_err(|why| failed(&why))?;
        Ok(Self { port, pool, frames: Vec::new(), waiter: Waiter::new(Duration::ZERO) })
    }

    /// Sends frames as far as the interface accepts them, and returns how many it accepted. The
    /// others are dropped, since a flood does not wait.
    pub(crate) fn send<'a>(
        &mut self,
        frames: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, Failure> {
        debug_assert!(self.frames.is_empty());
        for bytes in frames {
            self.frames.extend(self.pool.allocate_with(bytes));
        }
        let sent = self.port.transmit(&mut self.pool, &mut self.frames);
        self.pool.release_all(self.frames.drain(..));
        sent.map_err(|error| Failure::broken("a host's port", error))
    }

    /// The statistics of the port.
    pub(crate) fn statistics(&self) -> Statistics {
        self.port.statistics()
    }

    /// Waits for frames for at most `patience`, and calls `show` with each frame that arrived.
    pub(crate) fn receive(
        &mut self,
        patience: Duration,
        mut show: impl FnMut(&[u8]),
    ) -> Result<usize, Failure> {
        let failed = |error| Failure::broken("a host's port", error);
        self.waiter.wait(&[&self.port], Some(patience)).map_err(failed)?;
        let count = self.port.receive(&mut self.pool, &mut self.frames).map_err(failed)?;
        for frame in &self.frames {
            show(self.pool.bytes(frame));
        }
        self.pool.release_all(self.frames.drain(..));
        Ok(count)
    }
}
