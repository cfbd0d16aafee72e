//! Claims on a server proxy that goes on with its associations after a kill.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Bytes that an association takes in the store of a server proxy, sealed, with its keys in \
            the tables, a connection ID of 8 bytes and an identity of 16: 10 000 associations of \
            DTLS 1.3. Bar: what Californium saves"
            .claim("proxy-restart-bytes", AtMost(284.0), Seconds(180))
            .by(killed().figure("bytes")),
        "Number of handshakes that 10 000 associations need after kill -9 of their server proxy, \
            and of associations that do not go on. Bar: there may be none"
            .claim("proxy-restart-handshakes", AtMost(0.0), Seconds(180))
            .by(killed().figure("handshakes + associations - restored")),
    ]
}

const KILLED: LongTest = LongTest {
    package: "lightseal",
    file: "proxy_state",
    name: "many_associations_go_on_after_a_kill",
    // Number of associations.
    length: ("LIGHTSEAL_RESTART", 10_000),
    report: "LIGHTSEAL_RESTART_REPORT",
};

fn killed() -> Reading {
    read(KILLED)
        .line(
            "{restored} of {associations} associations taken over in {restore_ms_per_thousand:.1} ms \
             a thousand, {start_ms_per_thousand:.1} ms with the start of the program and its \
             sockets",
        )
        .line(
            "{bytes:.1} B each in the store, {index_bytes:.1} B of the index besides; \
             {resident_bytes:.0} B each in memory, sockets towards the service included",
        )
        .needs("associations >= 10000")
}
