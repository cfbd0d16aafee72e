//! Handshakes with certificates, each implementation against itself: one chain of two for every
//! end, ECDSA with P-256. All check the chain and the server's name.

use crate::race::Contender;
use crate::wolfssl::{Certified, Context, Group, Mode, Role, Settings, Suite, Ticket};
use crate::{ours_race, pair};
use dimpl::{Config, Dtls, DtlsCertificate, Output};
use lightseal_dtls::crypto::{CipherSuiteId, NamedGroup, Provider};
use lightseal_dtls::{
    CertificateVerifier, CertifiedKey, ClientAuthentication, ClientConfig, CookiePolicy,
    MemorySessions, PresentedCertificate, ServerConfig, codepoints::CertificateType,
};
use lightseal_pki::{Clock, Trust, X509Verifier};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::ffi::CString;
use std::sync::Arc;
use std::time::Instant;

/// The server's name in its certificate.
const NAME: &str = "server.example";

/// A certificate with its key.
struct Issued {
    chain: String,
    certificate: Vec<u8>,
    key: String,
    key_der: Vec<u8>,
}

/// An authority, and a certificate for each end.
pub struct Chains {
    authority: String,
    client: Issued,
    server: Issued,
}

impl Chains {
    /// New keys and certificates.
    ///
    /// # Panics
    /// Never: rcgen makes certificates from valid names.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("randomness");
        let mut root = CertificateParams::new(vec![]).expect("no names");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(root, key).expect("a valid root");
        let issue = |name: &str| {
            let key = KeyPair::generate().expect("randomness");
            let leaf = CertificateParams::new(vec![name.to_owned()]).expect("a valid name");
            let leaf = leaf.signed_by(&key, &root).expect("a valid certificate");
            Issued {
                chain: leaf.pem(),
                certificate: leaf.der().to_vec(),
                key: key.serialize_pem(),
                key_der: key.serialize_der(),
            }
        };
        Self { authority: root.pem(), client: issue("client.example"), server: issue(NAME) }
    }

    fn verifier(&self, provider: &'static Provider) -> X509Verifier {
        let trust = Trust::new().with_authorities(self.authority.as_bytes()).expect("a valid root");
        lightseal_pki::Settings::new(provider, Clock::system()).verifier(trust)
    }

    fn key(&self, provider: &'static Provider, issued: &Issued) -> CertifiedKey {
        let (chain, key) = (issued.chain.as_bytes(), issued.key.as_bytes());
        lightseal_pki::certified_key(provider, chain, key).expect("a valid key")
    }

    /// wolfSSL's form of one end.
    fn wolfssl(&self, role: Role, mutual: bool) -> Certified {
        let (own, verifies) = match role {
            Role::Client => (Some(&self.client).filter(|_| mutual), true),
            Role::Server => (Some(&self.server), mutual),
        };
        Certified {
            own: own.map(|issued| (issued.chain.clone(), issued.key.clone())),
            authority: verifies.then(|| self.authority.clone()),
            server_name: CString::new(NAME).expect("no zero in a name"),
        }
    }
}

/// What kind of handshake is raced.
#[derive(Clone, Copy, Debug)]
pub struct Handshake {
    /// Whether the client has a certificate as well.
    pub mutual: bool,
    /// Whether each handshake resumes the session of the one before, with a key exchange.
    pub resumed: bool,
}

/// Our handshakes, without cookie, over AES-128-GCM.
pub fn ours(
    chains: &Chains,
    provider: &'static Provider,
    group: NamedGroup,
    handshake: Handshake,
) -> ours_race::Handshakes {
    let mut settings = lightseal_dtls::Settings::new(provider);
    settings.suites = vec![CipherSuiteId::AES_128_GCM_SHA256];
    settings.groups = vec![group];
    settings.resumption = handshake.resumed;
    // wolfSSL sends one ticket.
    settings.tickets = 1;
    let verifier = || Arc::new(chains.verifier(provider));
    let mut client = ClientConfig::verifying(verifier(), settings.clone())
        .and_then(|client| client.with_server_name(NAME))
        .expect("the provider has it all");
    let mut server =
        ServerConfig::certified(Arc::new(chains.key(provider, &chains.server)), settings)
            .expect("the provider has it all")
            .with_cookies(CookiePolicy::WhenRetrying);
    if handshake.mutual {
        let key = Arc::new(chains.key(provider, &chains.client));
        client = client.with_keys(key).expect("it has a verifier");
        let clients = ClientAuthentication::Required(verifier());
        server = server.with_client_authentication(clients).expect("it has keys");
    }
    if handshake.resumed {
        client = client.with_session_cache(Arc::new(MemorySessions::default()));
    }
    ours_race::Handshakes::between(client, server)
}

/// wolfSSL's handshakes.
pub struct Wolfssl {
    pair: pair::Pair,
    resumes: bool,
    ticket: Option<Ticket>,
}

