//! The state of a member that is shut down cleanly, from which it continues in the same epoch.
//!
//! After a crash a member cannot tell which records of an epoch it has already received. A member
//! that is shut down cleanly, or goes to sleep, therefore stores the replay windows and next record
//! numbers of the newest epoch. This state contains no secrets. Together with the keys it can be
//! used once.

use super::epoch::{Epoch, ListenerState};
use super::keys::{Listener, Suite};
use super::{Member, Roles};
use crate::compact::KnownBoot;
use crate::epoch::EpochUse;
use crate::numbers::{EpochEntry, Ledger, NumberSpace, ReservedNumbers};
use crate::policy::Policy;
use crate::rekey::{EpochKey, Leaf};
use crate::{GroupId, ListenerId, SenderId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, ReplayWindow, Writer};

const VERSION: u8 = 2;
/// The previous version, without direct requests: its senders have no second window.
const WITHOUT_DIRECT: u8 = 1;
const FROM_THE_START: u8 = 1;
const SENDS: u8 = 2;
/// The length in bytes of a listener's identifier, which tells a ListenerID from an IPv4 or IPv6
/// address.
const ID: u8 = 3;
const V4: u8 = 4;
const V6: u8 = 16;
/// Stands for a missing number.
const NO_NUMBER: u64 = u64::MAX;
/// The length in bytes without the lists, rounded up.
const HEAD: usize = 80;
/// The maximum length in bytes of one entry of a list.
const MOST_ENTRY: usize = 64;

/// The state that a member leaves behind when it is shut down cleanly.
///
/// ```text
/// version (1) = 2 ‖ flags (1): 1 in the epoch from its start on, 2 a sender ‖ SenderID (1)
/// ‖ group (16) ‖ epoch (8) ‖ leaf (3) ‖ start (8) ‖ below (8): in the ledger ‖ next (8) ‖ synced (8)
/// ‖ count (2) ‖ senders:   SenderID (1) ‖ next (8) ‖ window (24) ‖ window (24): of direct requests
/// ‖ count (4) ‖ listeners: length (1) ‖ ListenerID (3) or address (4 or 16) ‖ window (24)
/// ‖ count (4) ‖ boots:     ListenerID (3) ‖ nonce (8) ‖ request (8) ‖ window (24)
///
/// window: next (8) ‖ seen (16), or next of ones where it is not known what is new
/// ```
///
/// Version 1 can be read as well. It has no windows for direct requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspended {
    group: GroupId,
    epoch: u64,
    leaf: Leaf,
    entry: EpochEntry,
    bounds: [u64; 2],
    /// The member's SenderID, its next record number, and the first number after the last sync
    /// record.
    own: Option<(SenderId, u64, u64)>,
    senders: BTreeMap<SenderId, (u64, [Option<ReplayWindow>; 2])>,
    listeners: BTreeMap<Listener, ReplayWindow>,
    boots: BTreeMap<ListenerId, ([u8; 8], u64, ReplayWindow)>,
}

impl Member {
    /// Shuts this member down cleanly. The host stores the returned state, deletes it durably when
    /// the member starts again, and then passes it to [`Self::resume`]. `None` if the member must
    /// not be resumed: the ledger has failed, or the controller has not answered this start, so
    /// that another run of the same state may be sealing.
    #[must_use]
    pub fn suspend(mut self) -> Option<Suspended> {
        if !self.permission.is_confirmed() {
            return None;
        }
        let (group, leaf) = (self.policy.group, self.keys.leaf());
        let epoch_number = self.epochs.newest();
        let pairwise = self.policy.pairwise().is_some();
        let sender = self.roles.sender;
        let epoch = self.epochs.values_mut().last()?;
        let bounds = epoch.reserved.as_ref().ok()?.bounds();
        let own = epoch.own.as_ref().zip(sender);
        let own = own.map(|(own, sender)| (sender, own.numbers.next(), own.synced));
        let senders = core::mem::take(&mut epoch.senders).into_entries();
        let senders = senders.into_iter().map(|(sender, heard)| {
            // Numbers of pairwise responses are valid for this boot only and are not stored.
            let numbers = heard.answering.numbers.filter(|_| !pairwise);
            let next = numbers.map_or(NO_NUMBER, |numbers| numbers.next());
            (sender, (next, [heard.requests.window, heard.direct]))
        });
        let listeners = core::mem::take(&mut epoch.listeners).into_entries();
        let boots = epoch.paired_mut().map(|(_, paired)| core::mem::take(&mut paired.boots));
        let boots = boots.unwrap_or_default().into_iter();
        Some(Suspended {
            group,
            epoch: epoch_number,
            leaf,
            entry: epoch.entry(),
            bounds,
            own,
            senders: senders.collect(),
            listeners: listeners.map(|(listener, known)| (listener, known.window)).collect(),
            boots: boots
                .map(|(listener, (boot, window))| {
                    (listener, (*boot.nonce(), boot.not_before(), window))
                })
                .collect(),
        })
    }
}

