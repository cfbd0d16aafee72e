//! What a sender does with responses that only it can read.
//!
//! Who has no key that the controller told costs nothing but, perhaps, a lookup; each other
//! listener costs one X25519 an epoch, whatever is sent in its name.

use super::epoch::count;
use super::keys::{Listener, Opened, Proof, Sealed};
use super::{Delivery, Member};
use crate::codepoints::GROUP_CHALLENGE;
use crate::compact::{Challenge, KnownBoot, PublicKey, Standing};
use crate::{ListenerId, SenderId, compact};
use core::net::SocketAddr;
use dtls::codepoints::ContentType;
use vocabulary::{Instant, ReplayWindow};

impl Member {
    pub(super) fn paired_record(
        &mut self,
        now: Instant,
        (own, from): (SenderId, SocketAddr),
        record: compact::Sealed<'_, ListenerId>,
        at: u64,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        let id = record.id;
        let Self { epochs, peers, identity, stats, .. } = self;
        let Some(epoch) = epochs.receiving(now, at) else { return };
        let Some(next) = epoch.own.as_ref().map(|own| own.numbers.next()) else { return };
        if !epoch.pairs.contains_key(&id) {
            let Some(key) = peers.listener(id) else {
                stats.unknown_keys += 1;
                return self.want_listener(now, Listener::Id(id));
            };
            let (own, key) = ((own, identity.exchange()), (id, &PublicKey(*key)));
            let Some(pair) = epoch.keys.pair_for_sender(own, key) else {
                // Nothing can be agreed on with it: that is not tried twice.
                stats.malformed += 1;
                return peers.refuse(id);
            };
            epoch.pairs.insert(id, pair);
        }
        let known = epoch.boots.get(&id);
        let boot = record.boot();
        let (nonce, standing) = match (boot, known) {
            (Some(boot), _) => {
                (boot.nonce, KnownBoot::standing(known.map(|(known, _)| known), &boot, next))
            }
            (None, Some((known, _))) => (*known.nonce(), Standing::Known),
            (None, None) => {
                stats.not_fresh += 1;
                return;
            }
        };
        let window = match known {
            Some((_, window)) if standing == Standing::Known => window.clone(),
            _ => ReplayWindow::new(),
        };
        let Some(opener) = epoch.take_paired(id, own, &nonce) else { return };
        let opened = Sealed::Compact(record).open(&opener, &window, Proof::Member);
        count(&mut epoch.responses, &opened);
        if standing == Standing::Known {
            epoch.keep_hot(Listener::Id(id), opener);
        }
        let Opened { number, kind, content } = match opened {
            Ok(opened) => opened,
            Err(reason) => return self.count(now, reason),
        };
        self.authentic += 1;
        if kind == GROUP_CHALLENGE {
            // Of whatever boot it is: it changes neither the nonce nor what is taken for new.
            return match <[u8; 8]>::try_from(&*content) {
                Ok(challenge) if challenge != nonce => {
                    self.answer(now, at, (id, from), Challenge(challenge));
                }
                _ => self.stats.malformed += 1,
            };
        }
        if !epoch.is_from_the_start() {
            // What listeners answered before the restart may come again.
            self.stats.not_fresh += 1;
            return;
        }
        match (standing, boot) {
            (Standing::Known, _) => {}
            (Standing::New, Some(boot)) => {
                epoch.drop_hot(id);
                epoch.boots.insert(id, (KnownBoot::new(&boot, next), window));
            }
            _ => {
                self.stats.replayed += 1;
                return;
            }
        }
        if let Some((known, window)) = epoch.boots.get_mut(&id) {
            known.heard(next);
            window.commit(number);
        }
        if kind == ContentType::APPLICATION_DATA {
            self.routes.heard(id, from);
            self.stats.delivered += 1;
            deliver(Delivery::Response { listener: Listener::Id(id), from, content });
        } else {
            self.stats.strangers += 1;
        }
        if boot.is_some() {
            // From now on the listener need not state it.
            self.acknowledge(now, at, (id, from), nonce);
        }
    }
}
