//! Claims on interoperability with other implementations of DTLS and on speed compared with them.

use super::prelude::*;
use crate::interop;

pub(super) fn claims() -> Vec<Claim> {
    [meetings(), records(), handshakes(), certificates(), records_12(), wires()]
        .into_iter()
        .flatten()
        .collect()
}

fn meetings() -> Vec<Claim> {
    let fallback = read(Program::peer("fallback").run("--json"))
        .line("{tried} associations tried, {wrong} wrong")
        .figure("wrong");
    let matrix = read(interop::results)
        .needs("met >= 1")
        .line("{met} meetings succeeded, {failed} failed, {impossible} are not possible")
        .figure("failed");
    vec![
        "Number of associations with wolfSSL, over all roles, suites and modes, that fail because \
            our end asks for agg:8. Bar: there may be none"
            .claim("wolfssl-plain-fallback", AtMost(0.0), Seconds(5))
            .by(fallback),
        "Number of failed meetings with other implementations of DTLS, over all peers, roles, \
            suites, credentials, groups and connection ID lengths, and of data channels of browsers. \
            Bar: there may be none"
            .claim("interop-matrix", AtMost(0.0), Seconds(400))
            .by(matrix),
    ]
}

/// Runs both implementations in turns in one process. The figure is how many times as fast ours is.
fn race(options: &str) -> Reading {
    read(Program::peer("race").run(format!("{options} --json")))
        .line(
            "ours {ours/median_ns:.0} ns, {peer} {theirs/median_ns:.0} ns (medians); ratio \
             {ratio/median:.3}, half of {turns} turns within {ratio/low:.3}..{ratio/high:.3}",
        )
        .figure("ratio/median")
}

/// The suite that small devices speak (RFC 7925, section 4.2), and the provider that they have.
const SMALL_12: &str = "--suite psk-with-aes-128-ccm-8 --provider rustcrypto";

fn records() -> Vec<Claim> {
    let row = |bytes| {
        format!(
            "Time of wolfSSL to seal and open a record of {bytes} B over ours, DTLS 1.3 \
             AES-128-GCM. Bar: our own target"
        )
        .claim(format!("records-{bytes}"), AtLeast(1.5), Seconds(12))
        .by(race(&format!("records --bytes {bytes} --suite aes-128-gcm")))
    };
    ["16", "64", "256", "1200"].map(row).into()
}

fn handshakes() -> Vec<Claim> {
    let over = |peer: &str, what: &str| {
        format!("Our handshakes a second over {peer}'s, both ends counted: {what}")
    };
    let with_cookie = "DTLS 1.2 PSK_CCM_8 with cookie. Bar: our own target";
    let small = |peer: &str| race(&format!("handshakes {SMALL_12} --peer {peer}"));
    vec![
        over("wolfSSL", "DTLS 1.3 psk_ke, AES-128-GCM. Bar: we are no slower")
            .claim("handshakes-per-second", AtLeast(1.0), Seconds(12))
            .by(race("handshakes --mode psk-ke --suite aes-128-gcm")),
        over("wolfSSL", with_cookie)
            .claim("handshakes-12-wolfssl", AtLeast(1.5), Seconds(12))
            .by(small("wolfssl")),
        over("dimpl", with_cookie)
            .claim("handshakes-12-dimpl", AtLeast(1.2), Seconds(15))
            .by(small("dimpl")),
    ]
}

/// Handshakes with certificates, and those that resume their sessions.
fn certificates() -> Vec<Claim> {
    let ecdsa = |who: &str| {
        format!(
            "Our handshakes a second over those of wolfSSL or dimpl, whichever is faster, both ends \
             counted: DTLS 1.3 with ECDSA certificates (P-256) of {who}, key exchange with P-256, \
             AES-128-GCM. Bar: our own target"
        )
    };
    let of = |kind: &str| race(&format!("certificates --kind {kind}"));
    vec![
        ecdsa("the server alone")
            .claim("handshakes-ecdsa-server", AtLeast(1.2), Seconds(20))
            .by(of("server")),
        ecdsa("both ends")
            .claim("handshakes-ecdsa-mutual", AtLeast(1.2), Seconds(20))
            .by(of("mutual")),
        "Our resumptions a second over wolfSSL's, both ends counted: DTLS 1.3 with a ticket and \
            psk_dhe_ke with P-256, AES-128-GCM. Bar: our own target"
            .claim("handshakes-resumed", AtLeast(1.5), Seconds(15))
            .by(of("resumed --peers wolfssl")),
        "Time of our DTLS 1.3 handshake with the server's ECDSA certificate (P-256) and \
            X25519MLKEM768 over that with X25519, both ends counted. Bar: our own target"
            .claim("handshakes-x25519mlkem768", AtMost(1.3), Seconds(15))
            .by(read(Program::peer("race").run("post-quantum --json"))
                .line(
                    "X25519 {ours/median_ns:.0} ns, {peer} {theirs/median_ns:.0} ns (medians); \
                     ratio {ratio/median:.3}, half of {turns} turns within \
                     {ratio/low:.3}..{ratio/high:.3}",
                )
                .figure("ratio/median")),
    ]
}

