//! The DTLS of a WebRTC data channel with a browser (RFC 8827, RFC 8842).
//!
//! A page in the browser offers a data channel, and our end answers as an ICE-lite agent: it answers
//! connectivity checks, performs the handshake in the role that the answer chose, and answers SCTP until the
//! page says that its channel is open. Each end knows the other by the fingerprint of its certificate.

mod browser;
mod checksum;
mod ice;
pub mod namespace;
mod sctp;
mod signalling;
mod stun;

pub use browser::Browser;

use crate::driven::Event;
use crate::ours::Ours;
use crate::peers::wire::{self, WireObservations};
use crate::peers::{Failure, Meeting, Role, Version};
use aws_lc_rs::digest::{SHA256, digest};
use browser::Window;
use ice::Ice;
use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::crypto::{CipherSuiteId, NamedGroup, Provider};
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, CertifiedKey, ClientAuthentication, ClientConfig,
    CookiePolicy, PresentedCertificate, ProtocolVersion, ServerConfig, Settings,
};
use lightseal_net::blocking::Driver;
use rcgen::{CertificateParams, KeyPair};
use sctp::Sctp;
use serde_json::{Value, json};
use signalling::{Request, Signalling};
use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a browser may take to open its page.
const OPENING: Duration = Duration::from_secs(40);
/// How long a call may take until its channel is open, and until the page says so.
const CALL: Duration = Duration::from_secs(25);
/// How long a turn waits for a datagram.
const TURN: Duration = Duration::from_millis(10);
/// The name and the password of our ICE agent. Only the page learns them.
const USER: &str = "lightseal";
const PASSWORD: &str = "the+password+of+one+end+that+only+tests";

/// The parameters of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The browser's role in DTLS.
    pub browser: Role,
    /// The only version that our end speaks.
    pub version: Version,
    /// The only suite that our end speaks.
    pub suite: CipherSuiteId,
    /// The only group that our end has.
    pub group: NamedGroup,
    /// Whether the browser's certificate has an RSA key, and not one for ECDSA with P-256.
    pub rsa: bool,
    /// Whether our server asks for a cookie, which ICE makes unnecessary.
    pub cookie: bool,
}

impl Call {
    /// Every call that browsers and Lightseal can make.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for browser in Role::BOTH {
            for (version, suite, group) in [
                (Version::Dtls13, CipherSuiteId::AES_128_GCM_SHA256, NamedGroup::X25519_MLKEM768),
                (Version::Dtls13, CipherSuiteId::AES_128_GCM_SHA256, NamedGroup::X25519),
                (Version::Dtls13, CipherSuiteId::CHACHA20_POLY1305_SHA256, NamedGroup::P256),
                (Version::Dtls12, ECDHE_ECDSA, NamedGroup::X25519),
                (Version::Dtls12, ECDHE_ECDSA, NamedGroup::P256),
            ] {
                let call = Self { browser, version, suite, group, rsa: false, cookie: false };
                all.push(call);
                if browser == Role::Client {
                    all.push(Self { cookie: true, ..call });
                }
                // A server with an RSA key has no suite of DTLS 1.2 that we have.
                if version == Version::Dtls13 || browser == Role::Client {
                    all.push(Self { rsa: true, ..call });
                }
            }
        }
        all
    }

    /// Whether the call belongs to a sample: each role and version once, with the group that browsers
    /// prefer and, if the browser is a client of DTLS 1.3, with a cookie.
    pub fn is_sampled(&self) -> bool {
        let first = match self.version {
            Version::Dtls13 => NamedGroup::X25519_MLKEM768,
            Version::Dtls12 => NamedGroup::X25519,
        };
        let with_cookie = self.browser == Role::Client && self.version == Version::Dtls13;
        self.group == first && !self.rsa && self.cookie == with_cookie
    }

    /// The parameters as JSON.
    pub fn json(&self) -> Value {
        let suite = match self.suite {
            CipherSuiteId::AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
            CipherSuiteId::CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
            _ => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        };
        json!({
            "role": self.browser.to_string(),
            "version": self.version.to_string(),
            "suite": suite,
            "group": self.group.to_string(),
            "key": if self.rsa { "RSA" } else { "ECDSA P-256" },
            "cookie": self.cookie,
        })
    }
}

