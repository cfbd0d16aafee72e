//! Opens the sockets towards the service.

use super::common::Common;
use super::host::ServerHost;
use super::service::Service;
use crate::proxy::loops::PortResidues;
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
            None => connect_from_rested(&self.common, &ports, to, association.proved_identity())?,
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
/// identity has left lately, as far as that can be had.
fn connect_from_rested(
    common: &Common,
    ports: &[u16],
    to: SocketAddr,
    identity: Option<&str>,
) -> io::Result<UdpSocket> {
    let may_have = |port: &u16| common.ports().may_have(common.clock.now(), *port, identity);
    let rested: Vec<_> = ports.iter().copied().filter(may_have).collect();
    let mut socket = socket::connect_from(&rested, to)?;
    for _ in 0..TRIES {
        if may_have(&socket.local_addr()?.port()) {
            break;
        }
        // The system chooses another one each time.
        socket = socket::connect_from(&[], to)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::limits::Limits;
    use lightseal_net::clock::Clock;

    #[test]
    fn a_port_that_was_left_goes_to_the_same_identity_alone() {
        let common = Common::new(Clock::start(), Limits::default(), 1, None);
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let port = |identity: Option<&str>, wanted: u16| {
            let socket = connect_from_rested(&common, &[wanted], to, identity).unwrap();
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
}
