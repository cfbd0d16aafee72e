//! How a request reaches all listeners, and what secures it and its responses.

use crate::handshakes::Profile;
use group::policy::Profile as Records;

/// A way to ask all listeners of a group.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    /// The paper's name, and what is ours in it.
    pub name: &'static str,
    /// Whether it is one of the paper's five, or ours.
    pub is_paper: bool,
    /// Whether one request goes to all at once, and who answers waits for a random time.
    pub multicast: bool,
    /// What is secured how.
    pub security: Security,
}

/// What secures a request and its responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Nothing.
    Plain,
    /// An association with each listener, after a handshake of this profile.
    Sessions(&'static str),
    /// The group's keys for the request, an association for each response (Keoh and others,
    /// draft-keoh-dice-multicast-security-08).
    GroupAndSessions(&'static str),
    /// The group's keys for all, without a handshake (Axiom).
    Group(Records),
}

/// The handshake of the paper: what tinydtls sends.
const THEIRS: &str = "tinydtls";
const OURS: &str = "1.3-no-cookie";

const fn paper(name: &'static str, multicast: bool, security: Security) -> Configuration {
    Configuration { name, is_paper: true, multicast, security }
}

/// The paper's five, as it orders them, and then ours.
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
    /// The one of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        CONFIGURATIONS.iter().find(|configuration| configuration.name == name)
    }

    /// The handshakes that it begins with.
    pub(super) fn handshakes(&self) -> Option<&'static Profile> {
        match self.security {
            Security::Sessions(name) | Security::GroupAndSessions(name) => Profile::by_name(name),
            Security::Plain | Security::Group(_) => None,
        }
    }

    /// The records of the group.
    pub(super) const fn records(&self) -> Option<Records> {
        match self.security {
            Security::GroupAndSessions(_) => Some(Records::Axiom12),
            Security::Group(records) => Some(records),
            Security::Plain | Security::Sessions(_) => None,
        }
    }
}
