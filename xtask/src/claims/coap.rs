//! An unmodified CoAP client and server through two proxies.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_peer};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "coap-lossless-retransmissions",
        about: "CoAP messages sent again when nothing is lost, aggregated 8",
        bar: Bar::AtMost(0.0),
        seconds: 20,
        measure: || coap("0", "agg:8", "/retransmissions"),
    },
    Claim {
        name: "coap-lossy-payload",
        about: "CoAP exchanges that failed or differ at 10 % loss, aggregated 8",
        bar: Bar::AtMost(0.0),
        seconds: 50,
        measure: || coap("10", "agg:8", "/wrong"),
    },
];

fn coap(loss_percent: &str, aggregation: &str, pointer: &str) -> Result<Measured, Unmeasured> {
    let arguments = ["--loss", loss_percent, "--aggregation", aggregation, "--json"];
    let result = run_peer("coap", &arguments)?;
    let figure = number(&result, pointer)?;
    let detail = format!(
        "{} exchanges, {} wrong, {} retransmissions, {} datagrams lost by the relay",
        number(&result, "/exchanges")?,
        number(&result, "/wrong")?,
        number(&result, "/retransmissions")?,
        number(&result, "/lost")?,
    );
    Ok(Measured { figure, detail })
}