impl Suspended {
    /// The state of the epoch as it was stored. `None` if it belongs to another member or epoch, or
    /// if the ledger has changed since.
    pub(super) fn resume(
        &self,
        (policy, suite): (&Policy, Suite),
        (roles, leaf): (Roles, Leaf),
        (epoch, key): (u64, &EpochKey),
        ledger: &mut dyn Ledger,
    ) -> Option<Epoch> {
        let own = self.own.map(|(sender, ..)| sender);
        let fits =
            (self.group, self.epoch, self.leaf, own) == (policy.group, epoch, leaf, roles.sender);
        let [_, below] = self.bounds;
        let numbers =
            self.senders.values().map(|(next, _)| *next).filter(|next| *next != NO_NUMBER);
        let mut numbers = numbers.chain(self.own.map(|(_, next, _)| next));
        if !fits || numbers.any(|next| next > below) {
            return None;
        }
        let last = suite.last_number();
        let reserved =
            ReservedNumbers::resume(ledger, policy.group, epoch, self.bounds, last).ok()?;
        let named = (policy, suite);
        let mut resumed = Epoch::entered(
            named,
            roles.sender,
            (epoch, key),
            EpochUse::InUse,
            Ok((reserved, self.entry)),
        );
        if let Some((own, (_, next, synced))) = resumed.own.as_mut().zip(self.own) {
            (own.numbers, own.synced) = (NumberSpace::at(next), synced.min(next));
        }
        let now = lightseal_core::Instant::ZERO;
        for (sender, (next, [window, direct])) in &self.senders {
            let mut heard = resumed.heard(now);
            heard.requests.window.clone_from(window);
            heard.direct.clone_from(direct);
            if policy.pairwise().is_none() && *next != NO_NUMBER {
                heard.answering.numbers = Some(NumberSpace::at(*next));
            }
            resumed.senders.insert(*sender, heard);
        }
        for (listener, window) in &self.listeners {
            let state = || ListenerState { window: window.clone() };
            resumed.listeners.get_or_insert_with(*listener, state);
        }
        if let Some((_, paired)) = resumed.paired_mut() {
            for (listener, (nonce, request, window)) in &self.boots {
                let boot = KnownBoot::restore(*nonce, *request);
                paired.boots.insert(*listener, (boot, window.clone()));
            }
        }
        Some(resumed)
    }

    /// The encoded state, for storage.
    pub fn to_bytes(&self) -> Vec<u8> {
        let entries = self.senders.len() + self.listeners.len() + self.boots.len();
        let mut bytes = alloc::vec![0; HEAD + MOST_ENTRY * entries];
        let mut w = Writer::new(&mut bytes);
        self.write(&mut w).expect("there is room for all entries");
        let len = w.len();
        bytes.truncate(len);
        bytes
    }
}

fn write_window(w: &mut Writer<'_>, window: Option<&ReplayWindow>) -> Result<(), BufferFull> {
    w.u64(window.map_or(NO_NUMBER, ReplayWindow::next))?;
    w.bytes(&window.map_or(0, ReplayWindow::seen).to_be_bytes())
}

fn read_window(r: &mut Reader<'_>) -> Result<Option<ReplayWindow>, DecodeError> {
    match (r.u64()?, u128::from_be_bytes(r.array()?)) {
        (NO_NUMBER, 0) => Ok(None),
        (NO_NUMBER, _) => Err(DecodeError::invalid("window of a suspended member")),
        (next, seen) => Ok(Some(ReplayWindow::restore(next, seen))),
    }
}

fn count(entries: usize) -> Result<u32, BufferFull> {
    u32::try_from(entries).map_err(|_| BufferFull)
}

/// Adds an entry. Entries must be in strictly ascending order.
fn insert<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V) -> Result<(), DecodeError> {
    if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
        return Err(DecodeError::invalid("order of a suspended member's peers"));
    }
    map.insert(key, value);
    Ok(())
}