/// The results of all calls, each as JSON, made by the program `webrtc` in the folder `programs`.
///
/// # Errors
/// What is missing for calls, or why the program failed.
pub fn results(programs: &Path) -> Result<Vec<Value>, String> {
    namespace::require()?;
    let output = namespace::command(&programs.join("webrtc")).arg("--json").output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let results: Result<Vec<_>, _> = text.lines().map(serde_json::from_str).collect();
    results.map_err(|error| format!("webrtc printed no JSON: {error}"))
}

/// A result of a call in one line.
pub fn line(result: &Value) -> String {
    let text = |name: &str| result[name].as_str().unwrap_or_default();
    if let Some(reason) = result["impossible"].as_str() {
        return format!("{}: –: {reason}", text("browser"));
    }
    let outcome = match (result["failed"].as_str(), result["seconds"].as_f64()) {
        (None, Some(seconds)) => format!("ok ({seconds:.2} s)"),
        (reason, _) => format!("FAILED: {}", reason.unwrap_or("no result")),
    };
    let cookie = if result["cookie"] == true { ", cookie" } else { "" };
    format!(
        "{} as {}, DTLS {}, {}, {}, {} key{cookie}: {outcome}",
        text("browser"),
        text("role"),
        text("version"),
        text("suite"),
        text("group"),
        text("key"),
    )
}

/// The results as a section of a page in Markdown.
pub fn page(results: &[Value]) -> String {
    let mut text = String::new();
    let mut browsers: Vec<&str> = Vec::new();
    for version in results.iter().filter_map(|result| result["browser_version"].as_str()) {
        if !browsers.contains(&version) {
            browsers.push(version);
        }
    }
    for result in results {
        if let Some(reason) = result["impossible"].as_str() {
            let _ = writeln!(text, "{}: {reason}\n", result["browser"].as_str().unwrap_or("?"));
        }
    }
    let cell = |call: &Value, browser: &str| {
        let names = ["role", "version", "suite", "group", "key", "cookie"];
        let result = results.iter().find(|result| {
            result["browser_version"] == browser
                && names.iter().all(|name| result[*name] == call[*name])
        });
        match result {
            None => "–".to_owned(),
            Some(result) => match result["failed"].as_str() {
                None => "ok".to_owned(),
                Some(reason) => format!("FAILED: {reason}"),
            },
        }
    };
    let _ = write!(text, "| the browser is | DTLS | suite | group | its key | cookie |");
    for browser in &browsers {
        let _ = write!(text, " {browser} |");
    }
    let _ = write!(text, "\n|---|---|---|---|---|---|{}\n", "---|".repeat(browsers.len()));
    for call in Call::all() {
        let call = call.json();
        let part = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
        let cookie = if call["cookie"] == true { "yes" } else { "no" };
        let [role, version, suite, group, key] =
            ["role", "version", "suite", "group", "key"].map(part);
        let _ = write!(text, "| {role} | {version} | {suite} | {group} | {key} | {cookie} |");
        for browser in &browsers {
            let _ = write!(text, " {} |", cell(&call, browser));
        }
        text.push('\n');
    }
    text
}

const ECDHE_ECDSA: CipherSuiteId = CipherSuiteId(0xc02b);

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(&self.json()))
    }
}

/// A browser with its page.
pub struct Session {
    signalling: Signalling,
    _window: Window,
    at: IpAddr,
    /// The page's request for a call.
    ready: Option<Request>,
}

impl Session {
    /// Opens the page in a browser whose profile is made in `folder`. Page and calls are at the address `at`.
    ///
    /// # Errors
    /// The browser is not installed, or does not open the page.
    pub fn open(browser: Browser, at: IpAddr, folder: &Path) -> Result<Self, String> {
        let signalling = Signalling::start(at).map_err(|error| error.to_string())?;
        let page = signalling.address().map_err(|error| error.to_string())?;
        let window = browser
            .open(page, folder)
            .map_err(|error| format!("{} cannot be run: {error}", browser.program()))?;
        let mut session = Self { signalling, _window: window, at, ready: None };
        session.request("/next", Instant::now() + OPENING)?;
        Ok(session)
    }

    /// Waits for the page's next request, which must be for `path`. Returns its body, and keeps a request
    /// for a call.
    fn request(&mut self, path: &str, deadline: Instant) -> Result<Option<Request>, String> {
        let request = self.signalling.next(deadline)?;
        if request.path != path {
            return Err(format!("the page says {:?}", request.body));
        }
        if path == "/next" {
            self.ready = Some(request);
            return Ok(None);
        }
        Ok(Some(request))
    }

