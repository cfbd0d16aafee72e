//! What the status says of keys that are looked up.

use super::known::{Counts, Known};
use serde::{Deserialize, Serialize};

/// Keys that are looked up, as the status reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct KeyReport {
    /// The flags with their values.
    pub(crate) source: String,
    /// Look-ups that clients caused, by what came of them.
    pub(crate) found: u64,
    pub(crate) unknown: u64,
    pub(crate) failed: u64,
    /// Clients whose look-up found no place in the queue.
    pub(crate) overflows: u64,
    /// Questions about keys in use, of which something may have changed.
    pub(crate) checks: u64,
    /// Associations that ended because their key was removed or changed.
    pub(crate) revoked: u64,
    /// How often a key was accepted that the source could not confirm (`--keys-unavailable admit`).
    pub(crate) unconfirmed: u64,
    /// Keys in use, keys that are kept for a while, and identities that wait for their look-up.
    pub(crate) in_use: u64,
    pub(crate) kept: u64,
    pub(crate) waiting: u64,
    /// Whether a source does not answer at present.
    pub(crate) fails: bool,
}

impl KeyReport {
    pub(super) fn of(source: String, known: &Known) -> Self {
        let Counts { found, unknown, failed, checks, overflows, unconfirmed, revoked } =
            known.counts;
        let [in_use, kept, waiting] = known.sizes();
        let fails = known.fails;
        Self {
            source,
            found,
            unknown,
            failed,
            overflows,
            checks,
            revoked,
            unconfirmed,
            in_use,
            kept,
            waiting,
            fails,
        }
    }

    /// The sum of what several sources report.
    pub(super) fn sum(reports: impl Iterator<Item = Self>) -> Self {
        let mut sum = Self::default();
        for report in reports {
            let between = if sum.source.is_empty() { "" } else { ", " };
            sum.source += &format!("{between}{}", report.source);
            sum.found += report.found;
            sum.unknown += report.unknown;
            sum.failed += report.failed;
            sum.overflows += report.overflows;
            sum.checks += report.checks;
            sum.revoked += report.revoked;
            sum.unconfirmed += report.unconfirmed;
            sum.in_use += report.in_use;
            sum.kept += report.kept;
            sum.waiting += report.waiting;
            sum.fails |= report.fails;
        }
        sum
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let Self { source, in_use, found, unknown, revoked, .. } = self;
        let mut line = format!(
            "keys from {source}: {in_use} in use; {found} found and {unknown} not found for clients"
        );
        if *revoked > 0 {
            line += &format!("; {revoked} associations ended by revocation");
        }
        if self.fails {
            line += "; it does not answer";
        }
        line
    }
}
