//! The results that `lightseal demo` promises.

use crate::program;

use program::{Running, lightseal};
use serde_json::Value;

fn run(args: &[&str]) -> Value {
    let output = lightseal(&[&["demo", "--json"], args].concat()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn shared_tags_nearly_double_the_goodput_of_ten_byte_messages() {
    let result = run(&["--rate", "8000"]);
    assert_eq!((&result["messages"], &result["loss"]), (&20_000.into(), &0.0025.into()));
    let sessions = result["sessions"].as_array().unwrap();
    let goodput = |scheme: &str| {
        let session = sessions.iter().find(|session| session["scheme"] == scheme).unwrap();
        session["goodput"].as_f64().unwrap()
    };
    let plain = goodput("off");
    assert!((0.335..0.350).contains(&plain), "2 + 10 + 1 + 16 bytes a record: {result:#}");
    assert!(goodput("agg:16") >= 1.9 * plain, "{result:#}");
    assert!(goodput("agg:8") >= 1.8 * plain, "{result:#}");
    for session in sessions {
        assert_eq!(session["sent"], 20_000, "{result:#}");
        assert_eq!(session["identical"], session["delivered"], "{result:#}");
        assert_eq!(session["lost_in_sockets"], 0, "{result:#}");
        assert!(session["handshake_bytes"].as_u64().unwrap() > 500, "{result:#}");
        let lost = session["sent"].as_u64().unwrap() - session["delivered"].as_u64().unwrap();
        let by_relay = session["lost_by_relay"].as_u64().unwrap();
        let a_set = match session["scheme"].as_str().unwrap() {
            "off" => 1,
            "agg:8" => 8,
            _ => 16,
        };
        // A lost record costs only the messages with which it shared a tag.
        assert!(lost <= by_relay * a_set, "{result:#}");
        assert!((20..90).contains(&by_relay), "{result:#}");
    }
}

#[test]
fn without_loss_every_message_arrives() {
    let result =
        run(&["--loss", "0", "--messages", "1003", "--rate", "4000", "--schemes", "agg:5"]);
    for session in result["sessions"].as_array().unwrap() {
        assert_eq!(session["delivered"], 1003, "the closing tag covers the rest: {result:#}");
        assert_eq!(session["lost_by_relay"], 0);
    }
}

#[test]
fn it_can_be_stopped_early_and_says_what_it_knows() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let mut demo = Running::start_quietly(&["demo", "--plain"]);
    demo.wait_for("one tag each");
    demo.signal("INT");
    assert_eq!(demo.wait(), Some(0));
    demo.wait_for("Stopped early");
    demo.wait_for("goodput: authenticated payload");
}

/// Without a controlling terminal no SIGHUP is sent, and only the terminal itself shows that it is
/// closed.
#[cfg(target_os = "linux")]
#[test]
fn it_ends_when_its_terminal_is_closed() {
    use std::io::Read;
    use std::process::Stdio;
    let size = nix::pty::Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = nix::pty::openpty(Some(&size), None).unwrap();
    // The duplicate is closed in child processes, which would otherwise keep their own terminal
    // open.
    let master = pty.master.try_clone().unwrap();
    drop(pty.master);
    let slave = || Stdio::from(pty.slave.try_clone().unwrap());
    // Without the closed terminal this would take a quarter of an hour.
    let mut demo = lightseal(&["demo", "--messages", "1000000"]);
    demo.stdin(slave()).stdout(slave()).stderr(Stdio::null());
    let mut child = Running::watch(demo.spawn().unwrap());
    // The command still holds the descriptors that it gave to the child.
    drop((demo, pty.slave));
    let mut terminal = std::fs::File::from(master);
    let (mut picture, mut piece) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&picture).contains("one tag each") {
        let len = terminal.read(&mut piece).unwrap();
        assert!(len > 0 && picture.len() < 1_000_000, "no picture came");
        picture.extend_from_slice(&piece[..len]);
    }
    drop(terminal);
    assert_eq!(child.wait(), Some(2));
}
