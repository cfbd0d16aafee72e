//! `lightseal mac` as users run it.

use crate::program;

use program::{TempDir, fails, lightseal};
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::process::{Output, Stdio};
use testkit::vectors::hex;

/// Vectors of the authors, PRESENT-128 with s = 8.
const SHORT: [&str; 2] = ["00112233445566778899aabbccddeeff", "833d3433009f389f2398e64f417acf39"];
const SHORT_TAGS: [(usize, &str); 4] = [
    (0, "c3c863d3e954788b"),
    (1, "021dff180cad82f9"),
    (7, "0870a1d98336d9fe"),
    (63, "431f7d967c0bc59e"),
];

/// Vectors of the authors, PRESENT-128 with s = 32.
const LONG: [&str; 2] = ["0123456789abcdeffedcba9876543210", "9cf35e82f26719c4f91cf900cc2cbcc1"];
const LONG_TAGS: [&str; 9] = [
    "8634d35bbcdbbeb9",
    "d60a9a8890c26393",
    "f93128dab71ecf5c",
    "e9067e6c774de5e2",
    "774d44bb7ce920a4",
    "38a9c37100b908ff",
    "c88d0fb732647299",
    "d2a1a6183daacd78",
    "481dd001e71a3585",
];

fn key_file(dir: &TempDir, name: &str, keys: [&str; 2]) -> String {
    dir.file(name, &format!("# K1 and K2\n{}\n{}\n", keys[0], keys[1]))
}

