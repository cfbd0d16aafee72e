//! The flows of all workers, by identity. A flow is a complete association.

use crate::proxy::shares::{Shares, greediest};
use lightseal_core::Instant;
use lightseal_dtls::Handle;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The flows of all workers. An identity cannot keep the others out, whichever workers its flows are at.
#[derive(Debug, Default)]
pub(super) struct Flows {
    of_identities: HashMap<Arc<str>, Own>,
    count: usize,
    shares: Shares,
}

/// The flows of one identity, which is usually one.
#[derive(Debug)]
enum Own {
    One(Handle),
    Several(BTreeSet<Handle>),
}

impl Own {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several(all) => all.len(),
        }
    }

    /// Adds a flow. Returns `false` if it is there.
    fn add(&mut self, handle: Handle) -> bool {
        match self {
            Self::One(first) if *first == handle => false,
            Self::One(first) => {
                *self = Self::Several(BTreeSet::from([*first, handle]));
                true
            }
            Self::Several(all) => all.insert(handle),
        }
    }

    /// Removes a flow. Returns whether it was there, and whether none is left.
    fn remove(&mut self, handle: Handle) -> (bool, bool) {
        match self {
            Self::One(only) => (*only == handle, *only == handle),
            Self::Several(all) => (all.remove(&handle), all.is_empty()),
        }
    }

    fn first_by<Q: Ord>(&self, quiet: impl Fn(&Handle) -> Q) -> Option<Handle> {
        match self {
            Self::One(only) => Some(*only),
            Self::Several(all) => all.iter().copied().min_by_key(quiet),
        }
    }
}

impl Flows {
    /// The number of flows.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Adds a flow, whatever their number. Nothing happens if it is there.
    pub(super) fn add(&mut self, handle: Handle, identity: &Arc<str>) {
        let is_new = match self.of_identities.entry(Arc::clone(identity)) {
            Entry::Occupied(own) => own.into_mut().add(handle),
            Entry::Vacant(none) => {
                none.insert(Own::One(handle));
                true
            }
        };
        self.count += usize::from(is_new);
    }

    /// Removes a flow. Nothing happens if it is not there.
    pub(super) fn remove(&mut self, handle: Handle, identity: &str) {
        let Some(own) = self.of_identities.get_mut(identity) else { return };
        let (was_there, is_last) = own.remove(handle);
        self.count -= usize::from(was_there);
        if is_last {
            self.of_identities.remove(identity);
        }
    }

    /// Adds a flow if there are fewer than `most`. Otherwise it takes the place of another one, which
    /// counts no more and is returned: of the identity that has most flows, the first by `quiet`, if
    /// these are at least two more than those of the newcomer.
    ///
    /// # Errors
    ///
    /// If there is no such flow.
    pub(super) fn take_place<Q: Ord>(
        &mut self,
        now: Instant,
        (handle, identity): (Handle, &Arc<str>),
        most: usize,
        quiet: impl Fn(&Handle) -> Q,
    ) -> Result<Option<Handle>, Full> {
        let mut gives_way = None;
        if self.count >= most {
            if !self.shares.may_search(now) {
                return Err(Full);
            }
            let own = self.of_identities.get(identity).map_or(0, Own::len);
            let most = greediest(own, self.of_identities.iter(), |(_, own)| own.len());
            let (owner, flows) = most.ok_or(Full)?;
            let flow = flows.first_by(quiet).ok_or(Full)?;
            let owner = Arc::clone(owner);
            self.remove(flow, &owner);
            gives_way = Some(flow);
        }
        self.add(handle, identity);
        Ok(gives_way)
    }
}

/// There is no place for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_greediest_identity_gives_way_wherever_its_flows_are() {
        let mut flows = Flows::default();
        let mut now = Instant::from_micros(1);
        let [a, b]: [Arc<str>; 2] = ["a".into(), "b".into()];
        let handle = Handle::from_number;
        let mut take = |flows: &mut Flows, number, identity: &Arc<str>| {
            now += Duration::from_secs(1);
            flows.take_place(now, (handle(number), identity), 4, |handle| handle.number())
        };
        for number in 0..4 {
            assert_eq!(take(&mut flows, number, &a), Ok(None));
        }
        assert_eq!(take(&mut flows, 4, &a), Err(Full));
        assert_eq!(take(&mut flows, 5, &b), Ok(Some(handle(0))));
        assert_eq!(take(&mut flows, 6, &b), Ok(Some(handle(1))));
        assert_eq!(take(&mut flows, 7, &b), Err(Full), "both have two");
        assert_eq!(flows.count(), 4);
        // The one that gave way is gone already, and nothing counts twice.
        flows.remove(handle(0), "a");
        flows.add(handle(6), &b);
        assert_eq!(flows.count(), 4);
        for (number, identity) in [(2, "a"), (3, "a"), (5, "b"), (6, "b")] {
            flows.remove(handle(number), identity);
        }
        assert!(flows.count() == 0 && flows.of_identities.is_empty());
    }
}
