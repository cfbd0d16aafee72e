//! The directory of members' public keys: a member's lookup at its controller, and the page that
//! the controller answers with.
//!
//! A lookup is for a *page* of sixteen consecutive IDs, and not for a single member. An attacker
//! that invents IDs can therefore cause at most one lookup for each page in an epoch, and none for
//! pages beyond the key tree.
//!
//! ```text
//! lookup: kind (1): 1 senders, 2 listeners ‖ first ID (3): a multiple of 16
//! page:   lookup (4) ‖ epoch (8): the controller's ‖ count (1): 0 to 16
//!         ‖ for each member, in ascending order:
//!           SenderID (1): 255 for none ‖ leaf (3) ‖ public keys (64)
//! names:  lookup (4) ‖ epoch (8): the controller's ‖ count (1): 0 to 16
//!         ‖ for each member, in ascending order:
//!           ID less the first ID of the page (1) ‖ name of the device<1..64>
//! ```

use crate::identity::PublicKeys;
use crate::ids::is_name;
use crate::rekey::Leaf;
use crate::{ListenerId, SenderId};
use alloc::string::String;
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// The maximum number of members in a page.
pub const PAGE_SIZE: u32 = 16;

const SENDERS: u8 = 1;
const LISTENERS: u8 = 2;

/// A request for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Lookup {
    /// A page of senders, given by its first SenderID, a multiple of 16.
    Senders(SenderId),
    /// A page of listeners, given by its first ListenerID, a multiple of 16.
    Listeners(ListenerId),
}

impl Lookup {
    /// The page that contains this sender.
    pub const fn sender(id: SenderId) -> Self {
        Self::Senders(SenderId(id.0 & !(PAGE_SIZE as u8 - 1)))
    }

    /// The page that contains this listener.
    pub fn listener(id: ListenerId) -> Self {
        Self::Listeners(ListenerId::new(id.get() & !(PAGE_SIZE - 1)).expect("below its limit"))
    }

    /// The first ID of the page.
    pub const fn first(self) -> u32 {
        match self {
            Self::Senders(first) => first.0 as u32,
            Self::Listeners(first) => first.get(),
        }
    }

    /// Whether an entry belongs to this page.
    fn holds(self, entry: &DirectoryEntry) -> bool {
        match self {
            Self::Senders(_) => entry.sender.is_some_and(|sender| Self::sender(sender) == self),
            Self::Listeners(_) => Self::listener(entry.leaf.into()) == self,
        }
    }
}

impl Encode for Lookup {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(match self {
            Self::Senders(_) => SENDERS,
            Self::Listeners(_) => LISTENERS,
        })?;
        w.u24(self.first())
    }
}

impl Decode<'_> for Lookup {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, first) = (r.u8()?, r.u24()?);
        if !first.is_multiple_of(PAGE_SIZE) {
            return Err(DecodeError::invalid("first of a page"));
        }
        match (kind, u8::try_from(first), ListenerId::new(first)) {
            (SENDERS, Ok(first), _) => Ok(Self::Senders(SenderId(first))),
            (LISTENERS, _, Some(first)) => Ok(Self::Listeners(first)),
            _ => Err(DecodeError::invalid("lookup")),
        }
    }
}

/// A member's entry in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Its SenderID, if it is a sender.
    pub sender: Option<SenderId>,
    /// Its leaf in the key tree, whose number is also its ListenerID.
    pub leaf: Leaf,
    /// Its public keys.
    pub keys: PublicKeys,
}

/// The controller's answer to a lookup: the members of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The page that was looked up.
    pub lookup: Lookup,
    /// The controller's epoch when it answered.
    pub epoch: u64,
    /// All members of the page, in ascending order. An ID that is missing here belonged to no
    /// member in this epoch, or to one whose X25519 key has small order.
    pub members: Vec<DirectoryEntry>,
}

impl Encode for Page {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.put(&self.lookup)?;
        w.u64(self.epoch)?;
        w.u8(u8::try_from(self.members.len()).map_err(|_| BufferFull)?)?;
        self.members.iter().try_for_each(|member| {
            w.u8(member.sender.unwrap_or(SenderId::CONTROLLER).0)?;
            w.u24(member.leaf.get())?;
            w.put(&member.keys)
        })
    }
}

impl Decode<'_> for Page {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (lookup, epoch, count) = (Lookup::read(r)?, r.u64()?, r.u8()?);
        let mut members: Vec<DirectoryEntry> = Vec::new();
        for _ in 0..count {
            let sender = Some(SenderId(r.u8()?)).filter(|id| *id != SenderId::CONTROLLER);
            let leaf = Leaf::new(r.u24()?).ok_or(DecodeError::invalid("leaf"))?;
            let entry = DirectoryEntry { sender, leaf, keys: PublicKeys::read(r)? };
            let follows = members.last().is_none_or(|last| match lookup {
                Lookup::Senders(_) => last.sender < entry.sender,
                Lookup::Listeners(_) => last.leaf < entry.leaf,
            });
            // Entries are in ascending order and belong to this page, so there are at most
            // [`PAGE_SIZE`].
            if !lookup.holds(&entry) || !follows {
                return Err(DecodeError::invalid("entry of a page"));
            }
            members.push(entry);
        }
        Ok(Self { lookup, epoch, members })
    }
}

