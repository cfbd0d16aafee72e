//! The guide for administrators documents every drop reason.

use lightseal_gateway::counters::Reason;

#[test]
fn the_guide_knows_every_reason_for_a_drop() {
    let guide = include_str!("../../../../docs/gateway.md");
    for reason in Reason::ALL {
        assert!(guide.contains(&format!("`{reason}`")), "docs/gateway.md lacks `{reason}`");
    }
}
