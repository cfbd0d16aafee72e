//! Unmodified CoAP programs.

use interop::coap::{Server, Tap, put_and_get};

/// That the programs and the counter work, before anything stands between them.
#[test]
fn without_proxies_nothing_is_sent_again() {
    let server = Server::start();
    let tap = Tap::start(server.address());
    let folder = env!("CARGO_TARGET_TMPDIR").as_ref();
    let content = b"0123456789abcdef".repeat(64);
    assert!(put_and_get(tap.address(), "direct", &content, folder).expect("libcoap3-bin"));
    // 1024 bytes in blocks of 64, twice, each with its answer.
    assert!(tap.messages() >= 32, "{}", tap.messages());
    assert_eq!(tap.retransmissions(), 0);
}