    /// Makes a call.
    ///
    /// # Errors
    /// The channel does not open, or the datagrams show something else than the call asked for.
    pub fn hold(&mut self, call: &Call, provider: &'static Provider) -> Result<Meeting, Failure> {
        let early = |reason: String| Failure { reason, trace: String::new() };
        let ready = self.ready.take().ok_or_else(|| early("the page is gone".into()))?;
        let started = Instant::now();
        ready.text(if call.rsa { "rsa" } else { "ecdsa" }).map_err(early)?;
        let offer = self.request("/offer", started + CALL).map_err(early)?;
        let offer = offer.ok_or_else(|| early("no offer".into()))?;
        let identity = OwnIdentity::new(provider);
        let fingerprint = fingerprint(&offer.body).map_err(early)?;
        let socket = UdpSocket::bind((self.at, 0)).map_err(|error| early(error.to_string()))?;
        let own = socket.local_addr().map_err(|error| early(error.to_string()))?;
        let answer = answer(call.browser, own, &identity.certificate);
        offer.text(&answer).map_err(early)?;
        let make = our_end(*call, provider, identity, fingerprint).map_err(early)?;
        let ice = Ice::new(PASSWORD.into(), call.browser, make);
        let mut driver = Driver::new(socket, ice);
        let mut packets = String::new();
        let outcome = self.drive(&mut driver, started + CALL, &mut packets);
        let ice = driver.engine();
        let shown = wire::shown(&ice.datagrams);
        let outcome = outcome.and_then(|()| judge(&shown, call));
        outcome
            .map(|()| Meeting { took: started.elapsed(), datagrams: ice.datagrams.len() })
            .map_err(|reason| Failure { reason, trace: wire::told(&ice.datagrams) + &packets })
    }

    /// Drives our end until the page has said how the call ended. The packets that arrive are added to
    /// `packets` in words.
    fn drive(
        &mut self,
        driver: &mut Driver<Ice>,
        deadline: Instant,
        packets: &mut String,
    ) -> Result<(), String> {
        let mut sctp = Sctp::default();
        let (mut said, mut closed) = (None, None);
        while said.is_none() {
            let mut received = Vec::new();
            let turn = driver.turn(TURN, |_, event| match event {
                Event::Data(packet) => received.push(packet),
                // The page closes its end as soon as it knows how the call ended, and says it then.
                Event::Closed(reason) => closed = Some(reason),
                Event::Connected | Event::Moved | Event::Retagged => {}
            });
            turn.map_err(|error| error.to_string())?;
            for packet in received {
                let _ = writeln!(packets, "SCTP {packet:02x?}");
                if let Some(answer) = sctp.answer(&packet).filter(|_| closed.is_none()) {
                    driver.call(|ice, now| ice.send(now, &answer))?;
                }
            }
            if let Ok(request) = self.signalling.next(Instant::now()) {
                said = Some(request.body.clone());
                self.ready = Some(request);
            } else if Instant::now() > deadline {
                return Err("the page does not say how the call ended".into());
            }
        }
        match said.as_deref() {
            Some("open") if sctp.established => Ok(()),
            said => {
                let closed = closed.map(|reason| format!("closed: {reason}; ")).unwrap_or_default();
                Err(format!("{closed}the page says {:?}", said.unwrap_or_default()))
            }
        }
    }
}

/// Checks that the ends have agreed on what the call asked for.
fn judge(shown: &WireObservations, call: &Call) -> Result<(), String> {
    let agreed = shown.agreed.map(|hello| (hello.version, hello.suite));
    if agreed != Some((call.version, call.suite.0)) {
        return Err(format!("they agreed on {agreed:?}"));
    }
    if shown.group != Some(call.group.0) {
        return Err(format!("they agreed on the group {:#06x?}", shown.group));
    }
    Ok(())
}

/// The key of our end with its certificate, made for one call.
struct OwnIdentity {
    certificate: Vec<u8>,
    key: Arc<CertifiedKey>,
}

impl OwnIdentity {
    fn new(provider: &'static Provider) -> Self {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("randomness");
        let certificate = CertificateParams::new(vec![])
            .and_then(|parameters| parameters.self_signed(&key))
            .expect("a valid certificate");
        let (chain, pem) = (certificate.pem(), key.serialize_pem());
        let key = lightseal_pki::certified_key(provider, chain.as_bytes(), pem.as_bytes());
        Self {
            certificate: certificate.der().to_vec(),
            key: Arc::new(key.expect("the provider signs with P-256")),
        }
    }
}

