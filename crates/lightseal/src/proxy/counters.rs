//! The counters of the proxies.

use super::limits::Refusal;
use crate::loud::Loud;
use crate::units::counted;
use lightseal_dtls::{ReasonClass, ReasonCounts, SendError, Stats};
use lightseal_net::address::Named;
use lightseal_net::tokio::SocketCounters;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A counter that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub(crate) fn one(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The current count.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Messages of applications that were carried in one direction.
#[derive(Debug, Default)]
pub(crate) struct CarriedMessages {
    messages: Count,
    bytes: Count,
}

impl CarriedMessages {
    /// Counts one message.
    pub(crate) fn message(&self, payload: &[u8]) {
        self.messages.one();
        self.bytes.add(payload.len() as u64);
    }

    /// Counts `count` messages of `bytes` bytes together.
    pub(crate) fn messages_of(&self, count: usize, bytes: usize) {
        self.messages.add(count as u64);
        self.bytes.add(bytes as u64);
    }

    /// The number of messages.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.get()
    }

    fn json(&self) -> Value {
        json!({ "messages": self.messages.get(), "bytes": self.bytes.get() })
    }
}

/// Numbers of refused flows and handshakes by reason.
#[derive(Debug, Default)]
pub(crate) struct RefusalCounts([Count; Refusal::ALL.len()]);

impl RefusalCounts {
    fn count(&self, refusal: Refusal) {
        self.0[refusal as usize].one();
    }

    fn json(&self) -> Value {
        let counts = Refusal::ALL.into_iter().zip(&self.0);
        counts.map(|(refusal, count)| (refusal.name(), count.get())).collect()
    }
}

/// Numbers of associations by the class of the reason why they ended.
#[derive(Debug, Default)]
pub(crate) struct EndCounts(Mutex<ReasonCounts>);

