//! A sample of BoringSSL's test suite BoGo. `cargo xtask bogo` runs all of it.

use std::path::Path;
use std::process::Command;

/// The variable that names the runner, which `cargo xtask test` builds. Nothing of BoringSSL is
/// part of this repository.
const RUNNER: &str = "LIGHTSEAL_BOGO_RUNNER";

/// A few cases for each part of the engine that the suite tests, and those that once failed.
const CASES: &str = "CertificateSelection-Server-Curve-*-DTLS-TLS12;\
                     CertificateVerificationSucceed-Client-TLS13-DTLS-*;\
                     DTLS13-HelloVerifyRequest-DTLS-*;\
                     DTLS13-SendExtraFinished-Packed;\
                     DTLS13RecordHeader-*;\
                     ExportKeyingMaterial*DTLS-TLS13;\
                     KeyUpdate-FromClient-DTLS;\
                     KeyUpdate-ProcessInOrder-DTLS;\
                     KeyUpdate-ToServer-DTLS;\
                     ServerNameExtensionServer-DTLS-*;\
                     TicketSessionIDLength-0-DTLS-TLS12;\
                     TrailingMessageData-ServerHelloDone-DTLS;\
                     WrongMessageType-ServerFinished-DTLS;\
                     WrongMessageType-TLS13-Server*-DTLS";

#[test]
fn a_sample_of_bogo_passes() {
    let Some(runner) = std::env::var_os(RUNNER) else {
        return skip::test(
            "BoGo's runner is not built; cargo xtask bogo builds it, if there is Go",
        );
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(&runner)
        .args(["-pipe", "-num-workers", "2", "-allow-unimplemented", "-loose-errors"])
        .args(["-test", CASES])
        .arg("-shim-path")
        .arg(env!("CARGO_BIN_EXE_bogo-shim"))
        .arg("-shim-config")
        .arg(folder.join("config.json"))
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("the runner starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let count = |word: &str| printed.lines().filter(|line| line.starts_with(word)).count();
    assert!(count("PASSED (") >= 15, "{printed}");
    // Known failures are left out of the sample.
    assert_eq!(count("FAILED (") + count("UNIMPLEMENTED ("), 0, "{printed}");
}
