//! Whether what a client proxy carries comes back to it.
//!
//! A service behind the server proxy that is the client proxy's own `--listen` makes a loop: each
//! datagram comes back as a new flow, for ever. Both proxies know the association's exporter secret and nobody
//! else does, so the server proxy sends to the service from one of two [`ports`] that follow from
//! it. A client proxy that sees a new flow from such a port of one of its latest flows, [`MOST_HOPS`]
//! times one after the other, has a loop: by chance that happens to one flow in ten million at most,
//! and only while flows come in numbers. Relays between the proxies change nothing of it.

use dtls::Connection;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

/// What the exporter is asked for.
const LABEL: &[u8] = b"EXPORTER-lightseal-service-port";

/// The ports begin here: no service of the examples has one.
const FIRST_PORT: u16 = 16_384;

/// Flows in a row of which each came from the one before, until that is called a loop.
const MOST_HOPS: u32 = 3;

/// Flows of which the ports are remembered.
const REMEMBERED: usize = 64;

/// The ports, best first, from which a server proxy sends what an association brings.
pub(crate) fn ports(connection: &Connection) -> Option<[u16; 2]> {
    let mut secret = zeroize::Zeroizing::new([0; 4]);
    connection.export_keying_material(LABEL, b"", &mut *secret)?.ok()?;
    let [a, b, c, d] = *secret;
    let port = |bytes| FIRST_PORT + u16::from_be_bytes(bytes) % (u16::MAX - FIRST_PORT);
    Some([port([a, b]), port([c, d])])
}

/// A flow and where its datagrams come out.
#[derive(Clone, Copy, Debug)]
struct Link {
    ports: [u16; 2],
    hops: u32,
}

/// A client proxy's latest flows.
#[derive(Debug, Default)]
pub(crate) struct LoopGuard(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// Flows that came from none of the others, as nearly all do.
    ordinary: VecDeque<Link>,
    /// Those that did; many ordinary ones shall not make them forgotten.
    suspects: VecDeque<Link>,
}

impl LoopGuard {
    /// How many flows in a row led to a new one from `source`; none if that is a loop.
    pub(crate) fn hops(&self, source: SocketAddr) -> Option<u32> {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let links = remembered.ordinary.iter().chain(&remembered.suspects);
        let from = links.filter(|link| link.ports.contains(&source.port()));
        let hops = from.map(|link| link.hops + 1).max().unwrap_or(0);
        (hops < MOST_HOPS).then_some(hops)
    }

    /// A flow that so many led to is complete.
    pub(crate) fn remember(&self, ports: [u16; 2], hops: u32) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let links = if hops == 0 { &mut remembered.ordinary } else { &mut remembered.suspects };
        if links.len() == REMEMBERED {
            links.pop_front();
        }
        links.push_back(Link { ports, hops });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn a_chain_of_flows_is_a_loop_and_one_link_is_not() {
        let guard = LoopGuard::default();
        assert_eq!(guard.hops(from(20_000)), Some(0));
        guard.remember([30_000, 30_001], 0);
        assert_eq!(guard.hops(from(30_001)), Some(1));
        guard.remember([30_002, 30_003], 1);
        guard.remember([30_004, 30_005], 2);
        assert_eq!((guard.hops(from(30_002)), guard.hops(from(30_004))), (Some(2), None));
        // However many come after.
        for port in (40_000..60_000).step_by(2) {
            guard.remember([port, port + 1], 0);
        }
        assert_eq!((guard.hops(from(30_001)), guard.hops(from(30_004))), (Some(0), None));
    }
}
