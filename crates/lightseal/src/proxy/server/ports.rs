//! Which identities have had which ports towards the service.
//!
//! A service that knows its peers by address and port may still send to a port what was for the client
//! that had it last. So a port that a client has left rests before another identity gets it.

use lightseal_core::Instant;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long a port rests.
const REST: Duration = Duration::from_secs(600);

/// The ports that associations have, or have left. There is an entry for each port at most.
#[derive(Debug, Default)]
pub(super) struct Ports {
    used: HashMap<u16, Used>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Used {
    /// A hash of the identity; `None` for clients without one, who may be anybody.
    by: Option<u64>,
    /// When the association's socket was closed; `None` while it is open.
    left: Option<Instant>,
}

impl Ports {
    /// Whether a client with this identity may have a port, as far as others have had it.
    pub(super) fn may_have(&self, now: Instant, port: u16, identity: Option<&str>) -> bool {
        let Some(used) = self.used.get(&port) else { return true };
        let Some(left) = used.left else { return false };
        let own = identity.is_some_and(|identity| used.by == Some(self.hasher.hash_one(identity)));
        own || now.saturating_since(left) >= REST
    }

    /// Notes that a client has a port.
    pub(super) fn taken(&mut self, port: u16, identity: Option<&str>) {
        let by = identity.map(|identity| self.hasher.hash_one(identity));
        self.used.insert(port, Used { by, left: None });
    }

    /// Notes that the client has left its port. Nothing happens if none was noted to have it.
    pub(super) fn left(&mut self, now: Instant, port: u16) {
        if let Some(used) = self.used.get_mut(&port) {
            used.left = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_rests_before_another_identity_has_it() {
        let (mut ports, now) = (Ports::default(), Instant::from_micros(1));
        assert!(ports.may_have(now, 40_000, Some("a")));
        ports.taken(40_000, Some("a"));
        assert!(!ports.may_have(now, 40_000, Some("a")), "it has it");
        ports.left(now, 40_000);
        for (identity, at, may) in [
            (Some("a"), now, true),
            (Some("b"), now, false),
            (None, now, false),
            (Some("b"), now + (REST - Duration::from_micros(1)), false),
            (Some("b"), now + REST, true),
            (None, now + REST, true),
        ] {
            assert_eq!(ports.may_have(at, 40_000, identity), may, "{identity:?}");
        }
        // Nobody knows whether two clients without identities are one.
        ports.taken(40_001, None);
        ports.left(now, 40_001);
        assert!(!ports.may_have(now, 40_001, None));
        ports.left(now, 40_002);
        assert!(ports.may_have(now, 40_002, None));
    }
}
