//! The chains with which rustls-webpki tests itself, through our verifier.
//!
//! The crate's sources have them up to version 0.102 (`tests`), which `cargo xtask test` fetches. The
//! variable `LIGHTSEAL_WEBPKI` names the folder of the sources; without it the test is skipped. The
//! cases are read in the tests of that crate, which are generated and have one form.

use crate::world::{X509, check};
use lightseal_dtls::{BadCertificate, PresentedCertificate};
use lightseal_pki::{Clock, Revocation, Settings, Trust};
use std::path::{Path, PathBuf};

/// The variable with the folder of the sources.
const FOLDER: &str = "LIGHTSEAL_WEBPKI";

/// The time at which the chains are valid.
const TIME: u64 = 0x1fed_f00d;

/// The generated files, and how many cases each has at least.
const FILES: [(&str, usize); 3] =
    [("tls_server_certs", 20), ("client_auth", 4), ("client_auth_revocation", 30)];

/// Chains that are accepted there and refused here.
const STRICTER: &[(&str, &str)] = &[(
    "ee_no_dp_crl_idp",
    "a list of one distribution point is none of a certificate that names no point",
)];

struct Case<'a> {
    name: &'a str,
    body: &'a str,
    folder: &'a Path,
}

impl<'a> Case<'a> {
    /// The cases of a file of tests.
    fn all(text: &'a str, folder: &'a Path) -> Vec<Self> {
        let parts = text.split("#[test]\nfn ").skip(1);
        let cases = parts.filter_map(|part| {
            let (name, body) = part.split_once("() {")?;
            Some(Self { name, body, folder })
        });
        // rustls-webpki has one type for revocation lists whose bytes are borrowed and one for lists
        // that own them. The cases whose names end in `_owned` repeat others with the second type.
        cases.filter(|case| !case.name.ends_with("_owned")).collect()
    }

    /// The files of the case with such names.
    fn files(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
        let paths = self.body.split("include_bytes!(").skip(1);
        let paths = paths.filter_map(|rest| rest.split('"').nth(1));
        let wanted = paths.filter(|path| is_wanted(path));
        let read = |path: &str| {
            let path = self.folder.join(path);
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        wanted.map(read).collect()
    }

    fn is_accepted_there(&self) -> bool {
        self.body.contains("Ok(())")
    }

    /// The names that the certificate has, and those that it does not have.
    fn names(&self) -> [Vec<&'a str>; 2] {
        let (_, call) = self.body.split_once("check_cert(").unwrap();
        let mut lists = call.split("&[").skip(1).map(|rest| rest.split(']').next().unwrap());
        [(); 2].map(|()| lists.next().unwrap_or("").split('"').skip(1).step_by(2).collect())
    }

    fn settings(&self) -> Settings {
        let algorithms = webpki::ALL_VERIFICATION_ALGS.iter().copied();
        let clock = Clock::new(|| Some(TIME)).with_earliest(TIME);
        let settings = Settings::with_algorithms(algorithms, clock);
        if !self.body.contains("RevocationOptionsBuilder") {
            return settings;
        }
        let mut revocation = Revocation::default();
        revocation.only_peer = self.body.contains("RevocationCheckDepth::EndEntity");
        revocation.allow_unknown = self.body.contains("UnknownStatusPolicy::Allow");
        revocation.allow_expired_lists = !self.body.contains("ExpirationPolicy::Enforce");
        settings.with_revocation(revocation)
    }

    fn trust(&self) -> Result<Trust, BadCertificate> {
        let mut trust = Trust::new();
        for root in self.files(|path| path.ends_with(".ca.der") && !path.contains(".int.")) {
            trust = trust.with_authorities(&root).unwrap();
        }
        for list in self.files(|path| path.ends_with(".crl.der")) {
            let with = trust.with_revocation_lists(&list);
            trust = with.map_err(|_| BadCertificate::UnknownRevocation)?;
        }
        Ok(trust)
    }

    /// The verdict on the chain; on a server's by this name, or by any.
    fn verdict(&self, is_server: bool, name: Option<&str>) -> Result<(), BadCertificate> {
        let settings = match (is_server, name) {
            (true, None) => self.settings().dangerous().with_any_server_name(),
            _ => self.settings(),
        };
        let mut chain = self.files(|path| path.ends_with(".ee.der"));
        assert_eq!(chain.len(), 1, "{}", self.name);
        chain.extend(self.files(|path| path.contains(".int.")));
        let chain: Vec<&[u8]> = chain.iter().map(|entry| &entry[..]).collect();
        let mut presented = PresentedCertificate::new(X509, &chain);
        (presented.from_client, presented.server_name) = (!is_server, name);
        check(&settings.verifier(self.trust()?), &presented).map(drop)
    }

    /// What is wrong about the verdicts.
    fn faults(&self, is_server: bool) -> Vec<String> {
        let mut faults = Vec::new();
        let mut expect = |accepted: bool, name: Option<&str>| {
            let verdict = self.verdict(is_server, name);
            if verdict.is_ok() != accepted {
                faults.push(format!("{} {name:?}: {verdict:?}", self.name));
            }
        };
        let accepted = self.is_accepted_there();
        expect(accepted, None);
        if is_server && accepted {
            let [valid, invalid] = self.names();
            valid.into_iter().for_each(|name| expect(true, Some(name)));
            invalid.into_iter().for_each(|name| expect(false, Some(name)));
        }
        faults
    }
}

#[test]
fn chains_of_rustls_webpki() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return skip::test(
            "LIGHTSEAL_WEBPKI does not name the folder of rustls-webpki's sources, which cargo xtask \
             test fetches",
        );
    };
    let folder = folder.join("tests");
    let mut faults = Vec::new();
    for (name, least) in FILES {
        let path = folder.join(format!("{name}.rs"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let cases = Case::all(&text, &folder);
        assert!(cases.len() >= least, "{name}: {}", cases.len());
        let accepted = cases.iter().filter(|case| case.is_accepted_there()).count();
        println!("rustls-webpki, {name}: {accepted} to accept of {}", cases.len());
        assert!(accepted > 0 && accepted < cases.len());
        for case in cases {
            let found = case.faults(name == "tls_server_certs");
            if STRICTER.iter().all(|(stricter, _)| *stricter != case.name) {
                faults.extend(found);
            } else {
                assert!(!found.is_empty(), "{} is no exception any more", case.name);
            }
        }
    }
    for (case, reason) in STRICTER {
        println!("rustls-webpki, {case}: refused, {reason}");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
