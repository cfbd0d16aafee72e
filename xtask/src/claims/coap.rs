//! Claims on an unmodified CoAP client and server that communicate through two proxies.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of CoAP messages retransmitted over a path without loss, with tags shared under \
            agg:8. Bar: there may be none"
            .claim("coap-lossless-retransmissions", AtMost(0.0), Seconds(10))
            .by(proxies("0").figure("retransmissions")),
        "Number of CoAP representations that are read back otherwise than they were put, at 10 % \
            loss with tags shared under agg:8. Bar: there may be none"
            .claim("coap-lossy-payload", AtMost(0.0), Seconds(50))
            .by(proxies("10").figure("wrong")),
    ]
}

fn proxies(loss_percent: &str) -> Reading {
    let size = "--users 12 --rounds 1";
    let how = format!("{size} --loss {loss_percent} --aggregate agg:8 --json");
    read(Program::peer("coap").run(how))
        .line(
            "{rounds} rounds, {wrong} wrong, {tried_again} tried again; {messages} CoAP messages, \
             {retransmissions} retransmitted; {lost} datagrams lost",
        )
        // Without a shared tag the figure would be that of plain DTLS.
        .needs("client/dtls/closing_tags > 0")
}