impl Encode for Suspended {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let (sender, next, synced) = self.own.unwrap_or((SenderId(0), 0, 0));
        let sends = if self.own.is_some() { SENDS } else { 0 };
        let entry = if self.entry == EpochEntry::First { FROM_THE_START } else { 0 };
        let flags = entry | sends;
        w.bytes(&[VERSION, flags, sender.0])?;
        w.bytes(&self.group.0)?;
        w.u64(self.epoch)?;
        w.u24(self.leaf.get())?;
        [self.bounds[0], self.bounds[1], next, synced].into_iter().try_for_each(|n| w.u64(n))?;
        w.u16(self.senders.len().try_into().map_err(|_| BufferFull)?)?;
        for (sender, (next, windows)) in &self.senders {
            w.u8(sender.0)?;
            w.u64(*next)?;
            windows.iter().try_for_each(|window| write_window(w, window.as_ref()))?;
        }
        w.u32(count(self.listeners.len())?)?;
        for (listener, window) in &self.listeners {
            match listener {
                Listener::Id(id) => {
                    w.u8(ID)?;
                    w.u24(id.get())?;
                }
                Listener::Address(IpAddr::V4(ip)) => {
                    w.u8(V4)?;
                    w.bytes(&ip.octets())?;
                }
                Listener::Address(IpAddr::V6(ip)) => {
                    w.u8(V6)?;
                    w.bytes(&ip.octets())?;
                }
            }
            write_window(w, Some(window))?;
        }
        w.u32(count(self.boots.len())?)?;
        for (listener, (nonce, request, window)) in &self.boots {
            w.u24(listener.get())?;
            w.bytes(nonce)?;
            w.u64(*request)?;
            write_window(w, Some(window))?;
        }
        Ok(())
    }
}

impl Decode<'_> for Suspended {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let [version, flags, sender] = r.array()?;
        if !matches!(version, VERSION | WITHOUT_DIRECT) || flags & !(FROM_THE_START | SENDS) != 0 {
            return Err(DecodeError::invalid("version of a suspended member"));
        }
        let (group, epoch) = (GroupId(r.array()?), r.u64()?);
        let leaf = Leaf::new(r.u24()?).ok_or(DecodeError::invalid("leaf"))?;
        let bounds = [r.u64()?, r.u64()?];
        let own = (SenderId(sender), r.u64()?, r.u64()?);
        let entry =
            if flags & FROM_THE_START == 0 { EpochEntry::Repeated } else { EpochEntry::First };
        let sends = flags & SENDS != 0;
        if !sends && own != (SenderId(0), 0, 0) {
            return Err(DecodeError::invalid("numbers of a suspended member"));
        }
        let known = DecodeError::invalid("window of a suspended member");
        let mut senders = BTreeMap::new();
        for _ in 0..r.u16()? {
            let (sender, next) = (SenderId(r.u8()?), r.u64()?);
            let window = read_window(r)?;
            let direct = match (version, &window) {
                (VERSION, _) => read_window(r)?,
                // Version 1 did not track direct requests: any number below the window's next may
                // have been received.
                (_, Some(window)) => Some(ReplayWindow::starting_at(window.next())),
                (_, None) => None,
            };
            insert(&mut senders, sender, (next, [window, direct]))?;
        }
        let mut listeners = BTreeMap::new();
        for _ in 0..r.u32()? {
            let listener = match r.u8()? {
                ID => Listener::Id(ListenerId::from_bytes(r.array()?)),
                V4 => Listener::Address(IpAddr::from(r.array::<4>()?)),
                V6 => Listener::Address(IpAddr::from(r.array::<16>()?)),
                _ => return Err(DecodeError::invalid("listener of a suspended member")),
            };
            insert(&mut listeners, listener, read_window(r)?.ok_or(known)?)?;
        }
        let mut boots = BTreeMap::new();
        for _ in 0..r.u32()? {
            let listener = ListenerId::from_bytes(r.array()?);
            let (nonce, request) = (r.array()?, r.u64()?);
            insert(&mut boots, listener, (nonce, request, read_window(r)?.ok_or(known)?))?;
        }
        Ok(Self {
            group,
            epoch,
            leaf,
            entry,
            bounds,
            own: sends.then_some(own),
            senders,
            listeners,
            boots,
        })
    }
}