/// The names of the devices that are the members of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The page whose names were asked for.
    pub lookup: Lookup,
    /// The controller's epoch when it answered. In another epoch an ID may belong to another
    /// device.
    pub epoch: u64,
    /// Each member's SenderID or ListenerID, whichever the page is of, with its device's name: in
    /// ascending order, each a name as [`is_name`] has it.
    pub names: Vec<(u32, String)>,
}

impl Names {
    /// The name of the device with this SenderID or ListenerID.
    pub fn get(&self, id: u32) -> Option<&str> {
        self.names.iter().find(|(of, _)| *of == id).map(|(_, name)| &**name)
    }
}

impl Encode for Names {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.put(&self.lookup)?;
        w.u64(self.epoch)?;
        w.u8(u8::try_from(self.names.len()).map_err(|_| BufferFull)?)?;
        self.names.iter().try_for_each(|(id, name)| {
            let offset = u8::try_from(id.saturating_sub(self.lookup.first()));
            w.u8(offset.map_err(|_| BufferFull)?)?;
            w.vec8(|w| w.bytes(name.as_bytes()))
        })
    }
}

impl Decode<'_> for Names {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (lookup, epoch, count) = (Lookup::read(r)?, r.u64()?, r.u8()?);
        let mut names: Vec<(u32, String)> = Vec::new();
        for _ in 0..count {
            let (offset, name) = (u32::from(r.u8()?), core::str::from_utf8(r.vec8()?));
            let id = lookup.first() + offset;
            let follows = names.last().is_none_or(|(last, _)| *last < id);
            match name {
                // In ascending order, each of this page: no more than it has room for.
                Ok(name) if offset < PAGE_SIZE && follows && is_name(name) => {
                    names.push((id, name.into()));
                }
                _ => return Err(DecodeError::invalid("entry of a page of names")),
            }
        }
        Ok(Self { lookup, epoch, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use lightseal_core::Random;
    use std::vec;

    fn page(first: u32, count: u32) -> Page {
        let mut rng = Random::insecure(3);
        let mut introduce = |at| DirectoryEntry {
            sender: Some(SenderId(at as u8)),
            leaf: Leaf::new(first + at).unwrap(),
            keys: Identity::generate(&mut rng).public(),
        };
        let members = (0..count).map(&mut introduce).collect();
        Page { lookup: Lookup::Listeners(ListenerId::new(first).unwrap()), epoch: 9, members }
    }

    fn read(page: &Page) -> Result<Page, DecodeError> {
        let mut buf = vec![0; 2000];
        let mut w = Writer::new(&mut buf);
        page.write(&mut w).unwrap();
        Page::decode(w.finish())
    }

    #[test]
    fn pages_are_read_as_they_were_written() {
        for count in [0, 1, 16] {
            let listeners = page(0xff_fff0, count);
            assert_eq!(read(&listeners), Ok(listeners.clone()));
            let senders = Page { lookup: Lookup::sender(SenderId(3)), ..page(32, count) };
            assert_eq!(read(&senders), Ok(senders.clone()));
        }
    }

    #[test]
    fn a_page_holds_its_own_members_once_and_in_order() {
        let good = page(16, 3);
        let turned = Page { members: vec![good.members[1], good.members[0]], ..good.clone() };
        let twice = Page { members: vec![good.members[0]; 2], ..good.clone() };
        let others = Page { lookup: Lookup::listener(ListenerId::new(40).unwrap()), ..good };
        let full = page(16, 17);
        for wrong in [turned, twice, others, full] {
            assert!(read(&wrong).is_err());
        }
        assert!(Lookup::decode(&[LISTENERS, 0, 0, 8]).is_err());
        assert!(Lookup::decode(&[SENDERS, 0, 1, 0]).is_err());
        assert!(Lookup::decode(&[3, 0, 0, 0]).is_err());
    }

    #[test]
    fn a_page_of_names_has_one_name_a_member_in_order() {
        let lookup = Lookup::listener(ListenerId::new(32).unwrap());
        let name = |id| (id, "x".repeat(64));
        let names = Names { lookup, epoch: 9, names: (32..48).map(name).collect() };
        let mut buf = vec![0; 2000];
        let mut written = |names: &Names| {
            let mut w = Writer::new(&mut buf);
            names.write(&mut w).map(|()| w.written().to_vec())
        };
        let bytes = written(&names).unwrap();
        // With the head of an answer.
        assert!(bytes.len() + 6 <= crate::control::MAX_MESSAGE);
        assert_eq!(Names::decode(&bytes), Ok(names.clone()));
        assert_eq!(names.get(47), Some(&*"x".repeat(64)));
        assert_eq!(names.get(48), None);
        for wrong in [
            vec![name(48)],
            vec![name(33), name(32)],
            vec![name(32), name(32)],
            vec![(32, String::new())],
            vec![(32, "a\nb".into())],
            vec![(32, "x".repeat(65))],
        ] {
            let bytes = written(&Names { lookup, epoch: 9, names: wrong }).unwrap();
            assert!(Names::decode(&bytes).is_err());
        }
    }

    #[test]
    fn neighbours_are_on_one_page() {
        let listener = |id| Lookup::listener(ListenerId::new(id).unwrap());
        assert_eq!(listener(31), listener(16));
        assert_ne!(listener(31), listener(32));
        assert_eq!(Lookup::sender(SenderId(254)), Lookup::Senders(SenderId(240)));
    }
}
