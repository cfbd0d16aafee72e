//! Associations survive their server proxy on every system, also where there are no signals.

use crate::program::{
    KEY, Running, TempDir, application, echo, eventually, fails, lightseal, own_port, start,
};
use lightseal_owner_only::file;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

/// Sends a message until its answer comes: what is on its way while a server is killed is lost.
fn echoes(application: &UdpSocket, proxy: &str, message: &[u8]) {
    application.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let expected = [message, message].concat();
    let mut buf = [0; 64];
    eventually(|| {
        application.send_to(message, proxy).unwrap();
        let (len, _) = application.recv_from(&mut buf).ok()?;
        (buf[..len] == expected).then_some(())
    });
}

#[test]
fn a_server_that_is_killed_goes_on_with_its_associations_and_takes_no_copy_of_them() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let key = dir.path("state.key");
    let made = lightseal(&["proxy", "state-key", &key]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let (service, listen) = (echo().to_string(), format!("127.0.0.1:{}", own_port()));
    let (state, copy) = (dir.path("state"), dir.path("copy"));
    let args = |state| {
        let args = ["proxy", "server", "-v", "--listen", &listen, "--connect", &service];
        [&args[..], &["--psk-file", &keys, "--state-key", &key, "--state", state]].concat()
    };
    let mut server = Running::start(&args(&state));
    server.wait_for("carrying");
    let (_client, local) = start("client", &listen, &keys, &[]);
    let application = application();
    echoes(&application, &local, b"first");
    for round in 0..2 {
        server.kill();
        server = Running::start(&args(&state));
        server.wait_for("carrying");
        server.has_said("restored 1 association");
        echoes(&application, &local, &[b'0' + round]);
    }
    let held = args(&state);
    fails(&held, &["another"]);
    server.kill();
    file::private_directory(copy.as_ref()).unwrap();
    for found in std::fs::read_dir(&state).unwrap() {
        let found = found.unwrap();
        let to = Path::new(&copy).join(found.file_name());
        file::create(&to, &std::fs::read(found.path()).unwrap()).unwrap();
    }
    fails(&args(&copy), &["it was copied or restored", "--forget"]);
    // A key that others can read is none.
    let exposed = dir.path("exposed.key");
    std::fs::copy(&key, &exposed).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&exposed, PermissionsExt::from_mode(0o640)).unwrap();
    }
    let mut exposing = args(&state);
    let at = exposing.iter().position(|word| *word == key).unwrap();
    exposing[at] = &exposed;
    fails(&exposing, &["open to", "exposed.key"]);
}
