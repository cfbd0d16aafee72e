//! Unmodified CoAP programs, with and without proxies between them.

use interop::coap::{Server, Tap, put_and_get};
use interop::coaps;
use interop::trial::Trial;
use std::path::Path;

/// Checks that libcoap's programs are installed.
fn libcoap() -> Result<(), String> {
    let programs = ["coap-server-notls", "coap-client-notls"];
    programs.iter().try_for_each(|program| skip::program_there(program, "libcoap3-bin"))
}

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The programs and the counter work when nothing stands between them.
#[test]
fn without_proxies_nothing_is_sent_again() {
    if let Err(reason) = libcoap() {
        return skip::test(reason);
    }
    let server = Server::start();
    let tap = Tap::start(server.address());
    let folder = folder("direct");
    std::fs::create_dir_all(&folder).expect("a place for files");
    let content = b"0123456789abcdef".repeat(64);
    let back = put_and_get(tap.address(), "direct", &content, &folder).expect("libcoap3-bin");
    assert_eq!(back.as_ref(), Some(&content));
    // There are two requests, each with its answer.
    assert_eq!(tap.messages(), 4);
    assert_eq!(tap.retransmissions(), 0);
}

/// Three users put and get twice, at this loss.
fn rounds(loss_percent: u8, scheme: Option<&str>, name: &str) {
    if let Err(reason) = libcoap() {
        return skip::test(reason);
    }
    let trial = Trial { loss_percent, scheme, users: 3, rounds: 2, bytes: 1000, seed: 1 };
    let outcome = trial.run(&folder(name));
    assert_eq!(outcome.wrong, 0, "{outcome:?}");
    assert!(outcome.messages >= 3 * 2 * 4, "{outcome:?}");
    // A single message ends its aggregate by a closing tag. If there were none, no tags were
    // shared.
    let closing_tags = outcome.report.client["dtls"]["closing_tags"].as_u64();
    assert_eq!(closing_tags.is_some_and(|tags| tags > 0), scheme.is_some(), "{outcome:?}");
    if loss_percent == 0 {
        assert_eq!((outcome.lost(), outcome.retransmissions), (0, 0), "{outcome:?}");
    } else {
        assert!(outcome.lost() > 0, "{outcome:?}");
    }
}

#[test]
fn plain_records_without_loss() {
    rounds(0, None, "plain");
}

#[test]
fn shared_tags_without_loss() {
    rounds(0, Some("agg:8"), "shared");
}

#[test]
fn plain_records_at_a_tenth_of_loss() {
    rounds(10, None, "plain-lossy");
}

#[test]
fn shared_tags_at_a_tenth_of_loss() {
    rounds(10, Some("agg:8"), "shared-lossy");
}

/// libcoap with OpenSSL and with GnuTLS as clients of our proxy, as servers behind it, and with
/// each other.
#[test]
fn coaps_with_the_dtls_of_others() {
    if let Err(reason) = libcoap() {
        return skip::test(reason);
    }
    let mut wrong = Vec::new();
    for (client, server) in coaps::meetings() {
        match coaps::meet(client, server, &folder(&format!("coaps-{client:?}-{server:?}"))) {
            Ok(suite) => println!("{client} to {server}: suite {suite:04x?}"),
            Err(reason) => wrong.push(format!("{client} to {server}: {reason}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
