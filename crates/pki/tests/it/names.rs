//! Names of servers and clients.

use crate::world::{
    End, X509, ca_params, check, client, intermediate, params, root, server, settings, trusting,
};
use lightseal_dtls::{BadCertificate, PresentedCertificate};
use lightseal_pki::{Names, Settings};
use rcgen::{CertificateParams, DnType, SanType};

fn verdicts(alternative: &[&str], names: &[(&str, bool)]) {
    let ca = root("Root");
    let end = End::new(&params("end", alternative), &ca);
    let verifier = settings().verifier(trusting(&ca));
    for (name, fits) in names {
        let verdict = server(&verifier, &[end.der()], name);
        let expected =
            if *fits { Ok(Some((*name).to_owned())) } else { Err(BadCertificate::WrongName) };
        assert_eq!(verdict, expected, "{name} against {alternative:?}");
    }
}

#[test]
fn a_server_must_have_the_name_that_was_asked_for() {
    verdicts(
        &["a.example", "b.example"],
        &[
            ("a.example", true),
            ("b.example", true),
            ("A.Example", true),
            ("c.example", false),
            ("x.a.example", false),
            ("example", false),
            ("", false),
            ("a.example\0.org", false),
            ("192.0.2.1", false),
            // The common name is not a server's name (RFC 6125, section 6.4.4).
            ("end", false),
        ],
    );
}

#[test]
fn a_wildcard_stands_for_one_label() {
    verdicts(
        &["*.a.example"],
        &[
            ("x.a.example", true),
            ("a.example", false),
            ("y.x.a.example", false),
            ("*.a.example", false),
        ],
    );
}

#[test]
fn addresses_are_compared_as_addresses() {
    verdicts(
        &["192.0.2.1", "2001:db8::1"],
        &[
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("2001:db8::1", true),
            ("2001:db8:0:0:0:0:0:1", true),
            ("2001:db8::2", false),
            ("a.example", false),
        ],
    );
}

#[test]
fn without_a_name_no_server_is_accepted_unless_the_settings_say_so() {
    let ca = root("Root");
    let end = End::new(&params("end", &["a.example"]), &ca);
    let chain = [end.der()];
    let presented = PresentedCertificate::new(X509, &chain);
    let with = |settings: Settings| check(&settings.verifier(trusting(&ca)), &presented);
    assert_eq!(with(settings()), Err(BadCertificate::WrongName));
    let any = with(settings().dangerous().with_any_server_name());
    assert_eq!(any, Ok(Some("a.example".into())));
    let expected = with(settings().with_server_names(["b.example", "a.example"]).unwrap());
    assert_eq!(expected, Ok(Some("a.example".into())));
    let other = with(settings().with_server_names(["b.example"]).unwrap());
    assert_eq!(other, Err(BadCertificate::WrongName));
    assert_eq!(with(settings().with_server_names([]).unwrap()), Err(BadCertificate::WrongName));
    for text in ["", "not a name", "a..example"] {
        let error = settings().with_server_names([text]).unwrap_err();
        assert_eq!(error.to_string(), format!("{text:?} is no DNS name, IP address or URI"));
    }
}

#[test]
fn expected_names_take_the_place_of_the_name_that_was_asked_for() {
    let ca = root("Root");
    let end = End::new(&params("end", &["a.example"]), &ca);
    let settings = settings().with_server_names(["b.example"]).unwrap();
    let verdict = server(&settings.verifier(trusting(&ca)), &[end.der()], "a.example");
    assert_eq!(verdict, Err(BadCertificate::WrongName));
}

fn device() -> CertificateParams {
    let mut params = params("sensor-1", &["*.b.example", "a.example", "192.0.2.1"]);
    let uri = "urn:dev:mac:0024befffe804ff1".try_into().unwrap();
    params.subject_alt_names.push(SanType::URI(uri));
    params.distinguished_name.push(DnType::OrganizationName, "Example, \"Ltd\"");
    params
}

#[test]
fn a_server_may_be_expected_by_its_uri() {
    let ca = root("Root");
    let end = End::new(&device(), &ca);
    let with = |uri| {
        let settings = settings().with_server_names([uri]).unwrap();
        server(&settings.verifier(trusting(&ca)), &[end.der()], "a.example")
    };
    let urn = "urn:dev:mac:0024befffe804ff1";
    assert_eq!(with(urn), Ok(Some(urn.into())));
    assert_eq!(with("urn:dev:mac:0024befffe804ff2"), Err(BadCertificate::WrongName));
}

