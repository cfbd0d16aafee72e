//! Claims on lossy networks and on peers and attackers that lie.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "handshakes-lossy",
        about: "Share, in %, of 10 000 handshakes that complete within 60 s at 20 % loss, 5 % \
            duplication and reordering. Bar: our own target",
        bar: Bar::AtLeast(99.9),
        seconds: 30,
        measure: || lossy(&[]),
    },
    Claim {
        name: "lossy-12",
        about: "How many of 10 000 DTLS 1.2 handshakes hang, or connect at one end alone, at 20 \
            % loss, 5 % duplication and reordering. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 30,
        measure: lossy_12,
    },
    Claim {
        name: "any-two-datagrams-dropped",
        about: "Share, in %, of handshakes that connect when two of their datagrams are dropped: \
            every pair, both versions. Bar: all of them",
        bar: Bar::AtLeast(100.0),
        seconds: 5,
        measure: || Ok(drops()?.0),
    },
    Claim {
        name: "burst-answers",
        about: "Largest number of additional datagrams caused by 20 copies of one handshake \
            datagram. Bar: our own target",
        bar: Bar::AtMost(1.0),
        seconds: 5,
        measure: || Ok(drops()?.1),
    },
    Claim {
        name: "handshakes-repeatable",
        about: "Share, in %, of the 10 000 handshakes of handshakes-lossy that differ in a byte \
            or a microsecond when the seed is run again. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 55,
        measure: || lossy(&["--twice"]),
    },
    Claim {
        name: "hostile-cuts-and-flips",
        about: "Number of panics and deliveries when every type of message, sealed ones \
            included, is cut and altered at every byte. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 45,
        measure: cuts,
    },
    Claim {
        name: "hostile-datagrams",
        about: "Number of panics, deliveries and lost associations caused by 1 000 000 random, \
            altered and replayed datagrams. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 5,
        measure: junk,
    },
    Claim {
        name: "attack-replayed-hello",
        about: "How many of 200 live associations end when a recorded or held-back ClientHello \
            of their client is replayed. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 10,
        measure: replayed_hellos,
    },
    Claim {
        name: "attack-forged-ack",
        about: "How many of 200 handshakes with a lost datagram are stopped by forged ACKs in \
            clear. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 10,
        measure: forged_acks,
    },
    Claim {
        name: "attack-amplification",
        about: "Bytes that one ClientHello without a cookie makes the server send, over its own \
            bytes: the worst kind of hello. Bar: the factor of three allowed by RFC 9147, \
            section 5.1",
        bar: Bar::AtMost(3.0),
        seconds: 10,
        measure: amplification,
    },
    Claim {
        name: "aggregation-updates",
        about: "Number of wrong messages delivered while aggregation schemes change 1000 times \
            at 20 % loss with reordering. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 5,
        measure: updates,
    },
];

fn campaign(arguments: &[&str]) -> Result<Value, Unmeasured> {
    run_json("fuzz", "campaign", arguments)
}

fn cuts() -> Result<Measured, Unmeasured> {
    let result = campaign(&["cuts"])?;
    let count = |name| number(&result, &format!("/{name}"));
    let detail = format!(
        "{} alterations of {} messages: {} panics, {} deliveries; at most {} payload bytes held, \
         {} association open",
        count("cases")?,
        count("messages")?,
        count("panics")?,
        count("deliveries")?,
        count("most_held_bytes")?,
        count("most_open_connections")?,
    );
    Ok(Measured { figure: count("panics")? + count("deliveries")?, detail })
}

fn junk() -> Result<Measured, Unmeasured> {
    let result = campaign(&["junk", "--count", "1000000"])?;
    let count = |name| number(&result, &format!("/{name}"));
    let detail = format!(
        "{} datagrams: {} panics, {} deliveries, {} associations lost; at most {} payload bytes \
         held, {} association open",
        count("datagrams")?,
        count("panics")?,
        count("deliveries")?,
        count("killed")?,
        count("most_held_bytes")?,
        count("most_open_connections")?,
    );
    let figure = count("panics")? + count("deliveries")? + count("killed")?;
    Ok(Measured { figure, detail })
}

fn strangers() -> Result<Value, Unmeasured> {
    campaign(&["strangers", "--count", "200"])
}

/// An address may have one association and one handshake at a time; more than two have no figure.
fn replayed_hellos() -> Result<Measured, Unmeasured> {
    let result = strangers()?;
    let count = |name| number(&result, &format!("/{name}"));
    let detail = format!(
        "{} associations in both versions, with and without connection IDs; {} hellos replayed; at \
         most {} associations and handshakes at an address",
        count("associations")?,
        count("played")?,
        count("most_open")?,
    );
    if count("most_open")? > 2.0 {
        return Err(Unmeasured::Broken(detail));
    }
    Ok(Measured { figure: count("ended")?, detail })
}

