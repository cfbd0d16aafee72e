//! Handshakes with any two datagrams lost, and with many copies of any datagram.

use crate::credentials::Credentials;
use crate::setup::{arriving, defaults, pair, pass};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{ClientConfig, CookiePolicy, Packing, ProtocolVersion, ServerConfig};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{Direction, Pair};

/// A kind of handshake. All kinds use a cookie.
#[derive(Clone, Copy, Debug)]
struct Kind {
    version: ProtocolVersion,
    suite: CipherSuiteId,
    mode: PskKeyExchangeMode,
    credentials: Credentials,
    /// `Some` if an earlier session is resumed: by ticket if true, by session ID, in DTLS 1.2, if
    /// false.
    resumed: Option<bool>,
    packing: Packing,
}

/// Number of datagrams after those of a handshake without loss that are lost too. They are
/// retransmissions.
const REPEATED: usize = 4;
/// Number of copies of a datagram in a burst.
const BURST: usize = 20;

/// The largest number of additional datagrams that a burst may cause: in DTLS 1.3 an ACK, if a part
/// of the flight is missing.
const MOST_ANSWERS: usize = 1;

/// The results of the handshakes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of kinds of handshakes.
    pub kinds: usize,
    /// Number of pairs of datagrams that were lost.
    pub pairs: usize,
    /// Number of pairs after whose loss both ends connected and a message arrived in each
    /// direction.
    pub connected: usize,
    /// Number of bursts, each with many copies of one datagram.
    pub bursts: usize,
    /// The largest number of datagrams that a burst caused in addition to those without it.
    pub most_answers: usize,
    /// Descriptions of the handshakes that failed.
    pub failures: Vec<String>,
}

impl Kind {
    fn all() -> Vec<Self> {
        let new = |version, suite, mode| Self {
            version,
            suite,
            mode,
            credentials: Credentials::Psk,
            resumed: None,
            packing: Packing::Full,
        };
        let (psk, exchange) = (PskKeyExchangeMode::PSK_KE, PskKeyExchangeMode::PSK_DHE_KE);
        let older = |suite| new(ProtocolVersion::Dtls12, suite, psk);
        let newer = |mode| new(ProtocolVersion::Dtls13, CipherSuiteId::AES_128_CCM_SHA256, mode);
        let ccm8 = older(CipherSuiteId::PSK_WITH_AES_128_CCM_8);
        let ecdhe = older(CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256);
        let kinds = [
            ccm8,
            Self { resumed: Some(true), ..ccm8 },
            Self { resumed: Some(false), ..ccm8 },
            ecdhe,
            Self { resumed: Some(true), ..ecdhe },
            newer(psk),
            newer(exchange),
            Self { resumed: Some(true), ..newer(exchange) },
        ];
        let certified = Credentials::CERTIFIED.into_iter().flat_map(|credentials| {
            let ecdsa = older(CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_CCM_8);
            let ends = [ecdsa, newer(exchange)].map(|kind| Self { credentials, ..kind });
            let resumed = ends.map(|kind| Self { resumed: Some(true), ..kind });
            ends.into_iter().chain(resumed)
        });
        let packings = [Packing::Full, Packing::RecordPerDatagram];
        kinds
            .into_iter()
            .chain(certified)
            .flat_map(|kind| packings.map(|packing| Self { packing, ..kind }))
            .collect()
    }

    fn configs(&self) -> (ClientConfig, ServerConfig) {
        let mut settings = defaults();
        settings.provider = self.credentials.provider();
        settings.versions = vec![self.version];
        settings.suites = vec![self.suite];
        settings.psk_modes = vec![self.mode];
        settings.packing = self.packing;
        settings.resumption = self.resumed.is_some();
        settings.session_tickets = self.resumed == Some(true);
        // Under an external PSK a server sends tickets only if it is told to.
        settings.psk_tickets = u8::from(self.resumed == Some(true));
        let (client, server) = self.credentials.configs(settings);
        (client, server.with_cookies(CookiePolicy::Always))
    }

