//! The command line as users see it: wrong usage is one line on standard error
//! and exit code 2.

use crate::program;

use program::{TempDir, fails, lightseal};
use std::net::UdpSocket;
use std::time::Duration;

/// The commands of a gateway, which other systems do not have.
const GATEWAY: &[&str] = &["gateway keygen", "gateway check", "gateway status"];

const HEX: &str = "000102030405060708090a0b0c0d0e0f";

#[test]
fn help_exists_for_every_command() {
    for command in [
        "",
        "proxy",
        "proxy client",
        "proxy server",
        "proxy status",
        "s_client",
        "s_server",
        "impair",
        "demo",
        "macsec",
        "gateway",
        "mac",
        "mac tag",
        "mac verify",
        "mac ciphers",
        "psk",
        "completions",
        "group join",
        "group send",
        "group controller",
        "group admin new-token",
    ]
    .iter()
    .chain(if cfg!(target_os = "linux") { GATEWAY } else { &[] })
    {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        args.push("--help");
        let output = lightseal(&args).output().unwrap();
        assert!(output.status.success(), "{command}");
        let help = String::from_utf8_lossy(&output.stdout);
        let usage = help.split("Usage:").nth(1).expect(command);
        let usage = usage.lines().take_while(|line| !line.is_empty());
        assert!(usage.map(str::len).all(|len| len <= 80), "{command}");
    }
}

#[test]
fn every_command_has_a_manual_page_and_completions() {
    let dir = TempDir::new();
    let into = dir.path("man1");
    let file = dir.file("file", "");
    fails(&["man", &format!("{file}/man1")], &["manual pages in", "man1"]);
    assert!(lightseal(&["man", &into]).status().unwrap().success());
    let script = lightseal(&["completions", "bash"]).output().unwrap().stdout;
    let script = String::from_utf8(script).unwrap();
    let commands = [
        ("lightseal", "--verbose"),
        ("lightseal-proxy", "client"),
        ("lightseal-proxy-client", "--keepalive"),
        ("lightseal-proxy-server", "--cipher-suite"),
        ("lightseal-proxy-status", "--status-socket"),
        ("lightseal-s_client", "--exporter"),
        ("lightseal-s_server", "--once"),
        ("lightseal-impair", "--burst-loss"),
        ("lightseal-demo", "--messages"),
        ("lightseal-mac-tag", "--counter-bits"),
        ("lightseal-mac-verify", "--tag-file"),
        ("lightseal-psk", "identity"),
        ("lightseal-completions", "shell"),
    ];
    let on_linux: &[_] = &[
        ("lightseal-gateway-keygen", "--sample"),
        ("lightseal-gateway-check", "--json"),
        ("lightseal-gateway-status", "--watch"),
        ("lightseal-macsec", "--replay-window"),
    ];
    let on_linux = if cfg!(target_os = "linux") { on_linux } else { &[] };
    for (command, flag) in commands.iter().chain(on_linux) {
        let page = std::fs::read_to_string(format!("{into}/{command}.1")).unwrap();
        // roff needs hyphens to be escaped.
        assert!(page.to_lowercase().replace("\\-", "-").contains(flag), "{command}: {page}");
        assert!(script.contains(flag) || !flag.starts_with('-'), "{command} {flag}");
    }
}

#[test]
fn wrong_usage_is_one_line_that_names_it() {
    for (wrong, expected) in [
        ("fly", "unrecognized subcommand 'fly'"),
        ("psk", "required arguments were not provided: <IDENTITY>"),
        ("psk one two", "unexpected argument 'two'"),
        ("impair --loss 200%", "expected a probability"),
        ("impair --lose 1%", "'--lose' found; a similar argument exists: '--loss'"),
        ("impair --delay 20", "expected a time"),
        ("demo --messages 1", "1 is not in 100..=4000000"),
        ("demo -q -v", "cannot be used with"),
        ("proxy client --record-numbers odd", "possible values: auto, short, long"),
        ("proxy server --max-flows 0", "0 is not in 1.."),
        ("proxy server --max-sessions 0", "--max-sessions"),
        ("proxy server --when-full evict", "`refuse`, `evict-oldest` or `evict-idle:TIME`"),
        ("proxy client --max-sessions 3", "unexpected argument '--max-sessions'"),
        ("proxy server --aggregate agg:0", "agg:0"),
        ("proxy server --aggregate auto:8", "auto:agg"),
        ("proxy server --cipher-suite TLS_NULL", "possible values: TLS_AES_128_GCM_SHA256"),
        ("proxy server --psk-mode psk", "possible values: psk_dhe_ke, psk_ke"),
        ("proxy server --group x448", "possible values: x25519, p256"),
        if cfg!(target_os = "linux") {
            ("macsec --key 00", "unexpected argument '--key'")
        } else {
            ("macsec --key 00", "lightseal macsec needs Linux")
        },
    ] {
        fails(&wrong.split_whitespace().collect::<Vec<_>>(), &[expected]);
    }
}

