//! Claims on lossy networks and on peers and attackers that lie.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    [lossy(), hostile(), attacks()].into_iter().flatten().collect()
}

fn lossy() -> Vec<Claim> {
    vec![
        "Share, in %, of 10 000 handshakes that complete within 60 s at 20 % loss, 5 % duplication \
            and reordering. Bar: our own target"
            .claim("handshakes-lossy", AtLeast(99.9), Seconds(30))
            .by(handshakes("").figure("percent")),
        "How many of 10 000 DTLS 1.2 handshakes hang, or connect at one end alone, at 20 % loss, 5 \
            % duplication and reordering. Bar: there may be none"
            .claim("lossy-12", AtMost(0.0), Seconds(30))
            .by(handshakes_12()),
        "Share, in %, of handshakes that connect when two of their datagrams are dropped: every \
            pair of each kind of handshake, both versions, every credential, resumptions. Bar: \
            all of them"
            .claim("pairs-dropped", AtLeast(100.0), Seconds(20))
            .by(drops("{kinds} kinds of handshake, {pairs} pairs, {connected} connected")
                .figure("100 * connected / pairs")),
        "Largest number of additional datagrams caused by 20 copies of one handshake datagram. \
            Bar: our own target"
            .claim("burst-answers", AtMost(1.0), Seconds(5))
            .by(drops("{bursts} bursts, at most {most_answers} answers more")
                .figure("most_answers")),
        "Share, in %, of the 10 000 handshakes of handshakes-lossy that differ in a byte or a \
            microsecond when the seed is run again. Bar: there may be none"
            .claim("handshakes-repeatable", AtMost(0.0), Seconds(55))
            .by(handshakes("--twice").figure("differ_percent")),
    ]
}

/// There is no figure if a handshake hung or a message was wrong.
fn handshakes(more: &str) -> Reading {
    read(CAMPAIGN.run(format!("handshakes --count 10000 {more}")))
        .line(
            "{handshakes} handshakes, {complete} complete, {failed} failed by their deadline, \
             {hung} hung, {wrong} wrong messages; {datagrams} datagrams, {lost} lost",
        )
        .needs("hung + wrong == 0")
}

/// There is no figure if a message was wrong.
fn handshakes_12() -> Reading {
    read(CAMPAIGN.run("handshakes --count 10000 --version 1.2"))
        .line(
            "{handshakes} handshakes, {complete} complete ({percent:.2} %), {failed} failed by \
             their deadline, {hung} hung, {half} connected at one end alone, {wrong} wrong \
             messages; {datagrams} datagrams, {lost} lost",
        )
        .needs("wrong == 0")
        .figure("hung + half")
}

/// Handshakes in which two datagrams are dropped, and handshakes with 20 copies of one datagram.
fn drops(line: &'static str) -> Reading {
    read(CAMPAIGN.run("drops")).line(line).each("failures[]", "{}")
}

fn hostile() -> Vec<Claim> {
    let held = "at most {most_held_bytes} payload bytes held, {most_open_connections} association \
                open";
    let cuts = read(CAMPAIGN.run("cuts"))
        .line(format!(
            "{{cases}} alterations of {{messages}} messages: {{panics}} panics, {{deliveries}} \
             deliveries; {held}"
        ))
        .figure("panics + deliveries");
    let junk = |options: &str| {
        read(CAMPAIGN.run(format!("junk {options}")))
            .line(format!(
                "{{datagrams}} datagrams: {{panics}} panics, {{deliveries}} deliveries, {{killed}} \
                 associations lost; {held}"
            ))
            .figure("panics + deliveries + killed")
    };
    vec![
        "Number of panics and deliveries when every type of message, sealed ones included, is cut \
            and altered at every byte. Bar: there may be none"
            .claim("hostile-cuts-and-flips", AtMost(0.0), Seconds(45))
            .by(cuts),
        "Number of panics, deliveries and lost associations caused by 1 000 000 random, altered \
            and replayed datagrams. Bar: there may be none"
            .claim("hostile-datagrams", AtMost(0.0), Seconds(5))
            .by(junk("--count 1000000")),
        "Number of panics, deliveries and lost associations caused by 10 000 000 random, altered \
            and replayed datagrams at ends with certificates and raw public keys, in both \
            versions. Bar: there may be none"
            .claim("mutated-datagrams", AtMost(0.0), Seconds(120))
            .by(junk("--certificates --count 10000000")),
        "Number of panics, deliveries and lost associations caused by 1 000 000 of the datagrams \
            of mutated-datagrams. Bar: there may be none"
            .claim("mutated-datagrams-sample", AtMost(0.0), Seconds(15))
            .by(junk("--certificates --count 1000000")),
    ]
}

fn attacks() -> Vec<Claim> {
    vec![
        "How many of 200 live associations end when a recorded or held-back ClientHello of their \
            client is replayed. Bar: there may be none"
        .claim("attack-replayed-hello", AtMost(0.0), Seconds(10))
        .by(replayed_hellos()),
        "How many of 200 handshakes with a lost datagram are stopped by forged ACKs in clear. Bar: \
            there may be none"
        .claim("attack-forged-ack", AtMost(0.0), Seconds(10))
        .by(strangers()
            .line(
                "{handshakes} handshakes in both versions, {forged_acks} forged ACKs to both ends",
            )
            .figure("failed")),
        "Bytes that one ClientHello without a cookie makes the server send, over its own bytes: \
            the worst kind of hello. Bar: the factor of three allowed by RFC 9147, section 5.1"
        .claim("attack-amplification", AtMost(3.0), Seconds(10))
        .by(strangers()
            .line("no cookie, no answer, two minutes")
            .each("amplification[]", "{kind}: {hello} bytes in, {sent} out, {factor:.1} times")
            .figure("worst_factor")),
        "Number of wrong messages delivered while aggregation schemes change 1000 times at 20 % \
            loss with reordering. Bar: there may be none"
        .claim("aggregation-updates", AtMost(0.0), Seconds(5))
        .by(updates()),
    ]
}

fn strangers() -> Reading {
    read(CAMPAIGN.run("strangers --count 200"))
}

/// Replayed hellos may occupy one handshake at a time; more than one have no figure.
fn replayed_hellos() -> Reading {
    strangers()
        .line(
            "{associations} associations in both versions, with and without connection IDs; \
             {played} hellos replayed; at most {most_begun} handshakes begun at once",
        )
        .needs("most_begun <= 1")
        .figure("ended")
}

/// There is no figure if the association ended, its ends disagreed on the scheme, or there were
/// fewer changes than asked for.
fn updates() -> Reading {
    read(CAMPAIGN.run("updates --count 1000"))
        .line(
            "{updates} changes, {key_updates} KeyUpdates among them, in {seconds} s of virtual \
             time: {delivered} of {sent} messages delivered, {wrong} wrong; {lost} of {datagrams} \
             datagrams lost; {in_step} (1: in step, 0: out of step) in the end",
        )
        .needs("in_step > 0")
        .needs("updates >= 1000")
        .figure("wrong")
}
