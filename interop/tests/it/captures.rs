//! The lab's captures, as tshark reads them.

use interop::captures::{CASES, Case};
use lightseal_dtls::passive::Proof;
use std::path::Path;

/// Another tool finds the same contents in a capture file as our own.
#[test]
fn tshark_opens_every_capture_and_decrypts_what_its_version_can() {
    if let Err(reason) = skip::program_there("tshark", "tshark") {
        return skip::test(reason);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("captures");
    for case in CASES {
        let Case { name, readable, scheme, .. } = *case;
        let files = case.write(&folder).expect("a place for files");
        let ours = files.ours();
        let protected = ours.counts.protected();
        assert!(protected >= if case.air.is_some() { 2 } else { 40 }, "{name}");
        assert_eq!(ours.counts.of(Proof::Verified), protected, "{name}");

        // tshark does not know the record layouts with shared tags: these captures are read up to
        // UDP.
        let theirs = files.theirs(&ours, scheme.is_some()).expect("tshark");
        assert_eq!((theirs.malformed, theirs.bad_checksums), (0, 0), "{name}: {theirs:?}");
        // tshark shows repeated frames again.
        let found = |count: usize| {
            let count = count as u64;
            count >= ours.counts.datagrams && count <= ours.counts.datagrams + ours.repeated
        };
        assert!(found(theirs.udp), "{name}: {ours:?}, {theirs:?}");
        assert!(scheme.is_some() || found(theirs.dtls), "{name}: {ours:?}, {theirs:?}");
        if readable {
            assert_eq!(theirs.decrypted, theirs.protected, "{name}: {theirs:?}");
            assert!(theirs.decrypted as u64 >= protected, "{name}: {theirs:?}");
        }
    }
}

/// tshark finds a flipped bit, and decrypts nothing without the key log: the test above can fail.
#[test]
fn tshark_tells_a_damaged_capture_from_a_good_one() {
    if let Err(reason) = skip::program_there("tshark", "tshark") {
        return skip::test(reason);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged-captures");
    let files = CASES[0].write(&folder).expect("a place for files");
    let ours = files.ours();
    let mut bytes = std::fs::read(&files.capture).expect("it was written");
    // The bit is in the first frame, behind the headers of the file and of the frame.
    bytes[24 + 16 + 60] ^= 1;
    std::fs::write(&files.capture, bytes).expect("it was written");
    std::fs::write(&files.keys, "").expect("it was written");
    let theirs = files.theirs(&ours, false).expect("tshark");
    assert!(theirs.bad_checksums >= 1, "{theirs:?}");
    assert_eq!(theirs.decrypted, 0, "{theirs:?}");
}
