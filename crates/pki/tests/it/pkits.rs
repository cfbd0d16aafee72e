//! NIST's Public Key Interoperability Test Suite (PKITS), through the verifier.
//!
//! The certificates and the list of cases are those of the PyPI package `pyhanko-certvalidator`
//! (`tests/fixtures/nist_pkits` in its source), which `cargo xtask test` fetches. The variable
//! `LIGHTSEAL_PKITS` names the folder that has them; without it the test is skipped. The variable
//! `LIGHTSEAL_PKITS_REPORT` names a file for the results. Each case is a client's chain with
//! revocation lists.
//!
//! - What is invalid must be refused, except where only a certificate policy is violated (sections
//!   4.8 to 4.12): policies are not processed, because nobody can require one.
//! - What is valid must be accepted, except for [`STRICTER`], each with its reason.

use crate::world::{NOW, X509, check};
use lightseal_dtls::{BadCertificate, PresentedCertificate};
use lightseal_pki::{Clock, Settings, Trust};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The variable with the folder of the suite.
const FOLDER: &str = "LIGHTSEAL_PKITS";

/// Sections on certificate policies.
const POLICIES: [&str; 5] = ["408", "409", "410", "411", "412"];

/// Valid chains that are refused, by the numbers of the cases.
const STRICTER: &[(&str, &[&str])] = &[
    ("valid, refused: DSA is not supported", &["40104", "40105"]),
    ("valid, refused: a time before 1970", &["40203"]),
    (
        "valid, refused: names are compared byte by byte",
        &["40303", "40304", "40305", "40310", "40311"],
    ),
    ("valid, refused: a certificate with unique identifiers", &["40306"]),
    (
        "valid, refused: an authority that certifies a new key of its own, or a key for its lists",
        &["40419", "40501", "40503", "40504", "40506", "40615", "40617", "41319"],
    ),
    ("valid, refused: the peer is an authority", &["40608", "40614", "40806", "41413"]),
    (
        "valid, refused: critical extensions of policies are not supported",
        &[
            "40901", "40902", "40904", "40906", "41001", "41003", "41005", "41006", "41009",
            "41011", "41013", "41014", "41102", "41104", "41107", "41202", "41203", "41207",
            "41209",
        ],
    ),
    (
        "valid, refused: constraints of directory names, mail addresses and URIs",
        &[
            "41301", "41304", "41305", "41306", "41311", "41314", "41318", "41321", "41323",
            "41325", "41327", "41334", "41336",
        ],
    ),
    (
        "valid, refused: indirect lists, lists for some reasons, and points relative to an issuer",
        &[
            "41401", "41404", "41405", "41407", "41418", "41419", "41422", "41424", "41425",
            "41428", "41429", "41430", "41433",
        ],
    ),
    ("valid, refused: delta lists", &["41502", "41505", "41507", "41508"]),
];

fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(FOLDER)?);
    assert!(folder.join("pkits.json").is_file(), "{FOLDER} names a folder without pkits.json");
    Some(folder)
}

fn verdict(folder: &Path, case: &Value) -> Result<(), BadCertificate> {
    let file = |kind: &str, name: &str| {
        let path = folder.join(kind).join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let list = |field: &str| {
        let names = case[field].as_array().cloned().unwrap_or_default();
        names.iter().map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let root = file("certs", "TrustAnchorRootCertificate.crt");
    let mut trust = Trust::new().with_authorities(&root).unwrap();
    if case["revocation"] != false {
        trust = trust.with_revocation_lists(&file("crls", "TrustAnchorRootCRL.crl")).unwrap();
        for name in list("crls") {
            // A list of a kind that is not supported is refused when it is loaded.
            let with = trust.with_revocation_lists(&file("crls", &name));
            trust = with.map_err(|_| BadCertificate::UnknownRevocation)?;
        }
    }
    let mut chain = vec![file("certs", case["cert"].as_str().unwrap())];
    chain.extend(list("other_certs").iter().map(|name| file("certs", name)));
    let chain: Vec<&[u8]> = chain.iter().map(|entry| &entry[..]).collect();
    let mut presented = PresentedCertificate::new(X509, &chain);
    presented.from_client = true;
    let algorithms = webpki::ALL_VERIFICATION_ALGS.iter().copied();
    let settings = Settings::with_algorithms(algorithms, Clock::new(|| Some(NOW)));
    check(&settings.verifier(trust), &presented).map(drop)
}

#[test]
fn nists_suite() {
    let Some(folder) = folder() else {
        return skip::test(
            "LIGHTSEAL_PKITS does not name the folder of NIST's suite, which cargo xtask test fetches",
        );
    };
    let cases = std::fs::read(folder.join("pkits.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_slice(&cases).unwrap();
    assert!(cases.len() >= 240, "{}", cases.len());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut faults = Vec::new();
    for case in &cases {
        let (id, name) = (case["id"].as_str().unwrap(), case["name"].as_str().unwrap());
        let about_policies = POLICIES.contains(&&id[..3]);
        let expected = STRICTER.iter().find(|(_, ids)| ids.contains(&id));
        let outcome = match (case.get("error").is_some(), verdict(&folder, case), expected) {
            (false, Ok(()), None) => "valid, accepted",
            (true, Err(_), _) => "invalid, refused",
            (true, Ok(()), _) if about_policies => "invalid by a policy, accepted",
            (false, Err(_), Some((reason, _))) => reason,
            (_, verdict, _) => {
                faults.push(format!("{id} {name}: {verdict:?}"));
                "wrong"
            }
        };
        *counts.entry(outcome).or_default() += 1;
    }
    println!("PKITS, {} cases: {counts:#?}", cases.len());
    if let Some(path) = std::env::var_os("LIGHTSEAL_PKITS_REPORT") {
        let outcomes =
            counts.iter().map(|(outcome, cases)| json!({ "outcome": outcome, "cases": cases }));
        let outcomes: Vec<_> = outcomes.collect();
        let report = json!({ "cases": cases.len(), "outcomes": outcomes, "wrong": faults });
        std::fs::write(path, report.to_string()).unwrap();
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
