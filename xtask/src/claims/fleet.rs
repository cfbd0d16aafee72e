//! Claims on several server proxies that share their associations.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of datagrams that came to another node than their connection ID or sender says, or \
            got no answer, of 100 000 through the rules of `lightseal proxy fleet nft` in a kernel: \
            both versions, both address families, slots that move meanwhile. Bar: there may be none"
            .claim("fleet-routing", AtMost(0.0), Seconds(40))
            .by(routed()),
    ]
}

fn routing() -> Result<Value, Failure> {
    if !cfg!(target_os = "linux") {
        return Err(Failure::NotPossibleHere("nftables".into()));
    }
    let test = LongTest {
        package: "lightseal",
        file: "fleet_nft",
        name: "the_kernel_shares_out_datagrams_by_connection_id",
        // Number of datagrams.
        length: ("LIGHTSEAL_ROUTED", 100_000),
        report: "LIGHTSEAL_ROUTED_REPORT",
    };
    test.run()
}

fn routed() -> Reading {
    read(routing)
        .needs("datagrams >= 100000")
        .needs("fragments == 6")
        .line("{datagrams} arrived, {misrouted} at a wrong node; {unanswered} without an answer")
        .reduced(sum, "", ["misrouted", "unanswered"].join(", "))
}
