//! Opens the sockets towards the service.

use super::common::Common;
use super::host::ServerHost;
use super::service::Service;
use crate::proxy::loops::{EphemeralPorts, PortResidues};
use crate::proxy::source_address::SourceAddress;
use lightseal_core::AddressPair;
use lightseal_dtls::Handle;
use lightseal_net::address::Named;
use lightseal_net::socket;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// How often the system is asked for another port.
const TRIES: usize = 8;

/// How many ports that do not rest are tried when the system has given none: more than there are in a
/// row that other programs have.
const MOST_SEARCHED: usize = 256;

/// How many of the ports that have rested longest are tried if there are no others.
const MOST_RESTED: usize = 16;

impl ServerHost {
    /// Opens an association's socket towards the service, if possible from the port that it had
    /// before a restart, or else from a port that leaves one of these residues. It has the address of
    /// the client's identity if identities have addresses.
    pub(super) fn open(
        &mut self,
        handle: Handle,
        residues: Option<PortResidues>,
        former: Option<u16>,
    ) -> io::Result<()> {
        // The association may have ended meanwhile.
        let Some(association) = self.associations.get_mut(handle) else { return Ok(()) };
        // Whoever calls this, the socket belongs to the worker's thread.
        let _entered = self.runtime.enter();
        let to = self.options.service.address()?;
        let mut ports = residues.map(|residues| self.ports.leaving(residues)).unwrap_or_default();
        if let Some(port) = former.filter(|port| *port > 0) {
            ports.insert(0, port);
        }
        let socket = match self.common.sources().as_mut() {
            Some(sources) => {
                let identity = &association.identity;
                let from = match sources.of(identity) {
                    SourceAddress::Known(address) => address,
                    SourceAddress::Waits => {
                        let identity = Arc::clone(identity);
                        let waiting = self.addressless.entry(identity).or_default();
                        // An association that has ended since is not opened any more.
                        waiting.retain(|(other, _)| self.associations.get(*other).is_some());
                        waiting.push((handle, former));
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                    SourceAddress::None => {
                        let why = format!("{} has no free address", sources.prefix());
                        return Err(io::Error::other(why));
                    }
                };
                tracing::debug!(
                    peer.address = %Named(association.peer),
                    peer.identity = &**identity,
                    "{identity}: the service sees it at {from}"
                );
                socket::connect_from_address(from, &ports, to)?
            }
            None => {
                let identity = association.proved_identity();
                connect_from_rested(&self.common, &self.ports, &ports, to, identity)?
            }
        };
        let header = association.header(&self.options, self.listen);
        let service = Service::new((to, socket), header, handle, &self.services, &self.common)?;
        // From here on the port is left when the service is dropped.
        if let Some(local) = service.local_addr() {
            self.common.ports().taken(local.port(), association.proved_identity());
        }
        let service = association.service.insert(service);
        for payload in association.early.drain(..) {
            let parts = [&service.header[..], &payload];
            self.deliveries.add(&service.socket, AddressPair::to(to), parts, &self.common.totals);
        }
        Ok(())
    }
}

/// Opens a socket from the first of these ports that is free, or from any, but from none that another
/// identity has left lately: unless there is no other one, and then from one that has rested longest.
fn connect_from_rested(
    common: &Common,
    ephemeral: &EphemeralPorts,
    ports: &[u16],
    to: SocketAddr,
    identity: Option<&str>,
) -> io::Result<UdpSocket> {
    let may_have = |port: &u16| common.ports().may_have(common.clock.now(), *port, identity);
    let rested: Vec<_> = ports.iter().copied().filter(may_have).collect();
    let mut socket = socket::connect_from(&rested, to)?;
    let mut tries = 0;
    let random = loop {
        let port = socket.local_addr()?.port();
        if may_have(&port) {
            return Ok(socket);
        }
        if tries == TRIES {
            break port;
        }
        // The system chooses another one each time.
        socket = socket::connect_from(&[], to)?;
        tries += 1;
    };
    let ports: Vec<_> = {
        let (ports, now) = (common.ports(), common.clock.now());
        let rested = ephemeral.all_from(random);
        let rested = rested.filter(|port| ports.may_have(now, *port, identity));
        let others = ports.longest_rested().take(MOST_RESTED);
        rested.take(MOST_SEARCHED).chain(others).collect()
    };
    socket::connect_from(&ports, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::limits::Limits;
    use crate::proxy::server::ports::Ports;
    use lightseal_net::clock::Clock;

    #[test]
    fn a_port_that_was_left_goes_to_the_same_identity_alone() {
        let common = Common::new(Clock::start(), Limits::default(), 1, None);
        let (to, all) = (SocketAddr::from(([127, 0, 0, 1], 9)), EphemeralPorts::of_this_host());
        let port = |identity: Option<&str>, wanted: u16| {
            let socket = connect_from_rested(&common, &all, &[wanted], to, identity).unwrap();
            socket.local_addr().unwrap().port()
        };
        let wanted = testkit::ports::own_port();
        assert_eq!(port(Some("a"), wanted), wanted);
        common.ports().taken(wanted, Some("a"));
        common.ports().left(common.clock.now(), wanted);
        assert_ne!(port(Some("b"), wanted), wanted);
        assert_ne!(port(None, wanted), wanted);
        assert_eq!(port(Some("a"), wanted), wanted);
    }

    #[test]
    fn a_port_that_rests_is_the_last_choice_even_where_nearly_all_of_them_do() {
        let common = Common::new(Clock::start(), Limits::default(), 1, None);
        let (to, all) = (SocketAddr::from(([127, 0, 0, 1], 9)), EphemeralPorts::of_this_host());
        *common.ports() = Ports::new(usize::MAX);
        let first = all.all_from(0).next().unwrap();
        let (few, others): (Vec<_>, Vec<_>) =
            all.all_from(first).partition(|port| port % 1000 == 0);
        let leave = |ports: &[u16]| {
            for port in ports {
                let now = common.clock.now();
                common.ports().taken(*port, Some("a"));
                common.ports().left(now, *port);
            }
        };
        let port = || {
            let socket = connect_from_rested(&common, &all, &others[..1], to, Some("b")).unwrap();
            socket.local_addr().unwrap().port()
        };
        leave(&others);
        assert!(few.contains(&port()), "the only ones that do not rest");
        leave(&few);
        let oldest = common.ports().longest_rested().take(MOST_RESTED).collect::<Vec<_>>();
        assert!(oldest.contains(&port()), "nothing else is left");
    }
}
