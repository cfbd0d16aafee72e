//! When a node counts as dead.

use super::slots::NodeNumber;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long the same beat must have been read of a node until it counts as dead: four of its beats.
pub(crate) const DEAD_AFTER: Duration = Duration::from_secs(1);

/// The longest time between two answers of the database that counts. After a longer one the database
/// was away, or this process was paused: nothing is known of the others.
const LONGEST_GAP: Duration = Duration::from_millis(600);

/// How much longer the others have after that, because they have to connect again.
const GRACE: Duration = Duration::from_secs(2);

/// How long a node must have been dead until it is taken out of the fleet. It comes back with its next
/// beat.
const GONE_AFTER: Duration = Duration::from_secs(3600);

/// What a node writes while it lives: the number of its run, and a beat that goes up.
pub(crate) type Pulse = (i64, i64);

/// Watches the beats of the other nodes. Time is what the caller measures since any fixed point.
#[derive(Debug, Default)]
pub(crate) struct DeathWatch {
    read_at: Option<Duration>,
    grace: Duration,
    nodes: BTreeMap<NodeNumber, Watched>,
}

#[derive(Debug)]
struct Watched {
    pulse: Pulse,
    /// How long this pulse has been read.
    unchanged: Duration,
    /// Whether it has changed since the others were last lost from sight.
    is_heard: bool,
}

impl DeathWatch {
    /// Takes what was read at `now`, and returns the nodes that are dead.
    pub(crate) fn read(
        &mut self,
        now: Duration,
        pulses: impl IntoIterator<Item = (NodeNumber, Pulse)>,
    ) -> BTreeSet<NodeNumber> {
        let elapsed = self.read_at.replace(now).map_or(Duration::ZERO, |then| now - then);
        let knows_nothing = elapsed > LONGEST_GAP;
        self.grace = match knows_nothing {
            true => GRACE,
            false => self.grace.saturating_sub(elapsed),
        };
        // What passes while the others may still connect again does not count either.
        let is_void = knows_nothing || !self.grace.is_zero();
        let former = std::mem::take(&mut self.nodes);
        for (node, pulse) in pulses {
            let unchanged = match former.get(&node) {
                Some(known) if known.pulse == pulse && !is_void => known.unchanged + elapsed,
                _ => Duration::ZERO,
            };
            // What was written while nothing was read may be long ago.
            let is_heard = !knows_nothing
                && former.get(&node).is_some_and(|known| known.is_heard || known.pulse != pulse);
            self.nodes.insert(node, Watched { pulse, unchanged, is_heard });
        }
        let dead = self.nodes.iter().filter(|(_, node)| node.unchanged >= DEAD_AFTER);
        dead.map(|(node, _)| *node).collect()
    }

    /// The nodes that have been dead for an hour, with their last beats.
    pub(crate) fn gone(&self) -> Vec<(NodeNumber, Pulse)> {
        let gone = self.nodes.iter().filter(|(_, node)| node.unchanged >= GONE_AFTER);
        gone.map(|(number, node)| (*number, node.pulse)).collect()
    }

    /// The nodes that have been seen to beat.
    pub(crate) fn heard(&self) -> BTreeSet<NodeNumber> {
        self.nodes.iter().filter(|(_, node)| node.is_heard).map(|(node, _)| *node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeNumber = NodeNumber(1);
    const B: NodeNumber = NodeNumber(2);

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_node_whose_beat_stands_still_for_a_second_is_dead_until_it_beats_again() {
        let mut watch = DeathWatch::default();
        for turn in 0..10 {
            let read = watch.read(at(250 * turn), [(A, (1, turn as i64)), (B, (1, 7))]);
            assert_eq!(read.contains(&B), turn >= 4, "{turn}");
            assert!(!read.contains(&A), "{turn}");
        }
        assert!(watch.read(at(2500), [(A, (1, 10)), (B, (1, 8))]).is_empty());
        assert!(watch.read(at(2750), [(A, (1, 11)), (B, (1, 8))]).is_empty());
        // A process that takes its place begins to count anew.
        assert!(watch.read(at(3000), [(A, (2, 0))]).is_empty());
    }

    #[test]
    fn a_node_that_was_dead_for_an_hour_is_gone() {
        let mut watch = DeathWatch::default();
        for turn in 0..4 * 3600 {
            watch.read(at(250 * turn), [(A, (1, turn as i64)), (B, (1, 7))]);
        }
        assert!(watch.gone().is_empty());
        watch.read(at(3_600_000), [(A, (1, -1)), (B, (1, 7))]);
        assert_eq!(watch.gone(), [(B, (1, 7))]);
    }

    #[test]
    fn a_node_is_heard_when_its_beat_changes_in_sight() {
        let mut watch = DeathWatch::default();
        watch.read(at(0), [(A, (1, 1)), (B, (1, 7))]);
        assert!(watch.heard().is_empty());
        watch.read(at(250), [(A, (1, 2)), (B, (1, 7))]);
        assert_eq!(watch.heard(), [A].into());
        // What has happened in a minute without answers is not known.
        watch.read(at(60_000), [(A, (1, 9)), (B, (1, 8))]);
        assert!(watch.heard().is_empty());
        watch.read(at(60_250), [(A, (1, 9)), (B, (1, 9))]);
        assert_eq!(watch.heard(), [B].into());
    }

    #[test]
    fn time_without_answers_does_not_count_and_its_end_starts_nothing() {
        let mut watch = DeathWatch::default();
        assert!(watch.read(at(0), [(A, (1, 1))]).is_empty());
        assert!(watch.read(at(250), [(A, (1, 1))]).is_empty());
        // The database answers again after a minute; A needs a while to connect.
        for turn in 0..11 {
            assert!(watch.read(at(60_000 + 250 * turn), [(A, (1, 1))]).is_empty(), "{turn}");
        }
        // It does not come.
        assert!(watch.read(at(62_750), [(A, (1, 1))]).contains(&A));
        // Answers that take two seconds each say nothing about anybody.
        for turn in 0..20 {
            assert!(watch.read(at(70_000 + 2000 * turn), [(A, (1, 1))]).is_empty(), "{turn}");
        }
    }
}
