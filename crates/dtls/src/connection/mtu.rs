//! Path MTU discovery: the longest datagram that the path to the peer carries, found with
//! authenticated probes (DPLPMTUD, RFC 8899).
//!
//! Datagrams of [`Settings::datagram_bytes`](crate::Settings::datagram_bytes) are assumed to arrive
//! (RFC 8899's `BASE_PLPMTU`). A longer one, up to
//! [`Settings::path_mtu`](crate::Settings::path_mtu), is sent only after a probe of its length was
//! answered. A probe is a path challenge (RFC 9853) that is padded to its length: the response
//! proves that the whole datagram arrived. The path is not probed before a payload needs it, so
//! that a sensor that never sends long messages never sends long probes.
//!
//! A payload that needs a longer datagram waits for the probe's answer, which takes one round trip
//! if the path carries the probe. If it does not, the payload is dropped and counted.

use super::{Connection, Ending};
use crate::codepoints::ContentType;
use crate::config::Settings;
use crate::messages::return_routability::{PathMessage, PathMessageKind};
use crate::parts::{self, PartState};
use crate::record::{NumberLength, SendEpoch};
use crate::timer::Timer;
use crate::tuning::{
    MAX_MTU_PROBES, MTU_CONFIRM_INTERVAL, MTU_PROBE_PATIENCE, MTU_RAISE_INTERVAL, MTU_STEP,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_core::{AddressPair, Encode, Instant};
use subtle::ConstantTimeEq;

/// The search for the path MTU; empty if no datagrams longer than those that are assumed to arrive
/// are to be sent.
pub(super) type PathMtu = PartState<parts::PathMtu, PathSearch>;

/// A search as the settings ask for it.
pub(super) fn begin(settings: &Settings) -> PathMtu {
    let base = settings.datagram_bytes;
    let mut mtu = PathMtu::EMPTY;
    if let Some(part) = parts::PathMtu::INCLUDED
        && let Some(limit) = settings.path_mtu.filter(|limit| *limit > base)
    {
        mtu.set(part, PathSearch::new(base, limit));
    }
    mtu
}

/// What is known of the path. Lengths are bytes of UDP payload.
#[derive(Clone, Debug)]
pub(super) struct PathSearch {
    /// The length that is assumed to arrive without a probe.
    base: usize,
    /// The longest length that is probed.
    limit: usize,
    /// The longest datagram that arrived; at least `base`.
    confirmed: usize,
    /// The longest length for which no shorter or equal probe has failed.
    ceiling: usize,
    /// When lengths that failed may be probed again.
    raise_at: Instant,
    /// When a path that carries long datagrams is probed again to confirm it.
    confirm_at: Instant,
    /// The length that the first queued payload needs, if that is more than `confirmed`.
    demand: usize,
    /// In a box, because most of the time there is none.
    round: Option<Box<ProbeRound>>,
}

/// Probes of one or two lengths, sent up to [`MAX_MTU_PROBES`] times.
#[derive(Clone, Debug)]
struct ProbeRound {
    lengths: Vec<usize>,
    /// The probes that are to be sent now.
    due: Vec<usize>,
    tries: u8,
    cookies: Vec<(usize, [u8; 8])>,
}

impl PathSearch {
    fn new(base: usize, limit: usize) -> Self {
        Self {
            base,
            limit,
            confirmed: base,
            ceiling: limit,
            raise_at: Instant::MAX,
            confirm_at: Instant::ZERO,
            demand: 0,
            round: None,
        }
    }

    /// Whether no search is in progress.
    pub(super) const fn is_idle(&self) -> bool {
        self.round.is_none()
    }

    /// Whether no probe is due.
    pub(super) fn is_quiet(&self) -> bool {
        self.round.as_ref().is_none_or(|round| round.due.is_empty())
    }

    /// The longest datagram for which it is still possible that it arrives.
    fn reach(&self, now: Instant) -> usize {
        if now >= self.raise_at { self.limit } else { self.ceiling }
    }

    /// Begins a round of probes with the most useful lengths.
    fn search(&mut self) {
        let (confirmed, ceiling, demand) = (self.confirmed, self.ceiling, self.demand);
        if ceiling <= confirmed {
            return;
        }
        // Most paths carry the whole limit, so that is tried first; after that the length halfway,
        // and in both cases the length that is needed now.
        let first = if ceiling == self.limit { ceiling } else { (confirmed + ceiling).div_ceil(2) };
        let mut lengths = Vec::from([first]);
        if confirmed < demand && demand <= ceiling && demand != first {
            lengths.push(demand);
        }
        self.begin(lengths);
    }

    fn begin(&mut self, lengths: Vec<usize>) {
        let due = lengths.clone();
        let round = ProbeRound { lengths, due, tries: 1, cookies: Vec::new() };
        self.round = Some(Box::new(round));
    }

    /// A probe of `bytes` was answered. Returns whether the round is over.
    fn arrived(&mut self, now: Instant, bytes: usize) -> bool {
        self.confirmed = self.confirmed.max(bytes);
        self.confirm_at = now + MTU_CONFIRM_INTERVAL;
        let confirmed = self.confirmed;
        if let Some(round) = &mut self.round {
            round.due.retain(|due| *due > confirmed);
            if round.lengths.iter().all(|length| *length <= confirmed) {
                self.next_round();
                return true;
            }
        }
        false
    }

    /// Continues the search until the limit is known precisely enough.
    fn next_round(&mut self) {
        self.round = None;
        let needed = self.confirmed < self.demand && self.demand <= self.ceiling;
        if needed || self.ceiling.saturating_sub(self.confirmed) > MTU_STEP {
            self.search();
        } else {
            self.ceiling = self.confirmed;
        }
    }

    /// A round of probes was not answered in time. Returns whether the path has become narrower.
    fn expired(&mut self, now: Instant) -> bool {
        let confirmed = self.confirmed;
        let Some(round) = &mut self.round else { return false };
        if round.tries < MAX_MTU_PROBES {
            round.tries += 1;
            // A round with one length may re-confirm a length that is confirmed already, so its
            // probe is always repeated.
            let again = round.lengths.iter().copied();
            round.due = match round.lengths[..] {
                [only] => Vec::from([only]),
                _ => again.filter(|length| *length > confirmed).collect(),
            };
            return false;
        }
        let failed = round.lengths.iter().copied().filter(|length| *length > confirmed).min();
        let black_hole = failed.is_none();
        if black_hole {
            self.confirmed = self.base;
            self.ceiling = confirmed.saturating_sub(1).max(self.base);
        }
        if let Some(failed) = failed {
            self.ceiling = (failed - 1).max(confirmed);
        }
        self.raise_at = now + MTU_RAISE_INTERVAL;
        self.next_round();
        black_hole
    }
}

impl Connection {
    /// The longest payload, in bytes, that fits a datagram, regardless of the record that carries
    /// it. Valid until [`AggregationChanged`](super::Event::AggregationChanged): payloads in the
    /// queue that no longer fit then are dropped and counted.
    ///
    /// Before the handshake is complete this is an estimate, because the peer may ask for shorter
    /// records. With [`path_mtu`](crate::Settings::path_mtu) set it is the length that the path may
    /// still turn out to carry, and once the path MTU is known, what that allows.
    pub fn max_payload(&self) -> usize {
        self.payload_of(self.reachable_datagram())
    }

    /// The longest payload, in bytes, that fits a datagram of `bytes`.
    pub(super) fn payload_of(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.data_overhead()).min(self.channel.record_limit.into())
    }

    /// The largest overhead of a datagram beside its payload, in bytes.
    pub(super) fn data_overhead(&self) -> usize {
        if let Some(read_only) = self.read_only.get() {
            return usize::from(read_only.data_overhead) + self.settings().length_bytes();
        }
        match self.channel.send.peek() {
            Some(epoch) if self.sends_data() => {
                let lengths = self.settings().length_bytes();
                epoch.largest_data_overhead(NumberLength::Two) + lengths
            }
            _ => self.settings().largest_overhead(),
        }
    }

    /// The longest datagram that is known to arrive at the peer, in bytes of UDP payload.
    pub fn path_mtu(&self) -> usize {
        self.mtu.get().map_or(self.settings().datagram_bytes, |search| search.confirmed)
    }

    /// Presumes that the path carries datagrams of `bytes`, as another association with the same
    /// peer has found. The first such datagram is accompanied by a probe that confirms it for this
    /// one.
    pub fn presume_path_mtu(&mut self, bytes: usize) {
        if let Some(search) = self.mtu.get_mut() {
            search.confirmed = search.confirmed.max(bytes.min(search.ceiling));
        }
    }

    /// The longest datagram that may be possible once the path has been probed.
    pub(super) fn reachable_datagram(&self) -> usize {
        let search = self.mtu.get().filter(|_| self.can_probe());
        search.map_or(self.settings().datagram_bytes, |search| search.reach(self.now))
    }

    /// The longest datagram that may be sent now.
    pub(super) fn confirmed_datagram(&self) -> usize {
        let search = self.mtu.get().filter(|_| self.can_probe());
        search.map_or(self.settings().datagram_bytes, |search| search.confirmed)
    }

    /// Whether the peer answers probes, or, before the handshake is complete, whether it may.
    fn can_probe(&self) -> bool {
        let settings = self.settings();
        match self.agreed() {
            Some(agreed) => {
                let sending = || self.channel.send.peek().is_some_and(SendEpoch::can_pad);
                let can_pad = self.read_only.get().map_or_else(sending, |of| of.can_pad);
                agreed.return_routability && can_pad
            }
            None => settings.connection_ids.are_negotiated() && settings.return_routability,
        }
    }

    /// The first queued payload needs a datagram of `bytes`.
    pub(super) fn want_datagram(&mut self, bytes: usize) {
        if !self.is_established() {
            return;
        }
        let Some(search) = self.mtu.get_mut() else { return };
        search.demand = bytes;
        if self.now >= search.raise_at {
            (search.ceiling, search.raise_at) = (search.limit, Instant::MAX);
        }
        if search.round.is_none() {
            search.search();
        }
    }

    /// Begins a probe when a long datagram was sent and the last confirmation of the path is too
    /// old.
    pub(super) fn sent_datagram(&mut self, bytes: usize) {
        let Some(search) = self.mtu.get_mut() else { return };
        if bytes > search.base && search.round.is_none() && self.now >= search.confirm_at {
            search.begin(Vec::from([search.confirmed]));
        }
    }

    /// The peer's address has changed: nothing is known of the new path.
    pub(super) fn forget_path_mtu(&mut self) {
        if let Some(search) = self.mtu.get_mut() {
            *search = PathSearch::new(search.base, search.limit);
        }
        self.timers.stop(Timer::PathMtu);
    }

    /// A path response came from the peer's address; it may answer a probe.
    pub(super) fn probe_answered(&mut self, cookie: &[u8; 8]) {
        let Some(search) = self.mtu.get_mut() else { return };
        let Some(round) = &search.round else { return };
        let mut cookies = round.cookies.iter();
        let known = cookies.find(|(_, sent)| sent.ct_eq(cookie).into());
        if let Some((bytes, _)) = known.copied()
            && search.arrived(self.now, bytes)
        {
            self.timers.stop(Timer::PathMtu);
        }
    }

    /// The round of probes was not answered in time.
    pub(super) fn probe_lost(&mut self) {
        let now = self.now;
        if self.mtu.get_mut().is_some_and(|search| search.expired(now)) {
            self.stats.sent(|sent| sent.black_holes += 1);
        }
    }

    /// Writes the next probe; returns its length in bytes and its addresses.
    #[inline(never)]
    pub(super) fn build_mtu_probe(&mut self, buf: &mut [u8]) -> Option<(usize, AddressPair)> {
        if self.ending != Ending::Open || !self.can_probe() {
            return None;
        }
        let round = self.mtu.get_mut()?.round.as_mut()?;
        let bytes = round.due.pop()?;
        let cookie = self.channel.rng.array();
        round.cookies.push((bytes, cookie));
        // A peer whose address has changed has the same keys and answers from its new address.
        let patience = self.retransmission.timeout().max(MTU_PROBE_PATIENCE);
        self.timers.set(Timer::PathMtu, self.now + patience);
        let message = PathMessage { kind: PathMessageKind::Challenge, cookie };
        let kind = ContentType::RETURN_ROUTABILITY_CHECK;
        let (most, last) = (usize::from(self.channel.record_limit), self.last_control());
        let epoch = self.channel.send.newest()?;
        let fits = bytes.checked_sub(epoch.overhead(kind, last))?;
        let datagram = buf.get_mut(..bytes).filter(|_| fits <= most)?;
        let sealed = epoch.seal_filling(datagram, kind, last, |w| message.write(w));
        self.stats.sent(|sent| sent.mtu_probes += 1);
        let to = self.path.to();
        sealed.ok().map(|sealed| (sealed.len, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes a path that carries `takes` bytes until the search ends.
    fn searched(takes: usize, demand: usize) -> (PathSearch, usize) {
        let mut mtu = PathSearch::new(1200, 1452);
        let (now, mut probes) = (Instant::from_micros(5), 0);
        mtu.demand = demand;
        mtu.search();
        while let Some(round) = &mut mtu.round {
            let sent = std::mem::take(&mut round.due);
            probes += sent.len();
            if let Some(arrived) = sent.into_iter().filter(|bytes| *bytes <= takes).max() {
                mtu.arrived(now, arrived);
                if mtu.demand <= mtu.confirmed {
                    mtu.demand = 0;
                }
            } else {
                mtu.expired(now);
                if mtu.demand > mtu.ceiling {
                    mtu.demand = 0;
                }
            }
        }
        (mtu, probes)
    }

    #[test]
    fn every_path_between_base_and_limit_is_found_to_within_a_step() {
        for takes in 1200..1500 {
            let (mtu, probes) = searched(takes, 1302);
            let most = takes.min(1452);
            assert!(mtu.confirmed <= most && mtu.confirmed + MTU_STEP >= most, "{takes}: {mtu:?}");
            assert!(probes <= 24, "{takes}: {probes} probes");
        }
        assert_eq!(searched(1452, 1302).1, 2, "the usual path takes two");
        assert_eq!(searched(1452, 1452).1, 1);
    }

    #[test]
    fn a_path_that_became_narrower_leads_back_to_what_is_taken_for_granted() {
        let (mut mtu, _) = searched(1452, 1302);
        let now = Instant::from_micros(9);
        mtu.begin(Vec::from([mtu.confirmed]));
        for _ in 1..MAX_MTU_PROBES {
            assert!(!mtu.expired(now));
            assert_eq!(mtu.round.as_ref().unwrap().due, [1452]);
        }
        assert!(mtu.expired(now));
        assert_eq!((mtu.confirmed, mtu.ceiling), (1200, 1451));
        assert_eq!(mtu.reach(now), 1451);
        assert_eq!(mtu.reach(now + MTU_RAISE_INTERVAL), 1452);
    }
}