impl Wolfssl {
    /// The same handshakes by wolfSSL.
    pub fn new(chains: &Chains, group: Group, handshake: Handshake) -> Self {
        let settings = Settings {
            suite: Suite::Aes128Gcm,
            mode: Mode::PskWith(group),
            cookie: false,
            identity: Vec::new(),
            key: Vec::new(),
        };
        let [client, server] = Role::BOTH.map(|role| {
            Context::certified(role, &settings, chains.wolfssl(role, handshake.mutual))
        });
        Self { pair: pair::Pair::of(client, server), resumes: handshake.resumed, ticket: None }
    }
}

impl Contender for Wolfssl {
    fn run(&mut self) {
        let (mut client, mut server) = self.pair.peers();
        if let Some(ticket) = &self.ticket {
            client.resume(ticket);
        }
        pair::shake_hands(&mut client, &mut server).expect("nothing is lost");
        if self.resumes {
            // The ticket comes after the handshake.
            let none = client.recv(&mut [0; 16]).expect("connected");
            assert_eq!(none, None);
            assert_eq!(client.has_resumed(), self.ticket.is_some(), "the session is resumed");
            self.ticket = client.ticket();
        }
    }
}

/// dimpl's handshakes over AWS-LC. It leaves the check of the peer's certificate to the application,
/// which uses our verifier.
pub struct Dimpl {
    client: (Arc<Config>, DtlsCertificate),
    server: (Arc<Config>, DtlsCertificate),
    mutual: bool,
    verifier: X509Verifier,
    now: Instant,
    buffer: Vec<u8>,
    network: Vec<u8>,
}

impl Dimpl {
    /// The same handshakes by dimpl.
    ///
    /// # Panics
    /// If dimpl refuses its own provider.
    pub fn new(chains: &Chains, provider: &'static Provider, handshake: Handshake) -> Self {
        let end = |issued: &Issued| {
            let config = Config::builder()
                .with_crypto_provider(dimpl::crypto::aws_lc_rs::default_provider())
                .dtls13_cipher_suites(&[dimpl::crypto::Dtls13CipherSuite::AES_128_GCM_SHA256])
                .kx_groups(&[dimpl::NamedGroup::Secp256r1])
                .require_client_certificate(handshake.mutual)
                .use_server_cookie(false)
                .dangerously_set_rng_seed(1)
                .build();
            let certificate = DtlsCertificate {
                certificate: issued.certificate.clone(),
                private_key: issued.key_der.clone(),
            };
            (Arc::new(config.expect("the provider works")), certificate)
        };
        Self {
            client: end(&chains.client),
            server: end(&chains.server),
            mutual: handshake.mutual,
            verifier: chains.verifier(provider),
            now: Instant::now(),
            buffer: vec![0; 4096],
            network: vec![0; 4096],
        }
    }

    /// As `dimpl_race::Handshakes::carry`, with a check of the certificate of `from`'s peer.
    fn carry(&mut self, from: &mut Dtls, to: &mut Dtls, from_client: bool) -> (bool, usize) {
        let (mut connected, mut verified) = (false, 0);
        loop {
            match from.poll_output(&mut self.buffer) {
                Output::Packet(packet) => {
                    let datagram = &mut self.network[..packet.len()];
                    datagram.copy_from_slice(packet);
                    to.handle_packet(datagram).expect("nothing is lost");
                }
                Output::PeerCert(certificate) => {
                    let name = from_client.then_some(NAME);
                    let entries = [certificate];
                    let presented = PresentedCertificate::new(
                        CertificateType::X509,
                        &entries,
                        name,
                        !from_client,
                    );
                    self.verifier.verify(&presented).expect("the authority has issued it");
                    verified += 1;
                }
                Output::Connected => connected = true,
                Output::Timeout(_) => return (connected, verified),
                _ => {}
            }
        }
    }
}

impl Contender for Dimpl {
    fn run(&mut self) {
        let new = |(config, certificate): &(Arc<Config>, DtlsCertificate)| {
            Dtls::new_13(Arc::clone(config), certificate.clone(), self.now)
        };
        let (mut client, mut server) = (new(&self.client), new(&self.server));
        client.set_active(true);
        server.set_active(false);
        client.handle_timeout(self.now).expect("a client starts");
        server.handle_timeout(self.now).expect("a server starts");
        let (mut client_connected, mut server_connected, mut checked) = (false, false, 0);
        for _ in 0..20 {
            let (connected, verified) = self.carry(&mut client, &mut server, true);
            client_connected |= connected;
            checked += verified;
            let (connected, verified) = self.carry(&mut server, &mut client, false);
            server_connected |= connected;
            checked += verified;
            if client_connected && server_connected {
                assert_eq!(checked, 1 + usize::from(self.mutual), "certificates are verified");
                return;
            }
        }
        panic!("the handshake is not complete after 20 rounds");
    }
}