fn records_12() -> Vec<Claim> {
    [
        ("wolfSSL", "16", 1.5, "our own target"),
        ("wolfSSL", "64", 1.5, "our own target"),
        ("wolfSSL", "256", 1.5, "our own target"),
        ("wolfSSL", "1200", 1.5, "our own target"),
        ("OpenSSL", "1200", 1.0, "we are no slower"),
    ]
    .map(|(name, bytes, bar, why)| {
        let peer = name.to_lowercase();
        format!(
            "Time of {name} to seal and open a record of {bytes} B over ours, DTLS 1.2 PSK_CCM_8. \
             Bar: {why}"
        )
        .claim(format!("records-ccm8-{peer}-{bytes}"), AtLeast(bar), Seconds(12))
        .by(race(&format!("records {SMALL_12} --peer {peer} --bytes {bytes}")))
    })
    .into()
}

fn wires() -> Vec<Claim> {
    let (old, new) = ("psk-with-aes-128-ccm-8", "aes-128-ccm-8");
    vec![
        "Number of datagrams in our DTLS 1.2 PSK_CCM_8 handshake with cookie. Bar: the six flights \
            of RFC 6347, section 4.2.4"
            .claim("handshake-12-datagrams", AtMost(6.0), Seconds(1))
            .by(wire(old).figure("ours/datagrams")),
        "UDP payload, in bytes, of our DTLS 1.2 PSK_CCM_8 handshake with cookie and an identity of \
            9 B. Bar: our own target"
            .claim("handshake-12-bytes", AtMost(480.0), Seconds(1))
            .by(wire(old).figure("ours/bytes")),
        "Number of datagrams in our DTLS 1.3 psk_ke handshake with CCM_8. Bar: our own target"
            .claim("handshake-13-datagrams", AtMost(4.0), Seconds(1))
            .by(wire(new).figure("ours/datagrams")),
        "UDP payload, in bytes, of our DTLS 1.3 psk_ke handshake with CCM_8 and an identity of 9 \
            B. Bar: our own target"
            .claim("handshake-13-bytes", AtMost(380.0), Seconds(1))
            .by(wire(new).figure("ours/bytes")),
        "Number of datagrams in our DTLS 1.3 psk_ke handshake with CCM_8 and a cookie. Bar: our \
            own target"
            .claim("handshake-13-cookie-datagrams", AtMost(6.0), Seconds(1))
            .by(wire("aes-128-ccm-8 --cookie").figure("ours/datagrams")),
        "Number of kinds of handshake in which we send more bytes or more datagrams than wolfSSL or \
            OpenSSL with the same certificates, group, connection IDs and cookie, over all kinds of \
            docs/handshake-sizes.md. Bar: there may be none"
            .claim("handshake-sizes", AtMost(0.0), Seconds(5))
            .by(sizes()),
    ]
}

/// Our handshake without loss; the detail shows other implementations' too.
fn wire(suite: &str) -> Reading {
    read(Program::peer("race").run(format!("wire --suite {suite}")))
        .line("ours: {ours/datagrams} datagrams, {ours/bytes} B: {ours/lengths}")
        .each("peers[]", "{name}: {wire/datagrams} datagrams, {wire/bytes} B: {wire/lengths}")
}

/// Each kind of handshake beside other implementations'.
fn sizes() -> Reading {
    let line = "{version}, {handshake}, cookie {cookie}, connection IDs {connection_ids}: ours \
                {ours/bytes} B in {ours/datagrams}, wolfSSL {wolfssl/bytes} B in \
                {wolfssl/datagrams}";
    read(Program::peer("sizes").run("--json"))
        .each("rows[openssl=null]", line)
        .each(
            "rows[openssl!=null]",
            format!("{line}, OpenSSL {{openssl/bytes}} B in {{openssl/datagrams}}"),
        )
        .needs("#rows[] >= 30")
        .figure("#rows[exceeds=true]")
}
