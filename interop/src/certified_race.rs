//! Handshakes with certificates, each implementation against itself. All check the chain and the
//! server's name.

pub use crate::handshake::Handshake;

use crate::chains::{Chains, Issued, SERVER_NAME, Unnamed};
use crate::race::{self, Contender};
use crate::wolfssl::{Context, Group, Role, Suite, Ticket};
use crate::{ours, ours_race, pair};
use dimpl::{Config, Dtls, DtlsCertificate, Output};
use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::{
    CertificateVerifier, ClientAuthentication, ClientConfig, ConnectionIds, CookiePolicy,
    MemorySessions, PresentedCertificate, ServerConfig,
};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Our handshakes.
///
/// # Panics
/// The provider lacks what the handshake needs.
pub fn ours(
    chains: &Chains,
    provider: &'static Provider,
    handshake: Handshake,
) -> ours_race::Handshakes {
    let mut settings = ours::common(&handshake.settings(), provider);
    settings.resumption = handshake.resumed;
    // wolfSSL sends one ticket in DTLS 1.3, and none in DTLS 1.2, where its server remembers
    // sessions.
    settings.tickets = 1;
    settings.session_tickets = false;
    settings.connection_ids = handshake.cid.map_or(ConnectionIds::Off, ConnectionIds::Bytes);
    ours_with(chains, handshake, settings)
}

/// Our handshakes with these settings.
///
/// # Panics
/// The settings are not valid.
pub fn ours_with(
    chains: &Chains,
    handshake: Handshake,
    settings: lightseal_dtls::Settings,
) -> ours_race::Handshakes {
    let Handshake { mutual, resumed, cookie, raw, .. } = handshake;
    let provider = settings.provider;
    let verifier = || Arc::new(chains.verifier(provider, raw));
    let mut client = ClientConfig::verifying(verifier(), settings.clone())
        .and_then(|client| client.with_server_name(SERVER_NAME))
        .expect("the provider has it all");
    let cookies = if cookie { CookiePolicy::Always } else { CookiePolicy::ProvedBelow };
    let key = Arc::new(chains.server.certified_key(provider, raw));
    let mut server = ServerConfig::certified(key, settings)
        .expect("the provider has it all")
        .with_cookies(cookies);
    if mutual {
        let key = Arc::new(chains.client.certified_key(provider, raw));
        client = client.with_keys(key).expect("it has a verifier");
        let clients = ClientAuthentication::Required(verifier());
        server = server.with_client_authentication(clients).expect("it has keys");
    }
    if resumed {
        client = client.with_session_cache(Arc::new(MemorySessions::new(NonZeroUsize::MIN)));
    }
    ours_race::Handshakes::between(client, server)
}

/// wolfSSL's handshakes.
pub struct Wolfssl {
    client: Rc<Context>,
    server: Rc<Context>,
    resumes: bool,
    ticket: Option<Ticket>,
    /// How many more handshakes resume sessions before there is a full one, as in ours.
    left: u16,
}

impl Wolfssl {
    /// Two ends of wolfSSL for handshakes of this kind, with these certificates.
    ///
    /// # Panics
    /// wolfSSL refuses the settings.
    pub fn new(chains: &Chains, handshake: Handshake) -> Self {
        let [client, server] = Role::BOTH.map(|role| {
            let certified = chains.wolfssl(role, &handshake);
            let cid = handshake.cid.map(usize::from);
            Context::certified(role, &handshake.settings(), cid, certified)
        });
        Self { client, server, resumes: handshake.resumed, ticket: None, left: 0 }
    }

    /// The lengths of a handshake's datagrams in bytes, in order. The datagrams of a ticket count.
    ///
    /// # Panics
    /// The handshake fails.
    pub fn datagram_lengths(&mut self) -> Vec<usize> {
        if self.resumes && self.ticket.is_none() {
            self.run();
        }
        let mut lengths = Vec::new();
        self.connect(|length| lengths.push(length));
        lengths
    }

