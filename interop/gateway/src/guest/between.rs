//! The network between gateways: a bridge, which can be made to lose and reorder packets for a
//! time.

use crate::Failure;
use crate::gateways::PORT;
use crate::namespace::Namespace;
use lightseal_packet_io::af_packet::{PacketPort, PacketSocketSettings};
use lightseal_packet_io::{Frame, Interface, LanPort, Pollable, Pool, PoolSettings, Waiter};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// One in this number of the tunnel's packets is lost.
const LOSE_EVERY: u64 = 20;
/// One in this number of the tunnel's packets is delayed.
const DELAY_EVERY: u64 = 23;
/// Number of packets by which a delayed packet is overtaken.
const DELAY: u64 = 5;
/// How often the network checks whether it shall be a bridge again.
const LOOK: Duration = Duration::from_millis(5);

/// Counts of the tunnel's packets while the network was disturbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// All packets that arrived.
    pub came: u64,
    /// Packets that were lost on purpose.
    pub lost: u64,
    /// Packets that were delayed, and so overtaken by others.
    pub late: u64,
}

/// The network between gateways.
#[derive(Debug)]
pub(super) struct Between {
    place: Namespace,
    ports: Vec<String>,
}

impl Between {
    /// A network without gateways yet.
    pub(super) fn new() -> Result<Self, Failure> {
        let place = Namespace::new("between")?;
        place.ip("link add net type bridge mcast_snooping 0")?;
        place.ip("link set net up")?;
        Ok(Self { place, ports: Vec::new() })
    }

    /// Makes `interface` in a gateway's namespace and connects it to the network.
    pub(super) fn connect(
        &mut self,
        gateway: &Namespace,
        interface: &str,
        mtu_bytes: u32,
    ) -> Result<(), Failure> {
        let port = format!("port-{}", self.ports.len());
        gateway.cable(interface, &self.place, &port, mtu_bytes)?;
        self.place.ip(&format!("link set {port} master net"))?;
        self.ports.push(port);
        Ok(())
    }

    /// Loses and reorders packets of the tunnel while `during` runs. Other packets, such as those
    /// of the management channel, pass unchanged.
    pub(super) fn disturbed(
        &self,
        during: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<Weather, Failure> {
        for port in &self.ports {
            self.place.ip(&format!("link set {port} nomaster"))?;
        }
        let done = AtomicBool::new(false);
        let (outcome, weather) = thread::scope(|scope| {
            let network = scope.spawn(|| self.place.within(|| network(&self.ports, &done)));
            let outcome = during();
            done.store(true, Ordering::Relaxed);
            let weather = network.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (outcome, weather)
        });
        for port in &self.ports {
            self.place.ip(&format!("link set {port} master net"))?;
        }
        outcome?;
        weather?
    }
}

/// Forwards each frame that arrives at one port to all others, with loss and delays.
fn network(names: &[String], done: &AtomicBool) -> Result<Weather, Failure> {
    let open = |name: &String| {
        let found = Interface::find(name).map_err(|why| Failure::not_here(name, why))?;
        PacketPort::open(&found, &PacketSocketSettings::default())
            .map_err(|why| Failure::not_here(name, why))
    };
    let mut ports = names.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
    let settings = PoolSettings::new(2048, 1024);
    let mut pool = Pool::new(settings).map_err(|why| Failure::not_here("memory", why))?;
    let mut waiter = Waiter::new(Duration::ZERO);
    let failed = |error| Failure::broken("the network between gateways", error);
    let (mut weather, mut late, mut came) = (Weather::default(), VecDeque::new(), Vec::new());
    while !done.load(Ordering::Relaxed) {
        let sources: Vec<&dyn Pollable> = ports.iter().map(|port| port as &dyn Pollable).collect();
        waiter.wait(&sources, Some(LOOK)).map_err(failed)?;
        for from in 0..ports.len() {
            ports[from].receive(&mut pool, &mut came).map_err(failed)?;
            for frame in came.drain(..) {
                if is_tunnel(pool.bytes(&frame)) {
                    weather.came += 1;
                    if weather.came.is_multiple_of(LOSE_EVERY) {
                        weather.lost += 1;
                        pool.release(frame);
                        continue;
                    }
                    if weather.came.is_multiple_of(DELAY_EVERY) {
                        weather.late += 1;
                        late.push_back((weather.came + DELAY, from, frame));
                        continue;
                    }
                }
                pass(&mut ports, &mut pool, from, frame).map_err(failed)?;
            }
        }
        while late.front().is_some_and(|(due, ..)| *due <= weather.came) {
            let Some((_, from, frame)) = late.pop_front() else { break };
            pass(&mut ports, &mut pool, from, frame).map_err(failed)?;
        }
    }
    Ok(weather)
}

fn pass(
    ports: &mut [PacketPort],
    pool: &mut Pool,
    from: usize,
    frame: Frame,
) -> std::io::Result<()> {
    for (_, port) in ports.iter_mut().enumerate().filter(|(at, _)| *at != from) {
        let mut copy: Vec<_> = pool.copy(&frame).into_iter().collect();
        let sent = port.transmit(pool, &mut copy);
        pool.release_all(copy);
        sent?;
    }
    pool.release(frame);
    Ok(())
}

/// Whether a frame is a datagram to a gateway: IPv4 without options, UDP.
fn is_tunnel(frame: &[u8]) -> bool {
    let is = |at: usize, bytes: &[u8]| frame.get(at..at + bytes.len()) == Some(bytes);
    is(12, &[8, 0, 0x45]) && is(23, &[17]) && is(36, &PORT.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_the_tunnel_are_told_from_the_channels_segments() {
        let mut frame = [0; 60];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[36..38].copy_from_slice(&PORT.to_be_bytes());
        for (protocol, is) in [(17, true), (6, false)] {
            frame[23] = protocol;
            assert_eq!(is_tunnel(&frame), is);
        }
        assert!(!is_tunnel(&frame[..37]) && !is_tunnel(&[]));
    }
}
