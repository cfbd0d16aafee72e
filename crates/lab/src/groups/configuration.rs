//! How a request reaches all listeners, and how it and its responses are secured.

use crate::handshakes::Profile;
use lightseal_group::policy::Profile as Records;

/// A way to send a request to all listeners of a group and to collect their responses.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    /// The paper's name, or a name of ours in the same style.
    pub name: &'static str,
    /// Whether it is one of the paper's five configurations.
    pub is_paper: bool,
    /// Whether one multicast request goes to all listeners, which then wait for a random time
    /// before they respond. Otherwise each listener gets a unicast request.
    pub multicast: bool,
    /// How requests and responses are secured.
    pub security: Security,
}

/// What secures a request and its responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Requests and responses are not secured.
    Plain,
    /// Unicast associations with each listener, after a handshake of the named profile.
    Sessions(&'static str),
    /// The group's keys for the request, and an association with each listener for its response,
    /// after a handshake of the named profile (Keoh and others,
    /// draft-keoh-dice-multicast-security-08).
    GroupAndSessions(&'static str),
    /// The group's keys for requests and responses, without a handshake (Axiom).
    Group(Records),
}

/// The profile of the paper's handshake, which sends what tinydtls sends.
const THEIRS: &str = "tinydtls";
const OURS: &str = "1.3-no-cookie";

const fn paper(name: &'static str, multicast: bool, security: Security) -> Configuration {
    Configuration { name, is_paper: true, multicast, security }
}

/// The paper's five configurations in its order, then ours.
pub const CONFIGURATIONS: [Configuration; 8] = [
    paper("CoAP Uni", false, Security::Plain),
    paper("CoAP Mul", true, Security::Plain),
    paper("DTLS Uni-Uni", false, Security::Sessions(THEIRS)),
    paper("DTLS Mul-Uni", true, Security::GroupAndSessions(THEIRS)),
    paper("DTLS Mul-Mul", true, Security::Group(Records::Axiom12)),
    ours("DTLS 1.3 Uni-Uni", false, Security::Sessions(OURS)),
    ours("DTLS 1.3 Mul-Uni", true, Security::GroupAndSessions(OURS)),
    ours("compact Mul-Mul", true, Security::Group(Records::Compact)),
];

const fn ours(name: &'static str, multicast: bool, security: Security) -> Configuration {
    Configuration { is_paper: false, ..paper(name, multicast, security) }
}

impl Configuration {
    /// The configuration with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        CONFIGURATIONS.iter().find(|configuration| configuration.name == name)
    }

    /// The profile of the handshakes that it begins with; `None` if there are none.
    pub(super) fn handshakes(&self) -> Option<&'static Profile> {
        match self.security {
            Security::Sessions(name) | Security::GroupAndSessions(name) => Profile::by_name(name),
            Security::Plain | Security::Group(_) => None,
        }
    }

    /// The format of the group's records; `None` if it has none.
    pub(super) const fn records(&self) -> Option<Records> {
        match self.security {
            Security::GroupAndSessions(_) => Some(Records::Axiom12),
            Security::Group(records) => Some(records),
            Security::Plain | Security::Sessions(_) => None,
        }
    }
}
