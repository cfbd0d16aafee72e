//! Claims on MACsec gateways as processes, with real sockets, between real MACsec endpoints.

use super::prelude::*;
use crate::process::target_dir;
use crate::system;

pub(super) fn claims() -> Vec<Claim> {
    let soaked = |how: &str| {
        format!(
            "Number of frames delivered twice, altered or not accounted for in 24 flows over three \
             gateways, one of which is killed; {how}. Bar: there may be none"
        )
    };
    vec![
        soaked("10 minutes under the scheme sealed, new keys every minute")
            .claim("gateway-soak", AtMost(0.0), Seconds(630))
            .by(soak("--scheme sealed")),
        soaked("10 minutes under the scheme identifier, new keys every minute")
            .claim("gateway-soak-identifier", AtMost(0.0), Seconds(630))
            .by(soak("--scheme identifier")),
        soaked("2 minutes under the scheme sealed with AF_XDP on both sides, new keys every 12 s")
            .claim("gateway-soak-xdp", AtMost(0.0), Seconds(150))
            .by(soak("--scheme sealed --io xdp --duration 120 --rekey 12")),
        "Sum of the counters InPktsNotValid and InPktsLate of Debian's kernel MACsec after all \
            trials between guests joined by two and three gateways. Bar: there may be none"
            .claim("gateway-guest-not-valid", AtMost(0.0), Seconds(500))
            .by(guest("found/not_valid")),
        "Number of failed trials of real MACsec and MKA endpoints joined by two and three \
            gateways: TCP, VLANs, broadcast, key changes. Bar: there may be none"
            .claim("gateway-guest-trials", AtMost(0.0), Seconds(500))
            .by(guest("found/failed")),
    ]
}

/// The sum of this figure over all ways of joining the guests.
fn guest(figure: &'static str) -> Reading {
    const JOINS: [(&str, u32); 4] =
        [("sealed", 2), ("sealed-compressed", 2), ("identifier", 2), ("sealed", 3)];
    let joined = JOINS.map(|(join, ends)| {
        let run = move || {
            system::require_guest().map_err(Failure::NotPossibleHere)?;
            let cache = target_dir().join("macsec-guest").display().to_string();
            let ends = ends.to_string();
            let arguments = ["--cache", &cache, "--join", join, "--ends", &ends];
            beside_lightseal("macsec-ends", &arguments)
        };
        (json!({ "join": join, "ends": ends }), run)
    });
    read(series(joined))
        .each(
            "runs[]",
            "{join}, {ends} ends: {#found/series/0/trials[]} trials, {found/failed} failed, \
             {found/not_valid} frames not valid or late",
        )
        .reduced(sum, "runs[]", figure)
}

fn soak(words: &'static str) -> Reading {
    let run = || -> Result<Value, Failure> {
        system::require_tunnels().map_err(Failure::NotPossibleHere)?;
        beside_lightseal("soak-gateway", &words.split_whitespace().collect::<Vec<_>>())
    };
    read(run)
        .line(
            "seed {seed}: {sent} frames sent, {delivered} of {expected} copies delivered, {outage} \
             while a gateway was down ({outage_seconds:.1} s), {missing} others missing; {keys} \
             new keys; {twice} twice, {altered} altered, {unaccounted} not accounted for; dropped: \
             {drops}",
        )
        .figure("wrong")
}
