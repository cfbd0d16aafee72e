//! Who is who in a group.

use crate::rekey::Leaf;
use core::fmt;

/// A group's identity, which its keys and its controller's signatures are bound to.
///
/// Its *alias*, one byte, stands in records: what Axiom calls GroupID (section 5.3). Two groups
/// may share an alias (section 6.1); they never share this.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub [u8; 16]);

impl GroupId {
    /// The byte that stands for the group in records.
    pub const fn alias(&self) -> u8 {
        self.0[0]
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A sender in its group (Axiom, section 5.3). The controller gives each of them to one member
/// only within an epoch: nonces rest on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderId(pub u8);

impl SenderId {
    /// The group controller, which is a sender of every group and no member.
    pub const CONTROLLER: Self = Self(u8::MAX);
}

/// A listener in its group, below [`ListenerId::LIMIT`]: three bytes on the wire. Two of them may
/// well share an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(u32);

impl ListenerId {
    /// How many there can be.
    pub const LIMIT: u32 = 1 << 24;

    /// A listener's ID; `None` from [`Self::LIMIT`] on.
    pub const fn new(id: u32) -> Option<Self> {
        if id < Self::LIMIT { Some(Self(id)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// As it stands on the wire.
    pub const fn to_bytes(self) -> [u8; 3] {
        let [_, a, b, c] = self.0.to_be_bytes();
        [a, b, c]
    }

    /// From the wire.
    pub const fn from_bytes([a, b, c]: [u8; 3]) -> Self {
        Self(u32::from_be_bytes([0, a, b, c]))
    }
}

/// A member is known by its leaf in the tree of keys, whatever its roles.
impl From<Leaf> for ListenerId {
    fn from(leaf: Leaf) -> Self {
        Self(leaf.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_has_three_bytes() {
        for id in [0, 1, 0x0001_0203, ListenerId::LIMIT - 1] {
            let listener = ListenerId::new(id).unwrap();
            assert_eq!(ListenerId::from_bytes(listener.to_bytes()), listener);
        }
        assert_eq!(ListenerId::new(ListenerId::LIMIT), None);
    }
}
