//! What a restored association does until its peer has followed.

use super::Persistence;
use crate::connection::Connection;
use crate::connection::stage::Stage;
use crate::record::{ReceiveEpoch, SendEpoch};
use crate::timer::Timer;
use crate::tuning::{MOST_UNHEARD_TRIES, SAVE_INTERVAL, SEARCHES, UNSETTLED_RECORDS};
use lightseal_core::Instant;

/// Whether a successor asks its peer for new keys: it needs them if its predecessor did not end in an
/// orderly way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// They are not needed, or were asked for.
    Done,
    /// As soon as the association acts.
    AtOnce,
    /// As soon as the association acts and the endpoint says when.
    InTurn,
    /// At a time that the endpoint has said.
    Later,
}

/// How a successor stands to its peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adopted {
    /// Neither was the peer heard, nor has the application sent anything.
    pub(super) dormant: bool,
    pub(super) renewal: Renewal,
    /// The predecessor has not ended in an orderly way.
    pub(super) cut: bool,
    /// How often a flight was sent again since the peer was heard last.
    pub(super) tries: u8,
    /// The flight waits until the peer is heard.
    pub(super) waits: bool,
    /// From when further records may be searched for larger numbers; `None` once one was
    /// authentic.
    pub(super) search_from: Option<Instant>,
}

impl Connection {
    /// The peer was heard: an authentic record came.
    pub(in crate::connection) fn heard_successor(&mut self) {
        let Some(adopted) = self.adopted() else { return };
        adopted.tries = 0;
        let searched = adopted.search_from.take().is_some();
        if core::mem::take(&mut adopted.waits) && !self.channel.flight.is_done() {
            self.channel.flight.resend();
        }
        if searched {
            self.channel.receive.all_mut().iter_mut().for_each(ReceiveEpoch::end_search);
        }
        self.awaken();
    }

    /// Records came of which none is authentic. Under shared tags that need not be a forger: nobody can
    /// tell the numbers of data when the peer has counted far, and the peer's answer to new keys has a
    /// tag of its own.
    pub(in crate::connection) fn heard_nothing_authentic(&mut self) {
        let dormant = self.persistence.get().is_some_and(Persistence::is_dormant);
        let unsettled = self.channel.receive.newest().map_or(0, ReceiveEpoch::unsettled);
        if dormant && unsettled >= UNSETTLED_RECORDS {
            self.awaken();
        }
    }

    /// Whether records of either direction share tags, or may do so later.
    pub(super) fn may_share_tags(&self) -> bool {
        matches!(&self.stage, Stage::Established(agreed) if !agreed.offered.is_empty())
    }

    /// Whether records of either direction share tags.
    pub(super) fn shares_tags(&self) -> bool {
        self.channel.send.peek().is_some_and(|epoch| epoch.scheme().aggregates())
            || self.channel.receive.all().iter().any(ReceiveEpoch::shares_tags)
    }

    /// The application sends. If its data waits for new keys, and the flight that asks for them for the
    /// peer, the flight is sent some times more.
    pub(in crate::connection) fn try_again_for_data(&mut self) {
        if self.channel.send.peek().is_none_or(SendEpoch::takes_data) {
            return;
        }
        let Some(adopted) = self.adopted() else { return };
        if core::mem::take(&mut adopted.waits) {
            adopted.tries = 0;
            self.channel.flight.resend();
        }
    }

    /// A successor whose data waits for new keys asks for them out of turn.
    pub(in crate::connection) fn renew_for_data(&mut self) {
        let waits = !self.channel.send.peek().is_none_or(SendEpoch::takes_data);
        if !waits || self.queue.is_empty() {
            return;
        }
        let Some(adopted) = self.adopted().filter(|of| !of.dormant) else { return };
        if matches!(adopted.renewal, Renewal::InTurn | Renewal::Later) {
            self.timers.stop(Timer::Renewal);
            self.renew_keys();
        }
    }

    fn adopted(&mut self) -> Option<&mut Adopted> {
        self.persistence.get_mut()?.adopted.as_mut()
    }

    /// Lets a successor act that has something to send.
    pub(in crate::connection) fn awaken_to_send(&mut self) {
        let dormant = self.persistence.get().is_some_and(Persistence::is_dormant);
        if dormant && (!self.queue.is_empty() || self.is_probe_due()) {
            self.awaken();
        }
    }

    /// The peer was heard, or the application sends: a successor begins to act.
    pub(in crate::connection) fn awaken(&mut self) {
        let Some(adopted) = self.adopted() else { return };
        if !core::mem::take(&mut adopted.dormant) {
            return;
        }
        let renewal = adopted.renewal;
        if self.is_12() {
            // The last flight of a handshake is sent again only when the peer asks for it.
            return;
        }
        self.channel.flight.resend();
        if renewal == Renewal::AtOnce {
            self.renew_keys();
        }
    }

    /// Asks the peer for new keys, and sends new ones.
    pub(in crate::connection) fn renew_keys(&mut self) {
        if let Some(adopted) = self.adopted() {
            adopted.renewal = Renewal::Done;
        }
        self.key_update.request();
        self.want_key_update();
    }

    /// Lets an endpoint say when this restored association asks for new keys.
    pub(crate) fn renew_in_turn(&mut self) {
        let is_12 = self.is_12();
        if let Some(adopted) = self.adopted()
            && adopted.renewal == Renewal::AtOnce
        {
            adopted.renewal = if is_12 { Renewal::Done } else { Renewal::InTurn };
        }
    }

    /// Whether this association acts, and waits for its endpoint to say when to ask for new keys.
    pub(crate) fn awaits_renewal(&self) -> bool {
        let adopted = self.persistence.get().and_then(|persistence| persistence.adopted);
        adopted.is_some_and(|of| !of.dormant && of.renewal == Renewal::InTurn)
    }

    /// The association asks for new keys at this time. Messages do not wait for that.
    pub(crate) fn renew_at(&mut self, at: Instant) {
        if at <= self.now {
            return self.renew_keys();
        }
        if let Some(adopted) = self.adopted() {
            adopted.renewal = Renewal::Later;
            self.timers.set(Timer::Renewal, at);
        }
    }

    /// Whether the flight of a successor waits until the peer is heard.
    pub(in crate::connection) fn waits_for_a_silent_peer(&mut self) -> bool {
        let Some(adopted) = self.adopted() else { return false };
        adopted.tries = adopted.tries.saturating_add(1);
        adopted.waits = adopted.tries > MOST_UNHEARD_TRIES;
        adopted.waits
    }

    /// Lets the epochs of a successor search for the numbers of further records.
    pub(in crate::connection) fn search_numbers(&mut self) {
        let now = self.now;
        let Some(persistence) = self.persistence.get_mut() else { return };
        let part = persistence.part;
        let Some(from) = persistence.adopted.as_mut().and_then(|a| a.search_from.as_mut()) else {
            return;
        };
        if now < *from {
            return;
        }
        *from = now + SAVE_INTERVAL;
        for epoch in self.channel.receive.all_mut() {
            epoch.search_number(part, SEARCHES);
        }
    }
}
