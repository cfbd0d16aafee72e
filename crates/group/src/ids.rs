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

/// A set of senders: one bit for each SenderID, and no heap.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SenderSet([u8; Self::BYTES]);

impl SenderSet {
    /// Length on the wire in bytes.
    pub const BYTES: usize = 32;

    /// A set without senders.
    pub const fn new() -> Self {
        Self([0; Self::BYTES])
    }

    /// A set from its bytes on the wire: a bit for each SenderID, 0 the highest bit of the first
    /// byte.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes on the wire.
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    const fn place(SenderId(id): SenderId) -> (usize, u8) {
        (id as usize / 8, 0x80 >> (id % 8))
    }

    /// Whether `sender` is in the set.
    pub const fn contains(&self, sender: SenderId) -> bool {
        let (byte, bit) = Self::place(sender);
        self.0[byte] & bit != 0
    }

    /// Adds a sender. Returns whether it was not in the set before.
    pub const fn insert(&mut self, sender: SenderId) -> bool {
        let (byte, bit) = Self::place(sender);
        let is_new = self.0[byte] & bit == 0;
        self.0[byte] |= bit;
        is_new
    }

    /// Removes a sender. Returns whether it was in the set before.
    pub const fn remove(&mut self, sender: SenderId) -> bool {
        let (byte, bit) = Self::place(sender);
        let was_in = self.0[byte] & bit != 0;
        self.0[byte] &= !bit;
        was_in
    }

    /// The number of senders.
    pub fn len(&self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Whether there are no senders.
    pub fn is_empty(&self) -> bool {
        *self == Self::new()
    }

    /// The senders in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = SenderId> + use<> {
        let set = *self;
        (0..=u8::MAX).map(SenderId).filter(move |sender| set.contains(*sender))
    }
}

impl fmt::Debug for SenderSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<SenderId> for SenderSet {
    fn from_iter<I: IntoIterator<Item = SenderId>>(senders: I) -> Self {
        let mut set = Self::new();
        set.extend(senders);
        set
    }
}

impl Extend<SenderId> for SenderSet {
    fn extend<I: IntoIterator<Item = SenderId>>(&mut self, senders: I) {
        for sender in senders {
            self.insert(sender);
        }
    }
}

impl<const N: usize> From<[SenderId; N]> for SenderSet {
    fn from(senders: [SenderId; N]) -> Self {
        senders.into_iter().collect()
    }
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
    fn a_set_has_a_bit_for_each_sender() {
        let mut set: SenderSet = [0, 7, 8, 254].map(SenderId).into();
        assert_eq!(set.as_bytes()[..2], [0x81, 0x80]);
        assert_eq!(set.as_bytes()[31], 2);
        assert_eq!(set, SenderSet::from_bytes(*set.as_bytes()));
        assert!(!set.insert(SenderId(7)) && set.insert(SenderId(9)));
        assert!(set.remove(SenderId(0)) && !set.remove(SenderId(0)));
        assert!(set.iter().eq([7, 8, 9, 254].map(SenderId)) && set.len() == 4);
        assert!(set.contains(SenderId(9)) && !set.contains(SenderId(0)) && !set.is_empty());
        assert!(SenderSet::new().is_empty());
    }

    #[test]
    fn a_listener_has_three_bytes() {
        for id in [0, 1, 0x0001_0203, ListenerId::LIMIT - 1] {
            let listener = ListenerId::new(id).unwrap();
            assert_eq!(ListenerId::from_bytes(listener.to_bytes()), listener);
        }
        assert_eq!(ListenerId::new(ListenerId::LIMIT), None);
    }
}