/// Accepts the certificate with this SHA-256 fingerprint (RFC 8122).
struct Fingerprint([u8; 32]);

impl CertificateVerifier for Fingerprint {
    fn kinds(&self) -> &[CertificateType] {
        &[CertificateType::X509]
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        let certificate = presented.entries.first().ok_or(BadCertificate::Malformed)?;
        if digest(&SHA256, certificate).as_ref() != self.0 {
            return Err(BadCertificate::UnknownKey);
        }
        lightseal_pki::description::public_key(certificate).map(|spki| (spki, None))
    }
}

/// What makes our end of the call.
fn our_end(
    call: Call,
    provider: &'static Provider,
    identity: OwnIdentity,
    fingerprint: [u8; 32],
) -> Result<Box<dyn FnOnce(SocketAddr, lightseal_core::Instant) -> Ours>, String> {
    let text = |error: lightseal_dtls::ConfigError| error.to_string();
    let mut settings = Settings::new(provider);
    settings.versions = vec![match call.version {
        Version::Dtls12 => ProtocolVersion::Dtls12,
        Version::Dtls13 => ProtocolVersion::Dtls13,
    }];
    settings.suites = vec![call.suite];
    settings.groups = vec![call.group];
    if call.version == Version::Dtls12 && call.group != NamedGroup::P256 {
        // A client's groups are those of certificates too (RFC 8422, section 5.1).
        settings.groups.push(NamedGroup::P256);
    }
    let verifier = Arc::new(Fingerprint(fingerprint));
    let seed = u64::from(std::process::id());
    Ok(match call.browser {
        Role::Server => {
            let client = ClientConfig::verifying(verifier, settings)
                .and_then(|client| client.with_keys(identity.key))
                .map_err(text)?;
            Box::new(move |browser, now| Ours::client(client, browser, now, seed))
        }
        Role::Client => {
            let cookies =
                if call.cookie { CookiePolicy::Always } else { CookiePolicy::ProvedBelow };
            let server = ServerConfig::certified(identity.key, settings)
                .map(|server| server.with_cookies(cookies))
                .and_then(|server| {
                    let clients = ClientAuthentication::Required(verifier);
                    server.with_client_authentication(clients)
                })
                .map_err(text)?;
            Box::new(move |_, _| Ours::server(server, seed))
        }
    })
}

/// The SHA-256 fingerprint in a session description.
fn fingerprint(sdp: &str) -> Result<[u8; 32], String> {
    let lines = sdp.lines().filter_map(|line| line.strip_prefix("a=fingerprint:sha-256 "));
    let bytes = lines.map(|line| {
        let bytes = line.trim().split(':').map(|byte| u8::from_str_radix(byte, 16));
        bytes.collect::<Result<Vec<_>, _>>()
    });
    let mut bytes = bytes.filter_map(|bytes| bytes.ok()?.try_into().ok());
    bytes.next().ok_or_else(|| "the offer has no SHA-256 fingerprint".into())
}

/// The answer to an offer (RFC 8866, RFC 8841).
fn answer(browser: Role, own: SocketAddr, certificate: &[u8]) -> String {
    let (ip, port) = (own.ip(), own.port());
    let setup = match browser {
        Role::Client => "passive",
        Role::Server => "active",
    };
    let mut fingerprint = String::new();
    for byte in digest(&SHA256, certificate).as_ref() {
        let _ = write!(fingerprint, "{byte:02X}:");
    }
    let lines = [
        "v=0",
        &format!("o=- 1 1 IN IP4 {ip}"),
        "s=-",
        "t=0 0",
        "a=ice-lite",
        "a=group:BUNDLE 0",
        &format!("m=application {port} UDP/DTLS/SCTP webrtc-datachannel"),
        &format!("c=IN IP4 {ip}"),
        "a=mid:0",
        &format!("a=ice-ufrag:{USER}"),
        &format!("a=ice-pwd:{PASSWORD}"),
        &format!("a=fingerprint:sha-256 {}", fingerprint.trim_end_matches(':')),
        &format!("a=setup:{setup}"),
        "a=sctp-port:5000",
        "a=max-message-size:65536",
        &format!("a=candidate:1 1 UDP 2130706431 {ip} {port} typ host"),
        "a=end-of-candidates",
    ];
    lines.map(|line| format!("{line}\r\n")).concat()
}
