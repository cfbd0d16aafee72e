//! Gateways with raw keys of other kinds and with certificates.

use crate::tunnel::{PATIENCE, Site, restart, sites, until_it_crosses};
use lightseal_gateway_host::config::Config;
use lightseal_gateway_host::status::PeerStatus;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData, RevokedCertParams, SerialNumber,
};
use sha2::{Digest, Sha256};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testkit::namespace::alone;

/// An authority, and a directory for its files and those of gateways.
struct Files {
    directory: PathBuf,
    root: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new(directory: &Path) -> Self {
        let directory = directory.with_extension("files");
        std::fs::create_dir_all(&directory).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "Example Root");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let files = Self { directory, root };
        files.write("root.pem", &files.root.pem());
        files
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Writes a new P-256 key. Returns the setting `credential` with it, and its identity.
    fn raw(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let path = self.write(name, &key.serialize_pem());
        let hash = Sha256::digest(key.subject_public_key_info());
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        (format!("key:{path}"), format!("spki:{digits}"))
    }

    /// Writes a new key with a certificate for `name`. Returns the setting `credential` with it, and
    /// its identity.
    fn certificate(&self, file: &str, name: &str, serial: u64) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(serial));
        let certificate = params.signed_by(&key, &self.root).unwrap();
        let path = self.write(file, &format!("{}{}", certificate.pem(), key.serialize_pem()));
        (format!("cert:{path}"), format!("subject:{name}"))
    }

    /// Writes a revocation list with these serial numbers.
    fn revoke(&self, serials: &[u64]) -> String {
        let now = time::OffsetDateTime::now_utc();
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: now - time::Duration::hours(1),
            next_update: now + time::Duration::days(1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        self.write("root.crl", &list.signed_by(&self.root).unwrap().pem().unwrap())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The configuration of a site with this credential and this identity of its peer.
fn config(site: &Site, credential: &str, root: &str, peer: &str) -> String {
    let text = site.config.replace(
        "identity = \"unused\"",
        &format!("credential = \"{credential}\"\nca = [\"{root}\"]"),
    );
    let (head, tail) = text.split_once("public_key = ").unwrap();
    let (_, tail) = tail.split_once('\n').unwrap();
    format!("{head}identity = \"{peer}\"\n{tail}")
}

/// Waits until the site's peer has shown this identity. Returns what the site says about it.
fn until_peer_is(site: &Site, identity: &str) -> PeerStatus {
    let until = Instant::now() + PATIENCE;
    loop {
        let peer = site.status().peers.remove(0);
        if peer.identity.as_ref().is_some_and(|shown| shown.to_string() == identity) {
            return peer;
        }
        assert!(Instant::now() < until, "{peer:?}");
        sleep(Duration::from_millis(50));
    }
}

/// Waits until the first site says that its peer is down for this reason.
fn until_down(site: &Site, why: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let peer = site.status().peers.remove(0);
        if !peer.up && peer.why_down.as_ref().is_some_and(|said| said.contains(why)) {
            return;
        }
        assert!(Instant::now() < until, "{peer:?}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_gateway_changes_its_credential_and_keeps_its_name_and_its_place() {
    alone(|| {
        let mut sites = sites("sealed", ["packet", "udp"], 1500, "");
        let files = Files::new(&sites[0].directory);
        let root = files.path("root.pem");
        let (raw, of_raw) = files.raw("a.key");
        let (certificate, of_certificate) = files.certificate("b.pem", "b.example", 7);
        let plain = sites.each_ref().map(|site| site.config.clone());
        sites[0].config = config(&sites[0], &raw, &root, &of_certificate);
        sites[1].config = config(&sites[1], &certificate, &root, &of_raw);
        sites.iter_mut().for_each(Site::start);
        let mut pn = 0;
        until_it_crosses(&mut sites, 0, &mut pn, 100);
        until_it_crosses(&mut sites, 1, &mut pn, 100);
        let known = sites[0].status();
        let shown = |identity: Option<lightseal_dtls::Identity>| identity.unwrap().to_string();
        assert_eq!(shown(known.identity.clone()), of_raw);
        assert_eq!(shown(known.peers[0].identity.clone()), of_certificate);
        assert_eq!(known.public_key, None);

        // B's certificate is renewed with another key: A needs not know.
        let (_, renewed) = files.certificate("b.pem", "b.example", 8);
        assert_eq!(renewed, of_certificate);
        sites[1].reload(&sites[1].config);
        until_it_crosses(&mut sites, 0, &mut pn, 100);
        until_it_crosses(&mut sites, 1, &mut pn, 100);

        // A's key is replaced: B's configuration changes, and A keeps its name there and its counters.
        let (raw, of_new) = files.raw("a2.key");
        let with_old_key = sites[0].config.clone();
        sites[0].config = sites[0].config.replace(&files.path("a.key"), &raw["key:".len()..]);
        sites[1].config = sites[1].config.replace(&of_raw, &of_new);
        let before = sites[1].status().peers.remove(0);
        sites[0].reload(&sites[0].config);
        sites[1].reload(&sites[1].config);
        until_it_crosses(&mut sites, 0, &mut pn, 100);
        until_it_crosses(&mut sites, 1, &mut pn, 100);
        // Until then the tunnel of before carries frames.
        let after = until_peer_is(&sites[1], &of_new);
        assert_eq!(after.name, "other");
        until_it_crosses(&mut sites, 0, &mut pn, 100);
        let after = sites[1].status().peers.remove(0);
        assert!(after.received.frames > before.received.frames);
        // The old key is refused.
        sites[0].reload(&with_old_key);
        until_down(&sites[0], "the peer does not know our key");
        sites[0].reload(&sites[0].config);
        until_it_crosses(&mut sites, 0, &mut pn, 100);

        // A broken file changes nothing.
        let pem = std::fs::read_to_string(files.path("b.pem")).unwrap();
        files.write("b.pem", "-----BEGIN CERTIFICATE-----\nbroken\n");
        sites[1].reload(&sites[1].config);
        files.write("root.pem", "nothing");
        sites[0].reload(&sites[0].config);
        until_it_crosses(&mut sites, 0, &mut pn, 100);
        files.write("root.pem", &files.root.pem());
        files.write("b.pem", &pem);

        // A certificate that verifies, with another name.
        files.certificate("b.pem", "c.example", 9);
        sites[1].reload(&sites[1].config);
        until_down(&sites[0], "subject:c.example");
        // A revoked one.
        files.write("b.pem", &pem);
        sites[1].reload(&sites[1].config);
        until_it_crosses(&mut sites, 0, &mut pn, 100);
        let list = files.revoke(&[8]);
        let with_list = format!("ca = [\"{root}\"]\ncrl = [\"{list}\"]");
        let revoking = sites[0].config.replace(&format!("ca = [\"{root}\"]"), &with_list);
        sites[0].reload(&revoking);
        until_down(&sites[0], "the peer's certificate was revoked");
        // Back to the keys of before: a gateway may have another kind of credential.
        let [a, b] = plain;
        (sites[0].config, sites[1].config) = (a, b);
        restart(&mut sites);
        until_it_crosses(&mut sites, 0, &mut pn, 100);
    });
}

#[test]
fn a_gateway_with_the_other_kind_of_credential_is_refused_and_told_why() {
    alone(|| {
        let mut sites = sites("sealed", ["packet", "udp"], 1500, "");
        let files = Files::new(&sites[0].directory);
        let root = files.path("root.pem");
        let (raw, of_raw) = files.raw("a.key");
        let (certificate, of_certificate) = files.certificate("b.pem", "b.example", 7);
        // B has a raw key, and A expects a certificate.
        sites[0].config = config(&sites[0], &raw, &root, &of_certificate);
        let (other, _) = files.raw("b.key");
        sites[1].config = config(&sites[1], &other, &root, &of_raw);
        sites.iter_mut().for_each(Site::start);
        until_down(&sites[0], "the kind of our key or certificate");
        // B has the certificate, and A expects its key.
        let key = format!("spki:{}", "5a".repeat(32));
        sites[1].config = sites[1].config.replace(&other, &certificate);
        sites[0].config = sites[0].config.replace(&of_certificate, &key);
        sites[1].reload(&sites[1].config);
        sites[0].reload(&sites[0].config);
        until_down(&sites[0], "the kind of our key or certificate");
        // An Ed25519 key is known by itself, not by its hash.
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let path = files.write("ed25519.key", &key.serialize_pem());
        let hash = Sha256::digest(key.subject_public_key_info());
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        sites[1].config = sites[1].config.replace(&certificate, &format!("key:{path}"));
        sites[0].config = sites[0].config.replace(&"5a".repeat(32), &digits);
        sites[1].reload(&sites[1].config);
        sites[0].reload(&sites[0].config);
        until_down(&sites[0], "configure it with public_key = ");
        let own = sites[1].status();
        let ed25519 = format!("public_key = \"{}\"", own.public_key.unwrap());
        let by_hash = format!("identity = \"spki:{digits}\"");
        sites[0].reload(&sites[0].config.replace(&by_hash, &ed25519));
        until_it_crosses(&mut sites, 0, &mut 0, 100);
    });
}

#[test]
fn contradictions_are_named_with_their_lines() {
    let with = |gateway: &str, peer: &str| {
        let text = format!(
            "[gateway]\nname = \"a\"\n{gateway}[lan]\ninterface = \"eth1\"\n[[peer]]\nname = \"b\"\n{peer}"
        );
        Config::parse("f", &text).map(drop).unwrap_err().to_string()
    };
    let hash = format!("identity = \"spki:{}\"\n", "5a".repeat(32));
    let ed25519 = "public_key = \"6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=\"\n";
    let cases = [
        ("", &*hash, "[gateway]: missing field `identity` or `credential`"),
        (
            "identity = \"k\"\ncredential = \"key:k\"\n",
            &hash,
            "line 4: credential: there is an identity",
        ),
        ("credential = \"psk:k\"\n", &hash, "line 3: credential: gateways have no pre-shared keys"),
        ("credential = \"k\"\n", &hash, "line 3: credential: expected psk:FILE, key:FILE"),
        ("credential = \"key:k\"\ncrl = [\"c\"]\n", &hash, "line 4: crl: [gateway] ca is needed"),
        ("credential = \"key:k\"\n", "", "missing field `public_key` or `identity`"),
        ("credential = \"key:k\"\n", "identity = \"b\"\n", "line 8: identity: an identity is psk:"),
        (
            "credential = \"key:k\"\n",
            "identity = \"psk:b\"\n",
            "line 8: identity: gateways have no",
        ),
        (
            "credential = \"key:k\"\n",
            "identity = \"subject:b\"\n",
            "line 8: identity: [gateway] ca is",
        ),
        (
            "credential = \"key:k\"\n",
            &format!("{ed25519}{hash}"),
            "line 9: identity: there is a public_key",
        ),
    ];
    for (gateway, peer, expected) in cases {
        let said = with(gateway, peer);
        assert!(said.contains(expected), "{said}: {expected}");
    }
}

#[test]
fn files_that_cannot_be_used_are_an_error_of_one_line() {
    let directory = std::env::temp_dir().join(format!("gateway-files-{}", std::process::id()));
    let files = Files::new(&directory);
    let parse = |gateway: &str| {
        let text = format!("[gateway]\nname = \"a\"\n{gateway}\n[lan]\ninterface = \"eth1\"\n");
        Config::parse("f", &text).unwrap()
    };
    let (certificate, _) = files.certificate("b.pem", "b.example", 7);
    let good = parse(&format!("credential = \"{certificate}\""));
    let known_by = good.load_credential().unwrap().known_by();
    assert_eq!(known_by.to_string(), "subject:b.example");
    std::fs::set_permissions(files.path("b.pem"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = good.load_credential().map(drop).unwrap_err().to_string();
    assert!(said.starts_with("[gateway] credential: ") && said.contains("b.pem"), "{said}");
    let missing = parse("credential = \"key:/does/not/exist\"");
    let said = missing.load_credential().map(drop).unwrap_err().to_string();
    assert!(said.contains("/does/not/exist"), "{said}");
    let root = files.write("root.pem", "nothing");
    let said = parse(&format!("identity = \"k\"\nca = [\"{root}\"]")).load_trust();
    let said = said.map(drop).unwrap_err().to_string();
    assert!(said.starts_with("[gateway] ca, crl: "), "{said}");
}