#[test]
fn a_command_without_its_subcommand_shows_what_there_is() {
    for (command, expected) in [
        ("", &["proxy", "man ", "completions"][..]),
        ("proxy", &["client", "server"]),
        ("mac", &["tag", "verify"]),
    ] {
        let output = lightseal(&command.split_whitespace().collect::<Vec<_>>()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}");
        for part in [&["Usage:", "Commands:"][..], expected].concat() {
            assert!(text.contains(part), "{command}: no {part:?} in {text}");
        }
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for command in [&["completions", "zsh"][..], &["psk", "a"], &["--help"]] {
        let mut child = lightseal(command);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = child.stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]), "{command:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_for_which_there_is_no_room_is_a_failure() {
    for command in [&["--version"][..], &["proxy", "--help"], &["completions", "zsh"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = lightseal(command).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(
            said.starts_with("lightseal: standard output: No space left"),
            "{command:?}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{command:?}: {said}");
    }
}

#[test]
fn samples_of_the_configuration_hold_every_setting_and_are_taken() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor-7:{HEX}\n"));
    for side in ["client", "server"] {
        let output = lightseal(&["proxy", side, "--sample"]).output().unwrap();
        assert!(output.status.success());
        let sample = String::from_utf8(output.stdout).unwrap();
        let help = lightseal(&["proxy", side, "--help"]).output().unwrap().stdout;
        let help = String::from_utf8(help).unwrap();
        let flags = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        let flags = flags.map(|flag| flag.trim_matches(|c: char| !c.is_ascii_lowercase()));
        let not_settings = ["config", "sample", "verbose", "quiet", "help", "log-format"];
        for flag in flags.filter(|flag| !flag.is_empty() && !not_settings.contains(flag)) {
            assert!(sample.contains(&format!("{flag} = ")), "{side}: no {flag} in\n{sample}");
        }
        // Every setting is known and has a value of its type, so the failure comes later.
        let section = format!("[proxy.{side}]");
        let all: String = sample
            .lines()
            .map(|line| line.strip_prefix("#").filter(|l| l.contains(" = ")).unwrap_or(line))
            .filter(|line| *line == section || line.contains(" = ") && !line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect();
        let file = dir.file("all.toml", &all);
        let nowhere = ["--psk-file", "nowhere.psk"];
        fails(&[&["proxy", side, "--config", &file], &nowhere[..]].concat(), &["PSK file nowhere"]);
        if let Err(reason) = skip::wine("the refusal of other machines' addresses") {
            skip::part("all but the sample's first failure", reason);
            continue;
        }
        let file = dir.file("sample.toml", &sample);
        let other = ["--psk-file", &keys, "--listen", "192.0.2.1:1"];
        fails(&[&["proxy", side, "--config", &file], &other[..]].concat(), &["cannot listen"]);
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_at_the_start() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("a:{HEX}\n"));
    let base = ["--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9", "--psk-file", &keys];
    let log = dir.path("no/such/folder");
    for (wrong, expected) in [
        (["--max-datagram", "79"], "79 bytes, not 80 to 9216"),
        (["--max-datagram", "9217"], "9217 bytes, not 80 to 9216"),
        (["--idle-timeout", "0"], "--idle-timeout must be longer than 0"),
        (["--handshake-timeout", "0"], "--handshake-timeout must be longer than 0"),
        (["--key-log", &log], "key log"),
        (["--stats-file", &log], "statistics file"),
    ] {
        for side in ["client", "server"] {
            fails(&[&["proxy", side], &base[..], &wrong].concat(), &[expected]);
        }
    }
    // A service that is the proxy itself would get its own datagrams forever.
    for side in ["client", "server"] {
        for (listen, connect) in [("0.0.0.0:5999", "127.0.0.1:5999"), ("[::1]:5999", "[::1]:5999")]
        {
            let itself = ["proxy", side, "--listen", listen, "--connect", connect];
            fails(&[&itself[..], &["--psk-file", &keys]].concat(), &["proxy's own --listen"]);
        }
    }
    let policy = ["--when-full", "evict-oldest"];
    fails(&[&["proxy", "server"], &base[..], &policy].concat(), &["needs --max-sessions"]);
    let gcm = ["--cipher-suite", "TLS_AES_128_GCM_SHA256", "--aggregate", "agg:8"];
    fails(&[&["proxy", "server"], &base[..], &gcm].concat(), &["AES-CCM or LightMAC"]);
}

#[test]
fn a_fresh_key_is_a_line_for_the_key_file() {
    let output = lightseal(&["psk", "sensor-1"]).output().unwrap();
    assert!(output.status.success());
    let line = String::from_utf8(output.stdout).unwrap();
    let key = line.trim_end().strip_prefix("sensor-1:").unwrap();
    assert!(key.len() == 64 && key.chars().all(|c| c.is_ascii_hexdigit()));
    fails(&["psk", "#1"], &["identity"]);
    let dir = TempDir::new();
    let file = dir.path("keys.psk");
    let output = lightseal(&["psk", "sensor-1", "--out", &file]).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("sensor-1:"));
    fails(&["psk", "sensor-2", "--out", &file], &["exists already, and is not overwritten"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_malformed_configuration_file_is_named_with_its_mistake() {
    let dir = TempDir::new();
    for (content, expected) in [
        ("[impair]\nloss = ", "line 2"),
        ("[impair]\nloss = \"200%\"", "expected a probability"),
        ("[impair]\nloss = true", "loss"),
        ("[impair]\nlose = \"1%\"", "no setting lose"),
        ("[impair]\nconfig = \"other.toml\"", "no setting config"),
        ("[impair.up]\nlose = \"1%\"", "lose"),
        ("impair = 5", "impair stands outside of any section; expected [impair]"),
        ("loss = \"1%\"", "loss stands outside of any section; expected [impair]"),
        ("[repair]", "this file has [repair]; expected [impair]"),
        ("[proxy.middle]", "this file has [proxy.middle]; expected [impair]"),
    ] {
        let file = dir.file("lightseal.toml", content);
        fails(&["impair", "--config", &file], &["lightseal.toml", expected]);
    }
    fails(&["impair", "--config", &dir.path("missing.toml")], &["missing.toml"]);
    let file = dir.file("lightseal.toml", "[proxy.client]\nno-check = 5");
    fails(&["proxy", "client", "--config", &file], &["no-check must be true or false"]);
}

#[test]
fn an_occupied_port_and_a_missing_address() {
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let elsewhere = "127.0.0.1:9";
    // WSAEADDRINUSE.
    let in_use = if cfg!(windows) { "(os error 10048)" } else { "in use" };
    let occupied = ["cannot listen on", &*taken, in_use];
    fails(&["impair", "--listen", &taken, "--connect", elsewhere], &occupied);
    drop(holder);
    fails(&["impair", "--listen", "127.0.0.1:0"], &["no --connect"]);
    fails(&["impair", "--connect", elsewhere], &["no --listen"]);
    fails(&["impair", "--listen", "nonsense", "--connect", elsewhere], &["--listen nonsense"]);
}

#[test]
fn flags_win_over_the_file_and_statistics_come_on_demand_and_at_the_end() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let to = server.local_addr().unwrap();
    let file = dir.file(
        "lightseal.toml",
        &format!("[impair]\nlisten = \"127.0.0.1:1\"\nconnect = \"{to}\"\nup = {{ duplicate = 1.0 }}\nseed = 9\n"),
    );
    let stats = dir.path("stats.json");
    let args = ["impair", "--config", &file, "--listen", "127.0.0.1:0", "--stats-file", &stats];
    let mut relay = program::Running::start(&args);
    let line = relay.wait_for("relaying");
    assert!(line.contains("seed 9"), "{line}");
    let listen = line.split_whitespace().skip_while(|word| *word != "relaying").nth(1).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"hello", listen).unwrap();
    let mut buf = [0; 16];
    for _ in 0..2 {
        let (len, _) = server.recv_from(&mut buf).unwrap();
        assert_eq!(&buf[..len], b"hello");
    }
    relay.signal("USR1");
    let json = program::eventually(|| std::fs::read_to_string(&stats).ok());
    assert!(json.contains("\"duplicated\": 1"), "{json}");
    std::fs::remove_file(&stats).unwrap();
    relay.signal("TERM");
    assert_eq!(relay.wait(), Some(0));
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&stats).unwrap()).unwrap();
    assert_eq!(json["up"]["offered"], 1);
    assert_eq!(json["up"]["delivered"], 2);
}

#[test]
fn bad_key_files() {
    let dir = TempDir::new();
    for (content, expected) in [
        (String::new(), "holds no key"),
        ("a".into(), "line 1: not of the form identity:hexkey"),
        (format!("# one\na:{HEX}\nb:{HEX}x\n"), "line 3: the key is not hexadecimal"),
    ] {
        let file = dir.file("keys.psk", &content);
        for side in ["client", "server"] {
            let addresses = ["--listen", "127.0.0.1:0", "--connect", "127.0.0.1:9"];
            let mut args = vec!["proxy", side, "--psk-file", &file];
            args.extend(addresses);
            fails(&args, &["keys.psk", expected]);
        }
    }
}