    fn connect(&mut self, mut watch: impl FnMut(usize)) {
        let (mut client, mut server) = (self.client.peer(), self.server.peer());
        match &self.ticket {
            Some(ticket) if self.left > 0 => {
                client.resume(ticket);
                self.left -= 1;
            }
            _ => {
                self.ticket = None;
                self.left = ours_race::CLIENTS - 1;
            }
        }
        let shaken = pair::shake_hands_watched(&mut client, &mut server, |sender| {
            sender.output_lengths().for_each(&mut watch);
        });
        shaken.expect("nothing is lost");
        if self.resumes {
            // The ticket of DTLS 1.3 comes after the handshake.
            let nothing = client.recv(&mut [0; 16]).expect("connected");
            assert_eq!(nothing, None);
            client.output_lengths().for_each(&mut watch);
            client.carry_to(&mut server);
            assert_eq!(client.has_resumed(), self.ticket.is_some(), "the session is resumed");
            let ticket = client.ticket();
            self.ticket = Some(ticket.expect("the server lets its sessions be resumed"));
        }
    }
}

impl Contender for Wolfssl {
    fn run(&mut self) {
        self.connect(|_| {});
    }
}

/// dimpl's handshakes over AWS-LC. It leaves the check of the peer's certificate to the application,
/// which uses our verifier.
pub struct Dimpl {
    client: (Arc<Config>, DtlsCertificate),
    server: (Arc<Config>, DtlsCertificate),
    mutual: bool,
    verifier: Unnamed,
    now: Instant,
    buffer: Vec<u8>,
    network: Vec<u8>,
}

impl Dimpl {
    /// Whether dimpl has such handshakes, and they are written here.
    pub fn supports(handshake: Handshake) -> bool {
        let Handshake { suite, group, mutual: _, resumed, cookie, raw, cid } = handshake;
        let has_group = group != Group::X25519MlKem768;
        suite == Suite::Aes128Gcm && has_group && !resumed && !cookie && !raw && cid.is_none()
    }

    /// Two ends of dimpl for handshakes of this kind, which [`supports`](Self::supports) must accept,
    /// with these certificates. dimpl leaves the check of certificates to the application: it is done
    /// by our verifier, with the signature algorithms of `provider`.
    ///
    /// # Panics
    /// If dimpl refuses its own provider, or has no such handshake.
    pub fn new(chains: &Chains, provider: &'static Provider, handshake: Handshake) -> Self {
        assert!(Self::supports(handshake), "dimpl has no such handshake");
        let group = match handshake.group {
            Group::P256 => dimpl::NamedGroup::Secp256r1,
            Group::P384 => dimpl::NamedGroup::Secp384r1,
            Group::X25519 => dimpl::NamedGroup::X25519,
            Group::X25519MlKem768 => panic!("dimpl has no ML-KEM"),
        };
        let end = |issued: &Issued| {
            let config = Config::builder()
                .with_crypto_provider(dimpl::crypto::aws_lc_rs::default_provider())
                .dtls13_cipher_suites(&[dimpl::crypto::Dtls13CipherSuite::AES_128_GCM_SHA256])
                .kx_groups(&[group])
                .require_client_certificate(handshake.mutual)
                .use_server_cookie(false)
                .mtu(race::DATAGRAM_BYTES)
                .dangerously_set_rng_seed(1)
                .build();
            let certificate = DtlsCertificate {
                certificate: issued.certificate.clone(),
                private_key: issued.key.clone(),
            };
            (Arc::new(config.expect("the provider works")), certificate)
        };
        Self {
            client: end(&chains.client),
            server: end(&chains.server),
            mutual: handshake.mutual,
            verifier: chains.verifier(provider, false),
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
                    let name = from_client.then_some(SERVER_NAME);
                    let entries = [certificate];
                    let mut presented = PresentedCertificate::new(CertificateType::X509, &entries);
                    presented.server_name = name;
                    presented.from_client = !from_client;
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
