//! Identifiers of groups, senders and listeners.

use core::fmt;

/// The maximum length of the name of a group or a device in bytes.
pub const MAX_NAME: usize = 64;

/// Whether a text can be the name of a group or a device: 1 to 64 bytes of UTF-8 without control
/// characters.
pub fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// A group's identifier, 16 bytes. The group's keys and its controller's signatures are bound to
/// it.
///
/// Records carry only its first byte, the *alias*, which Axiom calls GroupID (section 5.3). Two
/// groups may have the same alias (section 6.1), but never the same 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub [u8; 16]);

impl GroupId {
    /// The byte that identifies the group in records.
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

/// The SenderID of a sender in its group (Axiom, section 5.3). Within an epoch the controller gives
/// each SenderID to one member only. The uniqueness of AEAD nonces depends on this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderId(pub u8);

impl SenderId {
    /// The SenderID of the group controller, which sends to every group of its own and is not a
    /// member of any.
    pub const CONTROLLER: Self = Self(u8::MAX);
}

/// The ListenerID of a listener in its group: below [`ListenerId::LIMIT`], three bytes on the wire.
/// Two listeners may have the same IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(u32);

impl ListenerId {
    /// The number of possible ListenerIDs, 2^24.
    pub const LIMIT: u32 = 1 << 24;

    /// A ListenerID; `None` if `id` is [`Self::LIMIT`] or more.
    pub const fn new(id: u32) -> Option<Self> {
        if id < Self::LIMIT { Some(Self(id)) } else { None }
    }

    /// The ListenerID as a number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The three bytes on the wire, big-endian.
    pub const fn to_bytes(self) -> [u8; 3] {
        let [_, a, b, c] = self.0.to_be_bytes();
        [a, b, c]
    }

    /// A ListenerID from its three bytes on the wire.
    pub const fn from_bytes([a, b, c]: [u8; 3]) -> Self {
        Self(u32::from_be_bytes([0, a, b, c]))
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