fn forged_acks() -> Result<Measured, Unmeasured> {
    let result = strangers()?;
    let count = |name| number(&result, &format!("/{name}"));
    let detail = format!(
        "{} handshakes in both versions, {} forged ACKs to both ends",
        count("handshakes")?,
        count("forged_acks")?,
    );
    Ok(Measured { figure: count("failed")?, detail })
}

fn amplification() -> Result<Measured, Unmeasured> {
    let result = strangers()?;
    let mut detail = String::from("no cookie, no answer, two minutes");
    for row in result["amplification"].as_array().into_iter().flatten() {
        let count = |name| number(row, &format!("/{name}"));
        let kind = row["kind"].as_str().unwrap_or("?");
        let (hello, sent, factor) = (count("hello")?, count("sent")?, count("factor")?);
        detail += &format!("\n{kind}: {hello} bytes in, {sent} out, {factor:.1} times");
    }
    Ok(Measured { figure: number(&result, "/worst_factor")?, detail })
}

/// There is no figure if the association ended, its ends disagreed on the scheme, or there were
/// fewer changes than asked for.
fn updates() -> Result<Measured, Unmeasured> {
    let result = campaign(&["updates", "--count", "1000"])?;
    let count = |name| number(&result, &format!("/{name}"));
    let in_step = count("in_step")? > 0.0;
    let detail = format!(
        "{} changes, {} KeyUpdates among them, in {} s of virtual time: {} of {} messages \
         delivered, {} wrong; {} of {} datagrams lost; {} step in the end",
        count("updates")?,
        count("key_updates")?,
        count("seconds")?,
        count("delivered")?,
        count("sent")?,
        count("wrong")?,
        count("lost")?,
        count("datagrams")?,
        if in_step { "in" } else { "out of" },
    );
    if !in_step || count("updates")? < 1000.0 {
        return Err(Unmeasured::Broken(detail));
    }
    Ok(Measured { figure: count("wrong")?, detail })
}

/// Handshakes in which two datagrams are dropped, and handshakes with 20 copies of one datagram.
fn drops() -> Result<(Measured, Measured), Unmeasured> {
    let result = campaign(&["drops"])?;
    let count = |name| number(&result, &format!("/{name}"));
    let failures = result["failures"].as_array().cloned().unwrap_or_default();
    let failures: String =
        failures.iter().filter_map(Value::as_str).map(|line| format!("\n{line}")).collect();
    let (pairs, connected) = (count("pairs")?, count("connected")?);
    let detail = format!(
        "{} kinds of handshake, {pairs} pairs, {connected} connected{failures}",
        count("kinds")?
    );
    let pairs = Measured { figure: 100.0 * connected / pairs, detail };
    let figure = count("most_answers")?;
    let detail = format!("{} bursts, at most {figure} answers more{failures}", count("bursts")?);
    Ok((pairs, Measured { figure, detail }))
}

fn lossy_12() -> Result<Measured, Unmeasured> {
    let result = campaign(&["handshakes", "--count", "10000", "--version", "1.2"])?;
    let count = |name| number(&result, &format!("/{name}"));
    let detail = format!(
        "{} handshakes, {} complete ({:.2} %), {} failed by their deadline, {} hung, {} connected \
         at one end alone, {} wrong messages; {} datagrams, {} lost",
        count("handshakes")?,
        count("complete")?,
        count("percent")?,
        count("failed")?,
        count("hung")?,
        count("half")?,
        count("wrong")?,
        count("datagrams")?,
        count("lost")?,
    );
    if count("wrong")? > 0.0 {
        return Err(Unmeasured::Broken(detail));
    }
    Ok(Measured { figure: count("hung")? + count("half")?, detail })
}

/// There is no figure if a handshake hung or a message was wrong.
fn lossy(arguments: &[&str]) -> Result<Measured, Unmeasured> {
    let result = campaign(&[&["handshakes", "--count", "10000"], arguments].concat())?;
    let count = |name| number(&result, &format!("/{name}"));
    let detail = format!(
        "{} handshakes, {} complete, {} failed by their deadline, {} hung, {} wrong messages; \
         {} datagrams, {} lost",
        count("handshakes")?,
        count("complete")?,
        count("failed")?,
        count("hung")?,
        count("wrong")?,
        count("datagrams")?,
        count("lost")?,
    );
    if count("hung")? + count("wrong")? > 0.0 {
        return Err(Unmeasured::Broken(detail));
    }
    let figure = if arguments.is_empty() { count("percent")? } else { count("differ_percent")? };
    Ok(Measured { figure, detail })
}