#[test]
fn a_client_is_known_by_a_name_of_a_kind_that_its_authorities_are_constrained_to() {
    use rcgen::{CidrSubnet, GeneralSubtree, NameConstraints};
    let constrained = |subtrees: &[GeneralSubtree]| {
        let mut ca = ca_params("Plant");
        ca.name_constraints = Some(NameConstraints {
            permitted_subtrees: subtrees.to_vec(),
            excluded_subtrees: Vec::new(),
        });
        ca
    };
    let domain = GeneralSubtree::DnsName("example".into());
    let network = GeneralSubtree::IpAddress(CidrSubnet::V4([192, 0, 2, 0], [255, 255, 255, 0]));
    let plain = root("Root");
    let with = |authority: CertificateParams| {
        let below = intermediate(authority.clone(), &plain);
        let end = End::new(&device(), &below);
        let verifier = settings().verifier(trusting(&plain));
        let name = client(&verifier, &[end.der(), below.der()]).unwrap();
        // The constraints of a trusted authority itself count as well.
        let key = rcgen::KeyPair::generate().unwrap();
        let top = rcgen::CertifiedIssuer::self_signed(authority, key).unwrap();
        let end = End::new(&device(), &top);
        assert_eq!(client(&settings().verifier(trusting(&top)), &[end.der()]), Ok(name.clone()));
        name
    };
    assert_eq!(with(ca_params("Plant")).as_deref(), Some("urn:dev:mac:0024befffe804ff1"));
    assert_eq!(with(constrained(std::slice::from_ref(&domain))).as_deref(), Some("a.example"));
    assert_eq!(with(constrained(std::slice::from_ref(&network))).as_deref(), Some("192.0.2.1"));
    assert_eq!(with(constrained(&[network, domain.clone()])).as_deref(), Some("a.example"));
    // A device that has only other names has no identity, but its certificate is valid.
    let ca = intermediate(constrained(&[domain]), &plain);
    let end = End::new(&params("CN=sensor-1", &[]), &ca);
    let verifier = settings().verifier(trusting(&plain));
    assert_eq!(client(&verifier, &[end.der(), ca.der()]), Ok(None));
}

#[test]
fn all_names_of_a_certificate_are_read() {
    let end = End::self_signed(&device());
    let names = Names::of(end.der()).unwrap();
    assert_eq!(names.dns, ["*.b.example", "a.example"]);
    assert_eq!(names.uris, ["urn:dev:mac:0024befffe804ff1"]);
    assert_eq!(names.addresses, [std::net::IpAddr::from([192, 0, 2, 1])]);
    let subject = "O=Example\\, \\\"Ltd\\\",CN=sensor-1";
    assert_eq!(names.subject.as_deref(), Some(subject));
    assert_eq!(Names::of(b"nothing"), Err(BadCertificate::Malformed));
}

#[test]
fn a_client_is_known_by_its_uri_then_by_other_names_then_by_its_subject() {
    let ca = root("Root");
    let verifier = settings().verifier(trusting(&ca));
    let name = |params: &CertificateParams| {
        let end = End::new(params, &ca);
        client(&verifier, &[end.der()]).unwrap()
    };
    let mut params = device();
    assert_eq!(name(&params).as_deref(), Some("urn:dev:mac:0024befffe804ff1"));
    params.subject_alt_names.pop();
    assert_eq!(name(&params).as_deref(), Some("a.example"));
    params.subject_alt_names.remove(1);
    assert_eq!(name(&params).as_deref(), Some("192.0.2.1"));
    params.subject_alt_names.pop();
    let subject = "O=Example\\, \\\"Ltd\\\",CN=sensor-1";
    assert_eq!(name(&params).as_deref(), Some(subject), "a wildcard is nobody's name");
    params.distinguished_name = rcgen::DistinguishedName::new();
    assert_eq!(name(&params), None);
}

#[test]
fn a_subject_with_characters_that_control_a_terminal_is_shown_without_them() {
    let mut params = params("x", &[]);
    params.distinguished_name.push(DnType::CommonName, "a\u{1b}[31m");
    let end = End::self_signed(&params);
    assert_eq!(Names::of(end.der()).unwrap().subject.as_deref(), Some("CN=a\\1b[31m"));
    params.distinguished_name.push(DnType::CommonName, "a\u{9b}31m");
    let end = End::self_signed(&params);
    assert_eq!(Names::of(end.der()).unwrap().subject, None);
}
