//! What a member does with datagrams to the group.
//!
//! Whose keys and whose window a record is for is told by what anybody can write. So nothing is
//! kept of it, and nothing is said, before its tag is right.

use super::keys::{Listener, NotOpened, Opened, Proof, Sealed};
use super::{Delivery, Event, Member};
use crate::codepoints::GROUP_SYNC;
use crate::directory::Lookup;
use crate::policy::{Authenticity, Freshness, Profile};
use crate::{SenderId, compact};
use core::net::SocketAddr;
use dtls::codepoints::ContentType;
use dtls::crypto::KeyState;
use vocabulary::{Instant, ReplayWindow};

impl Member {
    /// Takes a datagram that came to the group's address, and delivers what is in it. It is
    /// decrypted where it stands.
    pub fn receive_multicast(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        mut deliver: impl FnMut(Delivery<'_>),
    ) {
        if self.policy.profile == Profile::Compact && compact::header::is_direct(datagram) {
            return self.direct_record(now, from, datagram, &mut deliver);
        }
        let mut rest = datagram;
        while !rest.is_empty() {
            let Ok((record, behind)) = Sealed::request(self.policy.profile, rest) else {
                self.stats.malformed += 1;
                return;
            };
            self.request_record(now, from, record, &mut deliver);
            rest = behind;
        }
    }

    fn request_record(
        &mut self,
        now: Instant,
        from: SocketAddr,
        record: Sealed<'_, SenderId>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        let sender = record.sender();
        if record.alias().is_some_and(|alias| alias != self.policy.group.alias()) {
            self.stats.strangers += 1;
            return;
        }
        let Some(at) = self.epoch_of(now, &record) else { return };
        let is_listed = self.senders.contains(&sender);
        let Some(epoch) = self.epochs.receiving(now, at) else { return };
        if epoch.requests.state() == KeyState::Exhausted {
            self.stats.strangers += 1;
            return;
        }
        if sender == SenderId::CONTROLLER {
            return self.announced(now, at, record);
        }
        if !is_listed {
            self.stats.unknown_senders += 1;
            // The list is asked for only if a member wrote this.
            let opened = epoch.open(record, &mut epoch.heard(now), Proof::Unknown);
            if is_members(&opened) {
                self.authentic += 1;
                self.tell_unknown(sender);
            }
            return;
        }
        let own = self.roles.sender == Some(sender);
        let known = epoch.senders.remove(&sender);
        let was_known = known.is_some();
        let mut heard = known.unwrap_or_else(|| epoch.heard(now));
        if own && let Some(own) = &epoch.own {
            // What this member sent itself comes back to it.
            heard.window = Some(ReplayWindow::starting_at(own.numbers.next()));
        }
        let drops_first = self.policy.freshness == Freshness::DropFirst;
        let by_source = self.policy.authenticity == Authenticity::Source;
        let proof = match self.peers.sender(sender) {
            _ if !by_source => Proof::Member,
            Some(known) if !own => Proof::Signer(&known.verifying),
            _ => Proof::Unknown,
        };
        let challenges = self.policy.freshness == Freshness::Challenge && self.roles.listener;
        let mut to_be_asked = None;
        let opened = match heard.window {
            None if challenges && !own => {
                // Asked whatever its tag, for it says nothing where the number is not known.
                let is_asked = self.challenges.is_asked(now, sender, at);
                let open = || epoch.open(record, &mut heard, Proof::Unknown);
                to_be_asked = Some(!is_asked && is_members(&open()));
                Err(NotOpened::NotFresh)
            }
            None if !drops_first => Err(NotOpened::NotFresh),
            _ => epoch.open(record, &mut heard, proof),
        };
        if is_members(&opened) || to_be_asked == Some(true) {
            self.authentic += 1;
        }
        if own && is_members(&opened) {
            epoch.senders.insert(sender, heard);
            return self.tell(Event::SenderConflict(sender));
        }
        let opened = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                // Who is known stays known: its number space above all.
                if was_known {
                    epoch.senders.insert(sender, heard);
                }
                if reason == NotOpened::NoKey || reason == NotOpened::Forged {
                    // The SenderID may be another's since its key was told.
                    self.peers.want(now, &mut self.rng, Lookup::sender(sender));
                }
                if let Some(is_proven) = to_be_asked {
                    self.challenges.want(now, &mut self.rng, (sender, at), from, is_proven);
                }
                return self.count(now, reason);
            }
        };
        let Opened { number, kind, content } = opened;
        heard.last = now;
        let is_fresh = heard.window.is_some();
        if !is_fresh && drops_first {
            // Nothing below the first one that is seen is new (Axiom, section 6.2).
            heard.window = Some(ReplayWindow::starting_at(number));
        }
        if let Some(window) = &mut heard.window {
            window.commit(number);
        }
        epoch.senders.insert(sender, heard);
        if !is_fresh {
            self.stats.not_fresh += 1;
            return;
        }
        self.heard_from.insert(sender, from);
        match kind {
            ContentType::APPLICATION_DATA => {
                self.stats.delivered += 1;
                if self.roles.listener {
                    deliver(Delivery::Request { sender, from, content });
                }
            }
            // Its number is in the window, and that was all it had to say.
            GROUP_SYNC => {}
            _ => self.stats.strangers += 1,
        }
    }

    /// Whether a datagram looks like one of this group that can be opened: by what anybody can
    /// write.
    pub(crate) fn may_open(&self, datagram: &mut [u8], is_multicast: bool) -> bool {
        let profile = self.policy.profile;
        if profile == Profile::Compact && compact::header::is_direct(datagram) {
            let record = compact::Sealed::direct(datagram);
            return record.is_ok_and(|record| {
                record.id.1 == self.listener() && self.holds(&Sealed::Compact(record))
            });
        }
        let is_senders =
            is_multicast || profile == Profile::Compact && compact::header::is_senders(datagram);
        if is_senders {
            let record = Sealed::request(profile, datagram);
            record.is_ok_and(|(record, _)| self.holds(&record))
        } else {
            let record = Sealed::response(profile, datagram);
            record.is_ok_and(|(record, _)| self.holds(&record))
        }
    }

    fn holds<Id>(&self, record: &Sealed<'_, Id>) -> bool {
        record.alias().is_none_or(|alias| alias == self.policy.group.alias())
            && self.epochs.epochs().any(|(epoch, _)| record.is_of(epoch))
    }

    /// Which of the epochs that are held a record is of. One of an epoch after them says that a
    /// rekey was missed, or that somebody wants to make believe so.
    pub(super) fn epoch_of<Id>(&mut self, now: Instant, record: &Sealed<'_, Id>) -> Option<u64> {
        let held =
            self.epochs.epochs().map(|(epoch, _)| epoch).filter(|epoch| record.is_of(*epoch));
        let held = held.max();
        if held.is_none() {
            self.stats.strangers += 1;
            let newest = self.epochs.newest();
            let may_straggle = now < self.stragglers_until
                && newest.checked_sub(1).is_some_and(|before| record.is_of(before));
            if record.may_be_after(newest) && !may_straggle {
                self.suspect_rekey(now);
            }
        }
        held
    }

    pub(super) fn count(&mut self, now: Instant, reason: NotOpened) {
        match reason {
            NotOpened::Replayed => self.stats.replayed += 1,
            NotOpened::Malformed => self.stats.malformed += 1,
            NotOpened::NotFresh => self.stats.not_fresh += 1,
            NotOpened::Forged => self.stats.forged += 1,
            NotOpened::NoKey => self.stats.unknown_keys += 1,
            NotOpened::Unauthentic { .. } => {
                self.stats.unauthentic += 1;
                self.look_at_keys(now);
            }
        }
    }

    /// Has a listener's keys asked for, unless the tree of keys has no such leaf.
    pub(super) fn want_listener(&mut self, now: Instant, listener: Listener) {
        if let Listener::Id(id) = listener
            && id.get() < self.keys.leaves()
        {
            self.peers.want(now, &mut self.rng, Lookup::listener(id));
        }
    }

    fn tell_unknown(&mut self, sender: SenderId) {
        let told = |event: &Event| matches!(event, Event::UnknownSender(_));
        if !self.events.iter().any(told) {
            self.tell(Event::UnknownSender(sender));
        }
    }
}

/// Whether a member wrote it, if not who.
pub(super) const fn is_members(opened: &Result<Opened<'_>, NotOpened>) -> bool {
    matches!(opened, Ok(_) | Err(NotOpened::NoKey | NotOpened::Forged))
}
