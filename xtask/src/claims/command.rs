//! Claims on the command as a user meets it: the demo, and error messages on bad input.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{bad_starts, number, run_json};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "demo-goodput-agg16",
        about: "Goodput in the demo with one tag for 16 messages of 10 B, over goodput with one \
            tag each. Bar: our own target",
        bar: Bar::AtLeast(1.9),
        seconds: 20,
        measure: || goodput("agg:16"),
    },
    Claim {
        name: "demo-goodput-agg8",
        about: "Goodput in the demo with one tag for 8 messages of 10 B, over goodput with one \
            tag each. Bar: our own target",
        bar: Bar::AtLeast(1.8),
        seconds: 20,
        measure: || goodput("agg:8"),
    },
    Claim {
        name: "demo-identical",
        about: "Number of messages delivered by the demo that differ from those sent, of 20 000 \
            a session. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 20,
        measure: identical,
    },
    Claim {
        name: "errors-exit-2",
        about: "Number of bad command lines and files that end the command with exit code 2 and \
            one line on standard error that names the mistake. Bar: all that are tried",
        bar: Bar::AtLeast(bad_starts::COUNT as f64),
        seconds: 10,
        measure: bad_starts::measure,
    },
];

/// Number of messages that each session must have sent for its figure to count.
const LEAST_SENT: f64 = 20_000.0;

/// The demo's sessions at default settings; an error if one sent fewer than [`LEAST_SENT`].
fn demo() -> Result<Vec<Value>, Unmeasured> {
    let result = run_json("lightseal", "lightseal", &["demo", "--json"])?;
    let sessions = result["sessions"].as_array().cloned().unwrap_or_default();
    for session in &sessions {
        if number(session, "/sent")? < LEAST_SENT {
            return Err(Unmeasured::Broken(format!("a session sent too little: {session}")));
        }
    }
    Ok(sessions)
}

fn session<'a>(sessions: &'a [Value], scheme: &str) -> Result<&'a Value, Unmeasured> {
    let found = sessions.iter().find(|session| session["scheme"] == scheme);
    found.ok_or_else(|| Unmeasured::Broken(format!("there is no session {scheme}")))
}

fn goodput(scheme: &str) -> Result<Measured, Unmeasured> {
    let sessions = demo()?;
    let (plain, shared) = (session(&sessions, "off")?, session(&sessions, scheme)?);
    let [before, after] = [plain, shared].map(|session| number(session, "/goodput"));
    let (before, after) = (before?, after?);
    let detail = format!(
        "goodput {before:.4} with one tag each, {after:.4} with {scheme}; {} and {} of {} messages \
         delivered, {} and {} records lost by the relay",
        number(plain, "/delivered")?,
        number(shared, "/delivered")?,
        number(shared, "/sent")?,
        number(plain, "/lost_by_relay")?,
        number(shared, "/lost_by_relay")?,
    );
    Ok(Measured { figure: after / before, detail })
}

fn identical() -> Result<Measured, Unmeasured> {
    let sessions = demo()?;
    let mut figure = 0.0;
    let mut detail = String::new();
    for scheme in ["off", "agg:8", "agg:16"] {
        let session = session(&sessions, scheme)?;
        let [sent, delivered, same] =
            ["/sent", "/delivered", "/identical"].map(|part| number(session, part));
        let (sent, delivered, same) = (sent?, delivered?, same?);
        if delivered == 0.0 {
            return Err(Unmeasured::Broken(format!("{scheme} delivered nothing")));
        }
        figure += delivered - same;
        detail += &format!("{scheme}: {sent} sent, {delivered} delivered, {same} as sent\n");
    }
    Ok(Measured { figure, detail })
}
