//! The claim on the dissectors of tools/wireshark.

use super::prelude::*;
use crate::process::{command, succeeds, workspace};
use std::path::Path;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of records that our Wireshark dissectors show otherwise than the engine wrote them \
            (every form of both group profiles and of DTLS with shared tags), plus Lua errors on \
            noise. Bar: there may be none"
            .claim("group-dissector", AtMost(0.0), Seconds(40))
            .by(|| {
                if !succeeds(command("tshark", &["--version"])) {
                    let reason = "needs tshark: apt-get install tshark";
                    return Err(Failure::NotPossibleHere(reason.into()));
                }
                in_folder("samples", shown)
            }),
    ]
}

fn shown(folder: &Path) -> Result<Measured, Failure> {
    let plugins = workspace().join("tools/wireshark").display().to_string();
    let run = LAB.run("samples --noise 2000 --json").argument("--out");
    let run = run.argument(folder.display().to_string()).argument("--dissect").argument(plugins);
    read(run)
        .line("tshark {tshark}")
        .each(
            "samples[]",
            "{name}: {tshark/wrong} of {records} records differ; {noise/records} records in noise, \
             {tshark/lua_errors + noise/lua_errors} Lua errors",
        )
        .each("samples[]/tshark/failures[]", "  {}")
        .needs("+samples[]/records >= 100")
        .reduced(sum, "samples[]", "tshark/wrong + tshark/lua_errors + noise/lua_errors")
        .measure()
}
