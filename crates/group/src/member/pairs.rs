//! How a sender opens pairwise responses, which only it can read.
//!
//! A response under the ListenerID of a listener whose public key is not known costs at most a
//! lookup. For every other ListenerID there is at most one X25519 computation in each epoch,
//! however many records are sent under it.

use super::epoch::count;
use super::keys::{AuthenticRecord, Listener, ReceivedRecord, RequiredProof};
use super::{Delivery, Member};
use crate::codepoints::GROUP_CHALLENGE;
use crate::compact::{BootStatus, Challenge, KnownBoot, PublicKey};
use crate::{ListenerId, SenderId, compact};
use core::net::SocketAddr;
use lightseal_core::{Instant, ReplayWindow};
use lightseal_dtls::codepoints::ContentType;

impl Member {
    pub(super) fn paired_record(
        &mut self,
        now: Instant,
        (own, from): (SenderId, SocketAddr),
        record: compact::SealedRecord<'_, ListenerId>,
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
                // The listener's key is invalid, and is dropped so that it is not tried again.
                stats.malformed += 1;
                return peers.refuse(id);
            };
            epoch.pairs.insert(id, pair);
        }
        let known = epoch.boots.get(&id);
        let boot = record.boot();
        let (nonce, standing) = match (boot, known) {
            (Some(boot), _) => {
                (boot.nonce, KnownBoot::status_of(known.map(|(known, _)| known), &boot, next))
            }
            (None, Some((known, _))) => (*known.nonce(), BootStatus::Known),
            (None, None) => {
                stats.not_fresh += 1;
                return;
            }
        };
        let window = match known {
            Some((_, window)) if standing == BootStatus::Known => window.clone(),
            _ => ReplayWindow::new(),
        };
        let Some(opener) = epoch.take_paired(id, own, &nonce) else { return };
        let opened = ReceivedRecord::Compact(record).open(&opener, &window, RequiredProof::Member);
        count(&mut epoch.responses, &opened);
        if standing == BootStatus::Known {
            epoch.cache(Listener::Id(id), opener);
        }
        let AuthenticRecord { number, kind, content } = match opened {
            Ok(opened) => opened,
            Err(reason) => return self.count(now, reason),
        };
        self.authentic += 1;
        if kind == GROUP_CHALLENGE {
            // A challenge from any boot is answered, because it changes neither the known boot
            // nonce nor the replay window.
            return match <[u8; 8]>::try_from(&*content) {
                Ok(challenge) if challenge != nonce => {
                    self.answer(now, at, (id, from), Challenge(challenge));
                }
                _ => self.stats.malformed += 1,
            };
        }
        if !epoch.is_from_the_start() {
            // Responses that arrived before the restart may be replayed.
            self.stats.not_fresh += 1;
            return;
        }
        match (standing, boot) {
            (BootStatus::Known, _) => {}
            (BootStatus::New, Some(boot)) => {
                epoch.evict_cached(id);
                epoch.boots.insert(id, (KnownBoot::new(&boot, next), window));
            }
            _ => {
                self.stats.replayed += 1;
                return;
            }
        }
        if let Some((known, window)) = epoch.boots.get_mut(&id) {
            known.mark_heard(next);
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
            // After this acknowledgement the listener omits the boot nonce.
            self.acknowledge(now, at, (id, from), nonce);
        }
    }
}
