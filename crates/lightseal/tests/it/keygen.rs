//! `lightseal keygen` as users run it.

use crate::program;

use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::crypto::rustcrypto::PROVIDER;
use lightseal_dtls::{BadCertificate, CertificateVerifier, PresentedCertificate};
use lightseal_pki::file::{KeyFiles, TrustFiles};
use lightseal_pki::{Clock, Names, Settings};
use program::{TempDir, fails, lightseal};
use serde_json::Value;
use std::process::{Command, Stdio};

fn keygen(args: &[&str]) -> String {
    let output = lightseal(&[&["keygen"], args].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str], expected: &[&str]) {
    fails(&[&["keygen"], args].concat(), expected);
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Whether OpenSSL agrees, if it is there.
fn openssl(args: &[&str]) {
    let run = Command::new("openssl").args(args).stdin(Stdio::null()).output();
    let Ok(output) = run else {
        return skip::part("OpenSSL's opinion", "this machine has no openssl");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {args:?}: {said}");
}

/// What a verifier says of the chain in PREFIX.pem, with the settings' server names or as a client's.
fn verdict(
    settings: &Settings,
    trust: &TrustFiles,
    prefix: &str,
    from_client: bool,
) -> Result<Option<String>, BadCertificate> {
    let files = KeyFiles::x509(format!("{prefix}.key"), format!("{prefix}.pem"));
    let key = files.load(&PROVIDER).unwrap();
    let chain: Vec<&[u8]> = key.entries().iter().map(|entry| &entry[..]).collect();
    let mut presented = PresentedCertificate::new(CertificateType::X509, &chain);
    presented.from_client = from_client;
    let verifier = settings.verifier(trust.load().unwrap());
    verifier.verify(&presented).map(|(_, name)| name)
}

fn settings(server: &str) -> Settings {
    let algorithms = webpki::ALL_VERIFICATION_ALGS.iter().copied();
    Settings::with_algorithms(algorithms, Clock::system()).with_server_names([server]).unwrap()
}

fn trusting(path: &str) -> TrustFiles {
    TrustFiles { authorities: vec![path.into()], ..TrustFiles::default() }
}

#[test]
fn a_key_is_written_for_its_owner_alone_and_its_hash_is_printed() {
    let dir = TempDir::new();
    for key_type in ["p256", "p384", "ed25519", "rsa"] {
        let (key, public) =
            (dir.path(&format!("{key_type}.key")), dir.path(&format!("{key_type}.pub")));
        let line = keygen(&["key", &key, "--type", key_type, "--public", &public]);
        let (hash, name) = line.trim_end().split_once(' ').unwrap();
        assert_eq!(name, key);
        hash.parse::<lightseal_pki::SpkiHash>().unwrap();
        assert!(read(&key).starts_with("-----BEGIN PRIVATE KEY-----\n"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&key).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{key_type}");
        }
        assert_eq!(keygen(&["spki", &key]), format!("{hash}\n"));
        assert_eq!(keygen(&["spki", &public]), format!("{hash}\n"));
        let json: Value = serde_json::from_str(&keygen(&["spki", &key, "--json"])).unwrap();
        assert_eq!(json["spki"], hash);
        // OpenSSL 3.0 reads no Ed25519 key that has its public key beside it (RFC 5958).
        if key_type != "ed25519" {
            openssl(&["pkey", "-in", &key, "-check", "-noout"]);
        }
        openssl(&["pkey", "-pubin", "-in", &public, "-noout"]);
    }
}

#[test]
fn nothing_is_overwritten_without_force() {
    let dir = TempDir::new();
    let key = dir.path("a.key");
    let first = keygen(&["key", &key]);
    let content = read(&key);
    refused(&["key", &key], &["a.key: the file exists already; --force overwrites it"]);
    // Nothing is written if one of several files exists.
    let (prefix, pem) = (dir.path("b"), dir.file("b.pem", "mine"));
    refused(&["self-signed", &prefix], &["b.pem: the file exists already"]);
    assert!(!std::path::Path::new(&dir.path("b.key")).exists());
    assert_eq!((read(&key), read(&pem)), (content, "mine".into()));
    assert_ne!(keygen(&["key", &key, "--force"]), first);
    keygen(&["self-signed", &prefix, "--force"]);
    assert_ne!(read(&pem), "mine");
    // A key that is used again stays as it is.
    let content = read(&key);
    let json = keygen(&["self-signed", &dir.path("c"), "--key", &key, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["key"].is_null() && json["certificate"].as_str().unwrap().ends_with("c.pem"));
    assert!(json["not_after"].as_u64().unwrap() > lightseal_pki::clock::RELEASED);
    assert_eq!(read(&key), content);
    assert!(!std::path::Path::new(&dir.path("c.key")).exists());
}

#[test]
fn an_authority_signs_certificates_that_peers_accept() {
    let dir = TempDir::new();
    let [root, plant, server, sensor] =
        ["root", "plant", "server", "sensor-1"].map(|name| dir.path(name));
    keygen(&["ca", &root, "--subject", "CN=Root,O=Example", "--type", "p384"]);
    keygen(&["ca", &plant, "--ca", &root, "--path-length", "0"]);
    let names = ["--name", "a.example", "--name", "*.b.example", "--name", "192.0.2.1"];
    let args = [&["certificate", &server, "--ca", &plant, "--for", "server"], &names[..]].concat();
    keygen(&args);
    let urn = "urn:dev:mac:0024befffe804ff1";
    keygen(&[
        "certificate",
        &sensor,
        "--ca",
        &plant,
        "--for",
        "client",
        "--name",
        urn,
        "--days",
        "30",
    ]);

    let trust = trusting(&format!("{root}.pem"));
    for name in ["a.example", "x.b.example", "192.0.2.1"] {
        assert_eq!(verdict(&settings(name), &trust, &server, false), Ok(Some(name.into())));
    }
    let other = settings("c.example");
    assert_eq!(verdict(&other, &trust, &server, false), Err(BadCertificate::WrongName));
    assert_eq!(verdict(&other, &trust, &server, true), Err(BadCertificate::WrongPurpose));
    assert_eq!(verdict(&other, &trust, &sensor, true), Ok(Some(urn.into())));
    assert_eq!(verdict(&other, &trust, &sensor, false), Err(BadCertificate::WrongPurpose));
    let elsewhere = trusting(&format!("{}.pem", dir.path("other")));
    keygen(&["ca", &dir.path("other")]);
    let refused = verdict(&other, &elsewhere, &sensor, true);
    assert_eq!(refused, Err(BadCertificate::UnknownIssuer));
    let [root, plant, server, sensor] = [root, plant, server, sensor].map(|name| name + ".pem");
    openssl(&["verify", "-x509_strict", "-CAfile", &root, "-untrusted", &plant, &server, &sensor]);
}

#[test]
fn an_authority_beyond_its_constraints_is_refused_by_peers() {
    let dir = TempDir::new();
    let [root, plant, line, end] = ["root", "plant", "line", "end"].map(|name| dir.path(name));
    keygen(&["ca", &root, "--permit", "example", "--permit", "192.0.2.0/24"]);
    keygen(&["ca", &plant, "--ca", &root, "--path-length", "0"]);
    keygen(&["ca", &line, "--ca", &plant]);
    let trust = trusting(&format!("{root}.pem"));
    let certificate = |ca: &str, name: &str| {
        keygen(&["certificate", &end, "--ca", ca, "--name", name, "--force"]);
        verdict(&settings(name), &trust, &end, false).map(drop)
    };
    assert_eq!(certificate(&plant, "a.example"), Ok(()));
    assert_eq!(certificate(&plant, "192.0.2.9"), Ok(()));
    assert_eq!(certificate(&plant, "a.example.org"), Err(BadCertificate::Constraint));
    assert_eq!(certificate(&plant, "192.0.3.9"), Err(BadCertificate::Constraint));
    assert_eq!(certificate(&line, "a.example"), Err(BadCertificate::Constraint));
}

#[test]
fn an_authority_for_a_domain_gives_no_names_of_other_kinds() {
    let dir = TempDir::new();
    let [plant_root, net_root, plant, net, end] =
        ["plant-root", "net-root", "plant", "net", "end"].map(|name| dir.path(name));
    keygen(&["ca", &plant_root, "--permit", "plant.example"]);
    keygen(&["ca", &net_root, "--permit", "192.0.2.0/24"]);
    // Their files have no root, so that only peers see its constraints.
    keygen(&["ca", &plant, "--ca", &plant_root]);
    keygen(&["ca", &net, "--ca", &net_root]);
    let with = |ca: &str, names: &[&str], as_client| {
        let names = names.iter().flat_map(|name| ["--name", *name]);
        let args = ["certificate", &end, "--ca", ca, "--force"];
        keygen(&args.into_iter().chain(names).collect::<Vec<_>>());
        let root = format!("{ca}-root.pem");
        verdict(&settings("127.0.0.1"), &trusting(&root), &end, as_client)
    };
    let constraint = Err(BadCertificate::Constraint);
    assert_eq!(with(&plant, &["urn:dev:mac:0024befffe804ff1"], true), constraint);
    assert_eq!(with(&plant, &["127.0.0.1"], false), constraint);
    assert_eq!(with(&plant, &["2001:db8::1"], true), constraint);
    assert_eq!(with(&plant, &["a.plant.example"], true), Ok(Some("a.plant.example".into())));
    assert_eq!(with(&plant, &[], true), Ok(None), "a subject is no identity");
    assert_eq!(with(&net, &["a.plant.example"], true), constraint);
    assert_eq!(with(&net, &["192.0.2.1"], true), Ok(Some("192.0.2.1".into())));
    let root = plant_root + ".pem";
    let [plant, end] = [plant, end].map(|name| name + ".pem");
    keygen(&[
        "certificate",
        &dir.path("end"),
        "--ca",
        &dir.path("plant"),
        "--name",
        "b.plant.example",
        "--force",
    ]);
    openssl(&["verify", "-x509_strict", "-CAfile", &root, "-untrusted", &plant, &end]);
}

#[test]
fn an_authority_makes_no_certificate_that_its_own_constraints_exclude() {
    let dir = TempDir::new();
    let [plant, end] = ["plant", "end"].map(|name| dir.path(name));
    keygen(&["ca", &plant, "--permit", "plant.example"]);
    let excluded = "plant.pem: not allowed to issue a certificate for these names";
    for name in ["a.example", "192.0.2.1", "urn:dev:mac:0024befffe804ff1"] {
        for role in ["server", "client"] {
            let args = ["certificate", &end, "--ca", &plant, "--name", name, "--for", role];
            refused(&args, &[excluded]);
        }
    }
    let (csr, prefix) = (dir.path("device.csr"), dir.path("device"));
    keygen(&["request", &prefix, "--name", "a.example"]);
    refused(&["certificate", &end, "--ca", &plant, "--request", &csr], &[excluded]);
    assert!(!std::path::Path::new(&format!("{end}.key")).exists(), "nothing is left behind");
    keygen(&["certificate", &end, "--ca", &plant, "--name", "a.plant.example"]);
}

#[test]
fn a_request_is_signed_without_the_private_key() {
    let dir = TempDir::new();
    let [ca, sensor, signed] = ["ca", "sensor", "signed"].map(|name| dir.path(name));
    let urn = "urn:dev:mac:0024befffe804ff1";
    keygen(&["ca", &ca]);
    let line = keygen(&[
        "request",
        &sensor,
        "--subject",
        "CN=Sensor,O=Example",
        "--name",
        urn,
        "--name",
        "2001:db8::1",
    ]);
    let csr = format!("{sensor}.csr");
    openssl(&["req", "-in", &csr, "-verify", "-noout"]);
    let made = keygen(&["certificate", &signed, "--ca", &ca, "--request", &csr, "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    assert!(line.starts_with(made["spki"].as_str().unwrap()) && made["key"].is_null());
    std::fs::copy(format!("{sensor}.key"), format!("{signed}.key")).unwrap();
    let trust = trusting(&format!("{ca}.pem"));
    assert_eq!(verdict(&settings(urn), &trust, &signed, true), Ok(Some(urn.into())));
    let key = KeyFiles::x509(format!("{signed}.key"), format!("{signed}.pem")).load(&PROVIDER);
    let names = Names::of(&key.unwrap().entries()[0]).unwrap();
    assert_eq!(names.addresses, ["2001:db8::1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(names.subject.as_deref(), Some("CN=Sensor,O=Example"));
    // Names that are given take the place of those that are asked for.
    keygen(&[
        "certificate",
        &signed,
        "--ca",
        &ca,
        "--request",
        &csr,
        "--name",
        "b.example",
        "--force",
    ]);
    let verdict = verdict(&settings("b.example"), &trust, &signed, true);
    assert_eq!(verdict, Ok(Some("b.example".into())));
    // A request that was changed on the way.
    let text = read(&csr);
    let middle = text.len() / 2;
    let letter = if text.as_bytes()[middle] == b'A' { "B" } else { "A" };
    let changed = dir.file("changed.csr", &[&text[..middle], letter, &text[middle + 1..]].concat());
    refused(
        &["certificate", &dir.path("x"), "--ca", &ca, "--request", &changed],
        &["changed.csr: "],
    );
    refused(
        &["certificate", &dir.path("x"), "--ca", &ca, "--request", &format!("{ca}.pem")],
        &["ca.pem: no request in it, but \"CERTIFICATE\""],
    );
}

#[test]
fn a_revocation_list_is_heeded() {
    let dir = TempDir::new();
    let [ca, good, bad, list] = ["ca", "good", "bad", "list.crl"].map(|name| dir.path(name));
    keygen(&["ca", &ca]);
    keygen(&["certificate", &good, "--ca", &ca]);
    keygen(&["certificate", &bad, "--ca", &ca]);
    keygen(&["crl", &list, "--ca", &ca, "--revoke", &format!("{bad}.pem")]);
    refused(&["crl", &list, "--ca", &ca], &["list.crl: the file exists already"]);
    // The number of another authority's certificate may be that of one of ours.
    keygen(&["ca", &dir.path("other")]);
    let (other, file) = (dir.path("other"), format!("{bad}.pem"));
    refused(
        &["crl", &list, "--ca", &other, "--force", "--revoke", &file],
        &["bad.pem: issued by CN=ca, not by CN=other"],
    );
    refused(
        &["crl", &list, "--ca", &ca, "--force", "--revoke", &format!("{bad}.key")],
        &["bad.key: no certificate in it, but \"PRIVATE KEY\""],
    );
    let mut trust = trusting(&format!("{ca}.pem"));
    trust.revocation_lists.push((&list).into());
    let settings = settings("unused.example");
    assert_eq!(verdict(&settings, &trust, &bad, true), Err(BadCertificate::Revoked));
    assert_eq!(verdict(&settings, &trust, &good, true), Ok(Some("CN=good".into())));
    keygen(&["crl", &list, "--ca", &ca, "--force"]);
    assert_eq!(verdict(&settings, &trust, &bad, true), Ok(Some("CN=bad".into())));
}

#[test]
fn a_key_for_a_psk_file_is_made() {
    let line = keygen(&["psk", "sensor-1"]);
    let (identity, key) = line.trim_end().split_once(':').unwrap();
    assert_eq!((identity, key.len()), ("sensor-1", 64));
    refused(&["psk", ""], &["an identity has 1 to 256 bytes"]);
}

#[test]
fn each_mistake_is_named_in_one_line() {
    let dir = TempDir::new();
    let (ca, x) = (dir.path("ca"), dir.path("x"));
    keygen(&["ca", &ca]);
    keygen(&["certificate", &dir.path("end"), "--ca", &ca]);
    refused(
        &["certificate", &x, "--ca", &dir.path("end")],
        &["not the certificate of an authority"],
    );
    refused(&["certificate", &x, "--ca", &dir.path("none")], &["none.pem: "]);
    refused(&["certificate", &x, "--ca", &ca, "--name", "not a name"], &["--name", "no DNS name"]);
    refused(&["self-signed", &x, "--subject", "nonsense=x"], &["--subject nonsense=x: "]);
    refused(&["self-signed", &x, "--days", "0"], &["--days"]);
    refused(&["ca", &x, "--permit", "192.0.2.0/33"], &["--permit"]);
    refused(&["ca", &x, "--permit", "a b"], &["--permit"]);
    refused(
        &["spki", &dir.file("empty", "")],
        &["empty: no private key, certificate or public key"],
    );
    std::fs::copy(dir.path("end.key"), dir.path("ca.key")).unwrap();
    refused(&["certificate", &x, "--ca", &ca], &["ca.pem: for another key than"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(dir.path("ca.key"), open).unwrap();
        refused(&["certificate", &x, "--ca", &ca], &["ca.key", "chmod 600"]);
    }
    for file in ["x.key", "x.pem"] {
        assert!(!std::path::Path::new(&dir.path(file)).exists());
    }
}