fn message(dir: &TempDir, name: &str, bytes: &[u8]) -> String {
    let path = dir.path(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn run(args: &[&str]) -> Output {
    lightseal(args).output().unwrap()
}

/// The output of a command that succeeds without a word on standard error.
fn printed(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    standard_output(&output)
}

fn standard_output(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The output of `mac tag`.
fn tag(args: &[&str]) -> String {
    printed(&[&["mac", "tag"], args].concat()).trim_end().to_owned()
}

#[test]
fn the_authors_vectors() {
    let dir = TempDir::new();
    let short = key_file(&dir, "short.key", SHORT);
    for (length, expected) in SHORT_TAGS {
        let file = message(&dir, "message", &(0..length as u8).collect::<Vec<_>>());
        let args = ["--cipher", "present-128", "--counter-bits", "8", "--key-file", &short, &file];
        assert_eq!(tag(&args), expected);
        let verify = [&["mac", "verify", "--tag", expected], &args[..]].concat();
        let output = run(&verify);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(standard_output(&output), format!("{file}: ok\n"));
        let output = run(&[&["--quiet"], &verify[..]].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    }
    let long = key_file(&dir, "long.key", LONG);
    let numbers: Vec<u8> = (0..2056u16).flat_map(u16::to_be_bytes).collect();
    for (i, expected) in LONG_TAGS.iter().enumerate() {
        let file = message(&dir, "message", &numbers[..257 * i]);
        let args = ["--cipher", "present-128", "--counter-bits", "32", "--key-file", &long, &file];
        assert_eq!(tag(&args), *expected);
    }
}

/// The vectors were made by an implementation in Python (`lightmac.py` beside them).
#[test]
fn the_second_implementations_vectors() {
    let dir = TempDir::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../lightmac/vectors/lightmac_aes.json");
    let vectors: Value = serde_json::from_reader(File::open(path).unwrap()).expect("vectors");
    let mut tried = 0;
    for group in vectors["testGroups"].as_array().unwrap() {
        let cipher = match group["keySize"].as_u64().unwrap() {
            256 => "aes-128",
            512 => "aes-256",
            _ => continue,
        };
        let (s, t) = (group["counterBits"].to_string(), group["tagSize"].to_string());
        // Wine takes a second to start a program.
        let step = if cfg!(windows) { 10 } else { 1 };
        for test in group["tests"].as_array().unwrap().iter().step_by(step) {
            let text = |name: &str| test[name].as_str().unwrap();
            let (key, expected) = (text("key"), text("tag"));
            let keys = key_file(&dir, "keys", key.split_at(key.len() / 2).into());
            let file = message(&dir, "message", &hex(text("msg")));
            let how = ["--cipher", cipher, "--counter-bits", &s, "--tag-bits", &t];
            let what = ["--key-file", &keys, "--tag", expected, "--json", &file];
            let output = run(&[&["mac", "verify"], &how[..], &what].concat());
            let valid = text("result") == "valid";
            // A tag that no message has, and a message that has no tag, are bad input.
            let bad_input =
                ["TooLong", "TagLength", "StrayBits"].map(Value::from).contains(&test["flags"][0]);
            let code = if bad_input { 2 } else { i32::from(!valid) };
            assert_eq!(output.status.code(), Some(code), "{test}");
            if !bad_input {
                let said: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(said["valid"], valid);
            }
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn a_wrong_tag_is_exit_code_1_and_one_line() {
    let dir = TempDir::new();
    let keys = key_file(&dir, "keys", SHORT);
    let file = message(&dir, "message", &[]);
    let args = |tag| {
        let cipher = ["--cipher", "present-128", "--counter-bits", "8", "--key-file", &keys];
        [&["mac", "verify"], &cipher[..], &["--tag", tag, &file]].concat()
    };
    for quiet in [&[][..], &["-q"]] {
        let output = run(&[quiet, &args("c3c863d3e954788a")].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(line, format!("lightseal: {file}: this is not the message's tag\n"));
    }
    fails(&args("c3c863d3e95478"), &["7 bytes, and a tag of 64 bits has 8"]);
    fails(&args("c3c863d3e954788"), &["--tag: not a tag in hexadecimal"]);
    // A message that is too long has no tag at all.
    let long = message(&dir, "long", &[0; 1793]);
    let mut args = args("c3c863d3e954788b");
    *args.last_mut().unwrap() = &long;
    fails(&args, &["longer than the 1792 bytes"]);
}

#[test]
fn tags_shorter_than_a_byte_multiple_and_from_files() {
    let dir = TempDir::new();
    let keys = key_file(&dir, "keys", SHORT);
    let file = message(&dir, "message", &[0]);
    let args = |bits| {
        ["--cipher", "present-128", "--counter-bits", "8", "--key-file", &keys, "--tag-bits", bits]
    };
    // The whole tag begins with 021d: 0000 0010 0001 1101.
    for (bits, expected) in [("7", "02"), ("6", "00"), ("13", "0218"), ("16", "021d"), ("1", "00")]
    {
        assert_eq!(tag(&[&args(bits)[..], &[&*file]].concat()), expected, "{bits} bits");
        let tag_file = dir.file("tag", &format!("  {expected}\n"));
        let verify = [&["mac", "verify", "--tag-file", &tag_file], &args(bits)[..], &[&*file]];
        assert_eq!(run(&verify.concat()).status.code(), Some(0), "{bits} bits");
    }
    let tail = [&["mac", "verify", "--tag", "021d"], &args("13")[..], &[&*file]].concat();
    fails(&tail, &["--tag: the last byte has bits set behind the tag's 13"]);
    let gone = dir.path("none");
    let missing = [&["mac", "verify", "--tag-file", &gone], &args("13")[..], &[&*file]].concat();
    fails(&missing, &["tag file", "none"]);
}

#[test]
fn the_longest_message_passes_and_a_byte_more_is_refused() {
    let dir = TempDir::new();
    let keys = key_file(&dir, "keys", SHORT);
    // Both block lengths: messages may have 2^s·(n − s) bits, for s = 3 these are 8·61 and 8·125
    // bits.
    for (cipher, s, most) in
        [("present-128", "3", 61), ("present-128", "8", 1792), ("aes-128", "3", 125)]
    {
        let args = ["--cipher", cipher, "--counter-bits", s, "--key-file", &keys];
        let fits = message(&dir, "fits", &vec![0x5a; most]);
        let from_file = tag(&[&args[..], &[&*fits]].concat());
        assert_eq!(piped(&args, &vec![0x5a; most]).0, Some(0));
        assert_eq!(piped(&args, &vec![0x5a; most]).1.trim_end(), from_file);
        let over = message(&dir, "over", &vec![0x5a; most + 1]);
        let expected = format!("longer than the {most} bytes that {s} counter bits allow");
        let args = [&["mac", "tag"], &args[..]].concat();
        let enough = if s == "3" { "--counter-bits 4" } else { "--counter-bits 9" };
        fails(&[&args[..], &[&*over]].concat(), &["over", &expected, enough]);
        let (code, out, errors) = piped(&args[2..], &vec![0x5a; most + 1]);
        assert_eq!((code, &*out), (Some(2), ""));
        assert_eq!(errors.lines().count(), 1);
        assert!(errors.contains("standard input") && errors.contains(&expected), "{errors}");
    }
}

/// Exit code, output and errors of `mac tag` with a message on standard input.
fn piped(args: &[&str], message: &[u8]) -> (Option<i32>, String, String) {
    let mut command = lightseal(&[&["mac", "tag"], args].concat());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The message is refused before it is read to its end, so the pipe may break.
    let _ = child.stdin.take().unwrap().write_all(message);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), standard_output(&output), errors)
}

#[test]
fn standard_input_is_the_default_and_chunks_change_nothing() {
    let dir = TempDir::new();
    let keys = key_file(&dir, "keys", SHORT);
    let bytes: Vec<u8> = (0..700_001u32).map(|i| (i % 251) as u8).collect();
    let file = message(&dir, "message", &bytes);
    for args in [
        &["--key-file", &keys][..],
        &["--key-file", &keys, "--cipher", "present-128", "--counter-bits", "19"],
    ] {
        let expected = tag(&[args, &[&*file]].concat());
        assert_eq!(piped(args, &bytes).1.trim_end(), expected);
        assert_eq!(piped(&[args, &["-"]].concat(), &bytes).1.trim_end(), expected);
        let json = tag(&[args, &["--json", &file]].concat());
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["tag"], &json["message_bytes"]), (&expected.into(), &700_001.into()));
    }
}

#[test]
fn bad_keys_and_lengths_are_named() {
    let dir = TempDir::new();
    let file = message(&dir, "message", b"x");
    let keys = key_file(&dir, "keys", SHORT);
    let equal = key_file(&dir, "equal", [SHORT[0], SHORT[0]]);
    let short = key_file(&dir, "short", [SHORT[0], "00ff"]);
    let one = dir.file("one", SHORT[0]);
    let large = dir.file("large", &" ".repeat(5000));
    let binary = message(&dir, "binary", &[0xff; 32]);
    let missing = dir.path("missing");
    for (key_file, expected) in [
        (&equal, "equal: K1 and K2 are equal: LightMAC is secure with two independent keys only"),
        (&short, "short: K2 has 2 bytes, and a key of aes-128 has 16"),
        (&one, "one: no K2"),
        (&large, "large: longer than 4096 bytes"),
        (&binary, "binary"),
        (&missing, "missing"),
    ] {
        fails(&["mac", "tag", "--key-file", key_file, &file], &["key file", expected]);
    }
    for (wrong, expected) in [
        (&["--counter-bits", "65"][..], "--counter-bits 65: aes-128 allows 1 to 64 bits"),
        (&["--counter-bits", "0"], "--counter-bits 0: aes-128 allows 1 to 64 bits"),
        (&["--cipher", "present-80", "--counter-bits", "33"], "present-80 allows 1 to 32 bits"),
        (&["--tag-bits", "129"], "--tag-bits 129: aes-128 allows 1 to 128 bits"),
        (&["--tag-bits", "0"], "--tag-bits 0"),
        (&["--cipher", "present-128", "--tag-bits", "65"], "present-128 allows 1 to 64 bits"),
        (&["--cipher", "present-80"], "K1 has 16 bytes, and a key of present-80 has 10"),
        (&["--cipher", "des"], "possible values: aes-128, aes-256, present-80, present-128"),
    ] {
        let args = [&["mac", "tag", "--key-file", &keys], wrong, &[&*file]].concat();
        fails(&args, &[expected]);
    }
    fails(&["mac", "tag", &file], &["--key-file"]);
    fails(&["mac", "verify", "--key-file", &keys, &file], &["--tag"]);
    fails(&["mac", "tag", "--key-file", &keys, &missing], &["missing"]);
    let folder = dir.path("");
    fails(&["mac", "tag", "--key-file", &keys, &folder], &[NO_FILE]);
}

/// What is said of a directory in place of a file.
const NO_FILE: &str = if cfg!(windows) { "(os error 5)" } else { "directory" };

#[cfg(unix)]
#[test]
fn a_key_file_open_to_others_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new();
    let keys = key_file(&dir, "keys", SHORT);
    std::fs::set_permissions(&keys, PermissionsExt::from_mode(0o644)).unwrap();
    let (code, out, errors) = piped(&["--key-file", &keys], b"x");
    assert_eq!((code, out.len()), (Some(2), 0));
    assert!(errors.contains("open to other users (mode 644): chmod 600 "), "{errors}");
}

#[test]
fn moved_commands_say_where_they_are() {
    for args in [&["mac", "bounds", "--block-bits", "64"][..], &["mac", "bounds", "--help"]] {
        fails(args, &["mac bounds: is now `lightseal lab mac bounds`"]);
    }
    fails(&["mac", "bench", "--quick"], &["mac bench: is now `lightseal lab mac bench`"]);
}

#[test]
fn ciphers_answer_scripts() {
    let value: Value = serde_json::from_str(&printed(&["mac", "ciphers", "--json"])).unwrap();
    let taken = value.as_array().unwrap().iter().filter(|size| !size["taken_as"].is_null());
    assert_eq!(taken.count(), 4);
}