impl EndCounts {
    /// Counts one association.
    pub(crate) fn count(&self, class: ReasonClass) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count(class);
    }

    fn json(&self) -> Value {
        by_class(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts by class, with the names of the classes.
pub(crate) fn by_class(counts: &ReasonCounts) -> Value {
    counts.iter().map(|(class, count)| (class.name(), count)).collect()
}

/// The counters of one proxy over all its flows, open and ended.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Flows whose association was begun (client) or completed (server).
    pub(crate) opened: Count,
    /// Flows refused because there were too many, or no socket was available.
    pub(crate) refused: Count,
    /// Flows that were ended to make room for a flow of an identity or network with fewer flows.
    pub(crate) gave_way: Count,
    /// Associations that ended other than by an orderly close.
    pub(crate) failed: Count,
    /// Handshakes that resumed a session.
    pub(crate) resumed: Count,
    /// Handshakes that were completed.
    pub(crate) handshakes: Count,
    /// Handshakes that were begun and failed, by reason.
    pub(crate) failed_handshakes: EndCounts,
    /// Complete associations that ended, by reason.
    pub(crate) ended: EndCounts,
    /// Flows and handshakes that were refused, by reason. `refused` has all those flows.
    pub(crate) refusals: RefusalCounts,
    /// Messages from the local side to the other proxy.
    pub(crate) outward: CarriedMessages,
    /// Messages from the other proxy to the local side.
    pub(crate) inward: CarriedMessages,
    /// Datagrams too long for one record.
    pub(crate) oversize: Count,
    /// Empty datagrams, which are not carried.
    pub(crate) empty: Count,
    /// Datagrams for which an association's queue had no room.
    pub(crate) queue_full: Count,
    /// Messages whose flow was refused.
    pub(crate) refused_messages: Count,
    /// Verified messages that the local socket refused.
    pub(crate) undelivered: Count,
    /// Messages that the service's host rejected because nothing listens on the port. They are also
    /// counted in `inward`.
    pub(crate) bounced: Count,
    /// Datagrams that were still unread when their socket was closed.
    pub(crate) unread: Count,
    /// Empty records exchanged to keep flows alive.
    pub(crate) keepalives: Count,
    /// Datagrams that were received by another worker than the one that they are for, and were dropped
    /// because its mailbox was full.
    pub(crate) worker_overflows: Count,
    /// Flows refused because their datagrams came from this proxy's own flows.
    pub(crate) loops: Count,
    /// Datagrams that the kernel dropped, because this proxy was too slow, at sockets that are
    /// closed now: `overruns_local` at sockets towards applications or the service,
    /// `overruns_outer` at sockets towards the other proxy.
    pub(crate) overruns_local: Count,
    pub(crate) overruns_outer: Count,
    /// Limits warnings about overruns.
    pub(crate) loud_overruns: Loud,
    /// Limits warnings about messages that waited for too long.
    pub(crate) loud_stale: Loud,
    /// Limits warnings about tags that the other end does not share.
    pub(crate) loud_unshared: Loud,
    /// Limits warnings about oversize datagrams.
    pub(crate) loud_oversize: Loud,
    /// Limits warnings about refused flows.
    pub(crate) loud_refused: Loud,
    /// Limits warnings about handshakes.
    pub(crate) loud_handshakes: Loud,
    /// Limits warnings about peers that are not on the access list.
    pub(crate) loud_unlisted: Loud,
    /// Limits warnings about undelivered messages.
    pub(crate) loud_undelivered: Loud,
}

impl Totals {
    /// The number of messages that were carried, in both directions.
    pub(crate) fn carried(&self) -> u64 {
        self.outward.messages() + self.inward.messages()
    }

    /// Counts what became of a message that was given to the engine: sent, or why it was not, with the
    /// longest message that could be. Returns the same without that length. What is for a closed
    /// association is left to the caller, who may open another one for it.
    pub(crate) fn count_outward(
        &self,
        payload: &[u8],
        sent: Result<(), (SendError, usize)>,
    ) -> Result<(), SendError> {
        match sent {
            Ok(()) => self.outward.message(payload),
            Err((SendError::TooLong, limit)) => self.count_oversize(payload.len(), limit),
            Err((SendError::Closed, _)) => {}
            Err(_) => self.queue_full.one(),
        }
        sent.map_err(|(error, _)| error)
    }

    /// Counts a datagram that is too long, and warns.
    fn count_oversize(&self, bytes: usize, limit: usize) {
        self.oversize.one();
        if let Some(times) = self.loud_oversize.due() {
            tracing::warn!(
                "REFUSED a datagram of {bytes} bytes: at most {limit} fit a record \
                 ({times} since the last such message, {} in all); see --max-datagram",
                self.oversize.get()
            );
        }
    }

    /// Counts a flow that was not opened, and warns.
    pub(crate) fn count_refused(&self, refusal: Refusal, why: &dyn std::fmt::Display) {
        self.refused.one();
        self.refusals.count(refusal);
        if let Some(times) = self.loud_refused.due() {
            tracing::warn!("REFUSED a flow: {why} ({times} since the last such message)");
        }
    }

    /// Counts a client that was refused before it had an association, and warns.
    pub(crate) fn count_refused_client(&self, refusal: Refusal, peer: SocketAddr) {
        self.refusals.count(refusal);
        if let Some(times) = self.loud_refused.due() {
            tracing::warn!(
                peer.address = %Named(peer),
                "REFUSED a client at {}: {refusal} ({times} since the last such message)",
                Named(peer)
            );
        }
    }

    /// Warns about a failed handshake. Not each one is logged, since anybody can begin handshakes.
    pub(crate) fn complain_of_handshake(&self, peer: SocketAddr, why: &dyn std::fmt::Display) {
        if let Some(times) = self.loud_handshakes.due() {
            let peer = Named(peer);
            tracing::warn!(
                peer.address = %peer,
                "{peer}: no handshake: {why} ({times} since the last such message)"
            );
        }
    }

    /// Warns about a peer that shows a trusted certificate or key, or names a known PSK, and is not on
    /// the access list. Junk of strangers does not keep these lines out of the log.
    pub(crate) fn complain_of_unlisted(&self, peer: SocketAddr, why: &str) {
        if let Some(times) = self.loud_unlisted.due() {
            let peer = Named(peer);
            tracing::warn!(
                peer.address = %peer,
                "{peer}: no handshake: {why} ({times} since the last such message)"
            );
        }
    }

    /// Counts a message that the local side did not accept, and warns.
    pub(crate) fn count_undelivered(&self, whom: &dyn std::fmt::Display, error: &std::io::Error) {
        self.undelivered.one();
        self.complain_of_undelivered(whom, error);
    }

    /// Counts a message that the service's host rejected, and warns.
    pub(crate) fn count_bounced(&self, whom: &dyn std::fmt::Display, error: &std::io::Error) {
        self.bounced.one();
        self.complain_of_undelivered(whom, error);
    }

    fn complain_of_undelivered(&self, whom: &dyn std::fmt::Display, error: &std::io::Error) {
        if let Some(times) = self.loud_undelivered.due() {
            tracing::warn!(
                "{whom} does not take messages: {error} ({times} since the last such message)"
            );
        }
    }

    /// Counts a new flow that comes from one of this proxy's own flows. Only the first one is
    /// logged.
    pub(crate) fn count_loop(&self, from: SocketAddr, listen: &dyn std::fmt::Display) {
        self.loops.one();
        if self.loops.get() == 1 {
            tracing::warn!(
                "LOOP: what this proxy carries comes back to it from {from}. The service of the \
                 server proxy (its --connect) is this proxy itself (--listen {listen}): one of the two \
                 needs another port. Such flows are refused and counted"
            );
        }
    }

    /// Warns about messages that are longer than the path to `server` carries.
    pub(crate) fn complain_of_narrow_path(
        &self,
        server: &dyn std::fmt::Display,
        longest: usize,
        count: u64,
    ) {
        if self.loud_oversize.due().is_some() {
            tracing::warn!(
                "dropped {count} messages that are longer than the path to {server} takes: {longest} \
                 bytes at most"
            );
        }
    }

    /// Warns about messages that waited for too long.
    pub(crate) fn complain_of_stale(&self, whom: &dyn std::fmt::Display, count: u64) {
        if self.loud_stale.due().is_some() {
            tracing::warn!(
                "flow {whom}: dropped {} that had waited too long (--max-age)",
                counted(count, "message")
            );
        }
    }

    /// Warns about tags that the other end does not share.
    pub(crate) fn complain_of_unshared(&self, whom: &dyn std::fmt::Display, why: &str) {
        if let Some(times) = self.loud_unshared.due() {
            tracing::warn!("{whom}: {why} ({times} since the last such message)");
        }
    }

    /// Warns about datagrams that the kernel dropped at a socket. `now` is their number, `known`
    /// the number that was logged before.
    pub(crate) fn complain_of_overruns(&self, known: &Count, now: u64) {
        let more = now.saturating_sub(known.get());
        if more > 0 && self.loud_overruns.due().is_some() {
            known.add(more);
            tracing::warn!(
                "{} arrived faster than this proxy read them, and were lost; {now} in all",
                counted(more, "datagram")
            );
        }
    }

    /// All counters, those of sockets and associations included, as JSON.
    pub(crate) fn json(
        &self,
        role: &str,
        open: usize,
        socket: SocketCounters,
        overruns: (u64, u64),
        dtls: &Stats,
    ) -> Value {
        let mut all = json!({
            "role": role,
            "flows": {
                "open": open,
                "opened": self.opened.get(),
                "refused": self.refused.get(),
                "gave_way": self.gave_way.get(),
                "failed": self.failed.get(),
                "resumed": self.resumed.get(),
            },
            "handshakes": {
                "complete": self.handshakes.get(),
                "failed": self.failed_handshakes.json(),
            },
            "ended": self.ended.json(),
            "refusals": self.refusals.json(),
            "outward": self.outward.json(),
            "inward": self.inward.json(),
            "oversize": self.oversize.get(),
            "empty": self.empty.get(),
            "queue_full": self.queue_full.get(),
            "refused_messages": self.refused_messages.get(),
            "undelivered": self.undelivered.get(),
            "bounced": self.bounced.get(),
            "unread": self.unread.get(),
            "keepalives": self.keepalives.get() + dtls.sent.probes,
            "loops": self.loops.get(),
            "worker_overflows": self.worker_overflows.get(),
            "overruns": {
                "local": self.overruns_local.get() + overruns.0,
                "outer": self.overruns_outer.get() + overruns.1,
            },
            "socket": socket,
            "dtls": dtls_counters(dtls),
        });
        all["drops"] = json!(super::report::drops(&all));
        all
    }
}

/// The counters of DTLS associations, summed over all of them. A name that both directions have
/// begins with the direction, except for the sent `closing_tags`.
fn dtls_counters(stats: &Stats) -> Value {
    let both = ["datagrams", "bytes", "handshake_bytes", "closing_tags"];
    let directions =
        [("sent", json!(stats.sent), &both[..3]), ("received", json!(stats.received), &both[..])];
    let mut named = Map::new();
    for (direction, counters, both) in directions {
        for (name, count) in counters.as_object().into_iter().flatten() {
            let begins = both.contains(&&**name);
            let name = if begins { format!("{direction}_{name}") } else { name.clone() };
            named.insert(name, count.clone());
        }
    }
    named.remove("evaluations");
    Value::Object(named)
}

/// Adds one driver's socket counters to a sum.
pub(crate) fn add_socket(sum: &mut SocketCounters, counters: &SocketCounters) {
    sum.received += counters.received;
    sum.received_bytes += counters.received_bytes;
    sum.sent += counters.sent;
    sum.sent_bytes += counters.sent_bytes;
    sum.refused += counters.refused;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_associations_have_unique_names() {
        let mut stats = Stats::default();
        stats.sent.closing_tags = 1;
        stats.received.closing_tags = 2;
        stats.sent.bytes = 3;
        let counters = dtls_counters(&stats);
        assert_eq!(counters["closing_tags"], 1);
        assert_eq!(counters["received_closing_tags"], 2);
        assert_eq!(counters["sent_bytes"], 3);
        let expected = "\
        black_holes buffer_full check_failed closing_tags delivered delivered_bytes \
        exhausted forged hints malformed message_bytes messages moves mtu_probes \
        path_challenges probe_bytes probes provisional received_bytes \
        received_closing_tags received_datagrams received_handshake_bytes records \
        refused refuted replayed retransmissions sent_bytes sent_datagrams \
        sent_handshake_bytes silences stale too_long unauthentic unknown_epoch unsaved unsent \
        unverified";
        let names: Vec<_> = counters.as_object().expect("an object").keys().collect();
        assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    }
}
