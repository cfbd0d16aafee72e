//! The flows of all workers, by identity. A flow is a complete association.

use lightseal_dtls::Handle;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// How many flows of an identity are looked at to find a quiet one, the oldest ones of a worker first.
/// Workers wait meanwhile.
const LOOKED_AT: usize = 64;

/// The flows of all workers. An identity cannot keep the others out, whichever workers its flows are at.
#[derive(Debug, Default)]
pub(super) struct Flows {
    of_identities: HashMap<Arc<str>, Own>,
    /// The identities that have several flows, by their number.
    several: BTreeSet<(usize, Arc<str>)>,
    count: usize,
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
            Self::Several(all) => all.iter().take(LOOKED_AT).copied().min_by_key(quiet),
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
        let (is_new, now) = match self.of_identities.entry(Arc::clone(identity)) {
            Entry::Occupied(own) => {
                let own = own.into_mut();
                (own.add(handle), own.len())
            }
            Entry::Vacant(none) => {
                none.insert(Own::One(handle));
                (true, 1)
            }
        };
        if is_new {
            self.count += 1;
            self.sort(identity, now - 1, now);
        }
    }

    /// Removes a flow. Nothing happens if it is not there.
    pub(super) fn remove(&mut self, handle: Handle, identity: &str) {
        let Some((identity, _)) = self.of_identities.get_key_value(identity) else { return };
        let identity = Arc::clone(identity);
        let Some(own) = self.of_identities.get_mut(&identity) else { return };
        let (was_there, is_last) = own.remove(handle);
        let now = if is_last { 0 } else { own.len() };
        if is_last {
            self.of_identities.remove(&identity);
        }
        if was_there {
            self.count -= 1;
            self.sort(&identity, now + 1, now);
        }
    }

    /// Notes that an identity has `now` flows, where it had `before`.
    fn sort(&mut self, identity: &Arc<str>, before: usize, now: usize) {
        if before > 1 {
            self.several.remove(&(before, Arc::clone(identity)));
        }
        if now > 1 {
            self.several.insert((now, Arc::clone(identity)));
        }
    }

    /// Adds a flow if there are fewer than `most`. Otherwise it takes the place of another one, which
    /// counts no more and is returned: of the identity that has most flows, the first by `quiet` of
    /// those that are looked at, if these are at least two more than those of the newcomer.
    ///
    /// # Errors
    ///
    /// If there is no such flow.
    pub(super) fn take_place<Q: Ord>(
        &mut self,
        (handle, identity): (Handle, &Arc<str>),
        most: usize,
        quiet: impl Fn(&Handle) -> Q,
    ) -> Result<Option<Handle>, Full> {
        let mut gives_way = None;
        if self.count >= most {
            let own = self.of_identities.get(identity).map_or(0, Own::len);
            let (flows, owner) = self.several.last().ok_or(Full)?;
            if *flows < own + 2 {
                return Err(Full);
            }
            let owner = Arc::clone(owner);
            let flow = self.of_identities.get(&owner).and_then(|own| own.first_by(quiet));
            let flow = flow.ok_or(Full)?;
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

    #[test]
    fn the_greediest_identity_gives_way_wherever_its_flows_are() {
        let mut flows = Flows::default();
        let [a, b]: [Arc<str>; 2] = ["a".into(), "b".into()];
        let handle = Handle::from_number;
        let take = |flows: &mut Flows, number, identity: &Arc<str>| {
            flows.take_place((handle(number), identity), 4, |handle| handle.number())
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
        assert!(flows.count() == 0 && flows.of_identities.is_empty() && flows.several.is_empty());
    }

    /// What is found is what a search of all identities finds, whoever is refused in between.
    #[test]
    fn the_numbers_of_flows_are_those_that_a_search_counts() {
        let mut flows = Flows::default();
        let identities: [Arc<str>; 5] = ["a", "b", "c", "d", "e"].map(Into::into);
        let mut here: Vec<(u64, usize)> = Vec::new();
        let mut state = 1u64;
        for number in 0..2000 {
            // Knuth's generator for MMIX.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (owner, leaves) = ((state >> 40) as usize % 9 % 5, state >> 60 == 0);
            if leaves && !here.is_empty() {
                let (handle, owner) = here.swap_remove((state >> 33) as usize % here.len());
                flows.remove(Handle::from_number(handle), &identities[owner]);
            }
            let of = |owner| here.iter().filter(|(_, other)| *other == owner).count();
            let most = (0..5).map(of).max().unwrap_or(0);
            let expected = here.len() < 20 || most >= of(owner) + 2;
            let place = (Handle::from_number(number), &identities[owner]);
            let taken = flows.take_place(place, 20, |handle| handle.number());
            assert_eq!(taken.is_ok(), expected, "{number}");
            if let Ok(Some(gone)) = taken {
                let at = here.iter().position(|(handle, _)| *handle == gone.number()).unwrap();
                assert_eq!(of(here[at].1), most, "{number}");
                here.swap_remove(at);
            }
            if taken.is_ok() {
                here.push((number, owner));
            }
            assert_eq!(flows.count(), here.len());
        }
    }
}