    /// Two ends before their handshake, after a first association if there is one to resume.
    fn pair<'a>(&self, seed: u64) -> Pair<'a> {
        let (client, server) = self.configs();
        let mut pair = pair(client.clone(), server, seed);
        if self.resumed.is_some() {
            pair.run_for(Duration::from_secs(1));
            let session = pair.client.session();
            let client = match session {
                Some(session) => client.with_session(session),
                None => client,
            };
            pair.replace_client(Arc::new(client), seed + 1);
        }
        pair
    }
}

/// Runs the handshake and exchanges messages. Returns whether all of them arrived.
fn connects(pair: &mut Pair<'_>, kind: &Kind) -> bool {
    pair.run_for(Duration::from_secs(60));
    // Only datagrams of the handshake are lost.
    pair.rule = Box::new(|_, _, datagram| pass(datagram));
    pair.send(Direction::ToServer, b"ping");
    pair.send(Direction::ToClient, b"pong");
    pair.run_for(Duration::from_secs(1));
    let resumed = pair.client.negotiated().is_some_and(|agreed| agreed.resumed);
    pair.client.is_connected()
        && resumed == kind.resumed.is_some()
        && pair.at_server.data == [b"ping"]
        && pair.at_client.data == [b"pong"]
}

/// Tries every pair and every burst, but only every `stride`-th pair. `seed` determines everything.
pub fn run(seed: u64, stride: usize) -> Report {
    let mut report = Report::default();
    for kind in Kind::all() {
        report.kinds += 1;
        let mut fair = kind.pair(seed);
        fair.run_for(Duration::from_secs(60));
        let count = fair.log.len();
        pairs(&mut report, &kind, count, seed, stride);
        // Copies of a part of a flight whose next part is lost cause two further datagrams in DTLS
        // 1.3. Only chains of certificates make flights that long.
        if !kind.credentials.has_chains() {
            bursts(&mut report, &kind, count, seed);
        }
    }
    report
}

fn pairs(report: &mut Report, kind: &Kind, count: usize, seed: u64, stride: usize) {
    let last = count + REPEATED;
    let pairs = (0..last).flat_map(|first| (first + 1..last).map(move |second| (first, second)));
    for (first, second) in pairs.step_by(stride) {
        let mut pair = kind.pair(seed).with_rule(move |_, index, datagram| {
            if index == first || index == second { vec![] } else { pass(datagram) }
        });
        report.pairs += 1;
        if connects(&mut pair, kind) {
            report.connected += 1;
        } else {
            report.failures.push(format!(
                "{kind:?} without {first} and {second}: client {:?}, server {:?}",
                pair.at_client.closed, pair.at_server.closed
            ));
        }
    }
}

/// Bursts of every datagram, on a network without loss and after the loss of any one datagram. A
/// server without state answers every copy of a first hello, so that datagram is left out.
fn bursts(report: &mut Report, kind: &Kind, count: usize, seed: u64) {
    for lost in [None].into_iter().chain((2..count).map(Some)) {
        let sent = |doubled: Option<usize>| {
            let mut pair = kind.pair(seed).with_rule(move |_, index, datagram| {
                let copies = match Some(index) {
                    index if index == lost => 0,
                    index if index == doubled => BURST,
                    _ => 1,
                };
                arriving(vec![datagram.to_vec(); copies])
            });
            pair.run_for(Duration::from_secs(60));
            pair.log.len()
        };
        let without = sent(None);
        for doubled in (1..without).filter(|doubled| Some(*doubled) != lost) {
            report.bursts += 1;
            let answers = sent(Some(doubled)).saturating_sub(without);
            report.most_answers = report.most_answers.max(answers);
            if answers > MOST_ANSWERS {
                report.failures.push(format!(
                    "{kind:?}, {doubled} repeated and {lost:?} lost: {answers} further answers"
                ));
            }
        }
    }
}
