//! Random histories under the paper's identifiers.

use testkit::gateway::history::histories;
use testkit::gateway::trials::identifier_paper;

/// They may not recover: a burst of losses may have stalled them.
#[test]
fn the_papers_identifiers_deliver_nothing_altered() {
    histories(identifier_paper, false);
}
