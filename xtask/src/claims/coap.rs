//! Claims on an unmodified CoAP client and server that communicate through two proxies.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_peer};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "coap-lossless-retransmissions",
        about: "Number of CoAP messages retransmitted over a path without loss, with tags shared \
            under agg:8. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 10,
        measure: || coap("0", "/retransmissions"),
    },
    Claim {
        name: "coap-lossy-payload",
        about: "Number of CoAP representations that are read back otherwise than they were put, \
            at 10 % loss with tags shared under agg:8. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 50,
        measure: || coap("10", "/wrong"),
    },
];

fn coap(loss_percent: &str, pointer: &str) -> Result<Measured, Unmeasured> {
    let size = ["--users", "12", "--rounds", "1"];
    let how = ["--loss", loss_percent, "--aggregate", "agg:8", "--json"];
    let result = run_peer("coap", &[&size[..], &how].concat())?;
    let figure = number(&result, pointer)?;
    let detail = format!(
        "{} rounds, {} wrong, {} tried again; {} CoAP messages, {} retransmitted; {} datagrams lost",
        number(&result, "/rounds")?,
        number(&result, "/wrong")?,
        number(&result, "/tried_again")?,
        number(&result, "/messages")?,
        number(&result, "/retransmissions")?,
        number(&result, "/lost")?,
    );
    // Without a shared tag the figure would be that of plain DTLS.
    if number(&result, "/client/dtls/closing_tags")? == 0.0 {
        return Err(Unmeasured::Broken("the proxies did not aggregate".into()));
    }
    Ok(Measured { figure, detail })
}
