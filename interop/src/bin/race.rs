//! Times Lightseal and other implementations in turns in one process, and counts their bytes.

use clap::{Args, Parser, Subcommand, ValueEnum};
use interop::certified_race::{self, Handshake};
use interop::chains::Chains;
use interop::race::{Contender, Outcome, race};
use interop::wolfssl::{self, Group, Mode, Settings, Suite};
use interop::{dimpl_race, openssl_race, ours_race, pair};
use lightseal_dtls::crypto::{Provider, rustcrypto};
use lightseal_measure::Spread;
use serde_json::{Value, json};

/// Times Lightseal's DTLS and that of other implementations. Each figure is the median over turns
/// of some milliseconds, first ours, then theirs, and so on.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: Contest,
}

#[derive(Subcommand)]
enum Contest {
    /// A record that one end seals and the other opens.
    Records {
        /// Bytes of payload.
        #[arg(long, value_delimiter = ',', default_values_t = [16, 64, 256, 1200],
              value_parser = clap::value_parser!(u16).range(1..=1300))]
        bytes: Vec<u16>,
        #[command(flatten)]
        how: RaceOptions,
    },
    /// A whole handshake, both ends included.
    Handshakes {
        /// The use of the pre-shared key.
        #[arg(long, value_enum, default_value_t = ModeName::PskKe)]
        mode: ModeName,
        /// Ask the client for a cookie first; DTLS 1.2 always does.
        #[arg(long)]
        cookie: bool,
        #[command(flatten)]
        how: RaceOptions,
    },
    /// A whole DTLS 1.3 handshake with ECDSA certificates (P-256), both ends included. Both check the
    /// other end's chain; for dimpl, which leaves that to the program, our verifier does.
    Certificates {
        /// What the ends authenticate themselves with.
        #[arg(long, value_enum, default_value_t = KindName::Server)]
        kind: KindName,
        /// The group of the key exchange.
        #[arg(long, value_enum, default_value_t = GroupName::P256)]
        group: GroupName,
        /// The implementations to race with. The fastest one counts.
        #[arg(long, value_enum, value_delimiter = ',', default_value = "wolfssl,dimpl")]
        peers: Vec<PeerName>,
        #[command(flatten)]
        timing: Timing,
    },
    /// Our DTLS 1.3 handshake with the server's ECDSA certificate and X25519, and the same with
    /// X25519MLKEM768, whose time is in the place of another implementation's.
    PostQuantum {
        #[command(flatten)]
        timing: Timing,
    },
    /// The datagrams of a handshake with a pre-shared key alone; nothing is timed.
    Wire {
        /// The cipher suite.
        #[arg(long, value_enum, default_value_t = SuiteName::Psk12Aes128Ccm8)]
        suite: SuiteName,
        /// Ask the client for a cookie first; DTLS 1.2 always does.
        #[arg(long)]
        cookie: bool,
    },
}

#[derive(Args)]
struct RaceOptions {
    /// The cipher suite.
    #[arg(long, value_enum, default_value_t = SuiteName::Aes128Gcm)]
    suite: SuiteName,
    /// The implementation to race with.
    #[arg(long, value_enum, default_value_t = PeerName::Wolfssl)]
    peer: PeerName,
    #[command(flatten)]
    timing: Timing,
}

#[derive(Args)]
struct Timing {
    /// The provider of our cryptography.
    #[arg(long, value_enum, default_value_t = ProviderName::AwsLc)]
    provider: ProviderName,
    /// Number of turns that count.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    turns: u32,
    /// Print one JSON object for each figure.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SuiteName {
    #[value(name = "aes-128-gcm")]
    Aes128Gcm,
    Chacha20Poly1305,
    #[value(name = "aes-128-ccm")]
    Aes128Ccm,
    #[value(name = "aes-128-ccm-8")]
    Aes128Ccm8,
    /// DTLS 1.2: TLS_PSK_WITH_AES_128_CCM_8
    #[value(name = "psk-with-aes-128-ccm-8")]
    Psk12Aes128Ccm8,
}

impl SuiteName {
    const fn suite(self) -> Suite {
        match self {
            Self::Aes128Gcm => Suite::Aes128Gcm,
            Self::Chacha20Poly1305 => Suite::Chacha20Poly1305,
            Self::Aes128Ccm => Suite::Aes128Ccm,
            Self::Aes128Ccm8 => Suite::Aes128Ccm8,
            Self::Psk12Aes128Ccm8 => Suite::PskAes128Ccm8,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PeerName {
    Wolfssl,
    /// Handshakes only: of DTLS 1.2 with the faster one of its providers, with certificates with
    /// AWS-LC
    Dimpl,
    /// Records of DTLS 1.2 only
    Openssl,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeName {
    PskKe,
    PskX25519,
    PskP256,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindName {
    /// The server has a certificate.
    Server,
    /// Both have one.
    Mutual,
    /// A session of the former kind is resumed, with a key exchange (psk_dhe_ke).
    Resumed,
}

#[derive(Clone, Copy, ValueEnum)]
enum GroupName {
    P256,
    X25519,
    #[value(name = "x25519mlkem768")]
    X25519MlKem768,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProviderName {
    AwsLc,
    Rustcrypto,
}

/// An identity of nine bytes.
const IDENTITY: &[u8] = b"sensor-17";

fn settings(suite: SuiteName, mode: ModeName, cookie: bool) -> Settings {
    let suite = suite.suite();
    Settings {
        suite,
        mode: match mode {
            ModeName::PskKe => Mode::Psk,
            ModeName::PskX25519 => Mode::PskWith(Group::X25519),
            ModeName::PskP256 => Mode::PskWith(Group::P256),
        },
        cookie: cookie || !suite.is_of_13(),
        identity: IDENTITY.to_vec(),
        key: vec![0x5a; 32],
    }
}

impl Timing {
    fn provider(&self) -> &'static Provider {
        match self.provider {
            ProviderName::AwsLc => &lightseal_dtls_aws_lc::PROVIDER,
            ProviderName::Rustcrypto => &rustcrypto::PROVIDER,
        }
    }

    fn report(&self, what: &str, peers: &[String], outcome: &Outcome) {
        let Outcome { turns, best, ours_ns, theirs_ns, ratio } = outcome;
        let peer = &peers[*best];
        let provider = self.provider().name;
        if self.json {
            let line = json!({
                "what": what,
                "provider": provider,
                "peer": peer,
                "turns": turns,
                "ours": in_json(ours_ns, "_ns"),
                "theirs": in_json(theirs_ns, "_ns"),
                "ratio": in_json(ratio, ""),
            });
            println!("{line}");
        } else {
            println!(
                "{what}: ours ({provider}) {:.0} ns ({:.0}..{:.0}), {:.0}/s; {peer} {:.0} ns \
                 ({:.0}..{:.0}), {:.0}/s; their time over ours {:.3} ({:.3}..{:.3}), {turns} turns",
                ours_ns.median,
                ours_ns.low,
                ours_ns.high,
                1e9 / ours_ns.median,
                theirs_ns.median,
                theirs_ns.low,
                theirs_ns.high,
                1e9 / theirs_ns.median,
                ratio.median,
                ratio.low,
                ratio.high,
            );
        }
    }
}

/// `low` and `high` are the quartiles.
fn in_json(spread: &Spread, unit: &str) -> Value {
    json!({
        format!("low{unit}"): spread.low,
        format!("median{unit}"): spread.median,
        format!("high{unit}"): spread.high,
    })
}

fn refuse(what: &str) -> ! {
    eprintln!("race: {what}");
    std::process::exit(2);
}

fn records(how: &RaceOptions, bytes: u16) {
    let length = usize::from(bytes);
    let settings = settings(how.suite, ModeName::PskKe, false);
    let mut ours = ours_race::Records::new(&settings, how.timing.provider(), length);
    let (peer, mut theirs): (_, Box<dyn Contender>) = match how.peer {
        PeerName::Wolfssl => (wolfssl_name(), Box::new(pair::Records::new(&settings, length))),
        PeerName::Openssl if !settings.suite.is_of_13() => {
            (openssl_race::version().to_owned(), Box::new(openssl_race::Records::new(length)))
        }
        _ => refuse("this peer has no records of this suite here"),
    };
    let outcome = race(&mut [&mut ours, &mut *theirs], how.timing.turns as usize);
    how.timing.report(&format!("{:?} record of {bytes} B", settings.suite), &[peer], &outcome);
}

fn handshakes(how: &RaceOptions, mode: ModeName, cookie: bool) {
    let settings = settings(how.suite, mode, cookie);
    let mut ours = ours_race::Handshakes::new(&settings, how.timing.provider());
    let (peers, mut theirs): (Vec<_>, Vec<Box<dyn Contender>>) = match how.peer {
        PeerName::Wolfssl => {
            let theirs = pair::Handshakes(pair::Pair::new(&settings));
            (vec![wolfssl_name()], vec![Box::new(theirs)])
        }
        PeerName::Dimpl if !settings.suite.is_of_13() => {
            let contender = |provider| -> (String, Box<dyn Contender>) {
                let theirs = dimpl_race::Handshakes::new(provider, IDENTITY, &settings.key);
                (format!("dimpl ({provider:?})"), Box::new(theirs))
            };
            dimpl_race::Provider::ALL.into_iter().map(contender).unzip()
        }
        _ => refuse("this peer has no handshakes of this suite here"),
    };
    let mut contenders: Vec<&mut dyn Contender> = vec![&mut ours];
    contenders.extend(theirs.iter_mut().map(|theirs| &mut **theirs as &mut dyn Contender));
    let outcome = race(&mut contenders, how.timing.turns as usize);
    how.timing.report(
        &format!("{:?} handshake, {:?}", settings.suite, settings.mode),
        &peers,
        &outcome,
    );
}

fn certificates(kind: KindName, group: GroupName, peers: &[PeerName], timing: &Timing) {
    let handshake = Handshake {
        group: match group {
            GroupName::P256 => Group::P256,
            GroupName::X25519 => Group::X25519,
            GroupName::X25519MlKem768 => Group::X25519MlKem768,
        },
        mutual: matches!(kind, KindName::Mutual),
        resumed: matches!(kind, KindName::Resumed),
        ..Handshake::SERVER_ONLY
    };
    let (chains, provider) = (Chains::new(), timing.provider());
    let mut ours = certified_race::ours(&chains, provider, handshake);
    let contender = |peer: &PeerName| -> (String, Box<dyn Contender>) {
        match peer {
            PeerName::Wolfssl => {
                (wolfssl_name(), Box::new(certified_race::Wolfssl::new(&chains, handshake)))
            }
            PeerName::Dimpl if certified_race::Dimpl::supports(handshake) => {
                let theirs = certified_race::Dimpl::new(&chains, provider, handshake);
                ("dimpl (AwsLc)".to_owned(), Box::new(theirs))
            }
            _ => refuse("this peer has no such handshakes here"),
        }
    };
    let (names, mut theirs): (Vec<_>, Vec<_>) = peers.iter().map(contender).unzip();
    let mut contenders: Vec<&mut dyn Contender> = vec![&mut ours];
    contenders.extend(theirs.iter_mut().map(|theirs| &mut **theirs as &mut dyn Contender));
    let outcome = race(&mut contenders, timing.turns as usize);
    let what = match kind {
        KindName::Server => "the server's certificate",
        KindName::Mutual => "certificates of both",
        KindName::Resumed => "a resumed session",
    };
    timing.report(&format!("handshake with {what}, {:?}", handshake.group), &names, &outcome);
}

fn post_quantum(timing: &Timing) {
    let chains = Chains::new();
    let handshakes = |group| {
        let handshake = Handshake { group, ..Handshake::SERVER_ONLY };
        certified_race::ours(&chains, timing.provider(), handshake)
    };
    let (mut classical, mut hybrid) =
        (handshakes(Group::X25519), handshakes(Group::X25519MlKem768));
    let outcome = race(&mut [&mut classical, &mut hybrid], timing.turns as usize);
    let name = "X25519MLKEM768".to_owned();
    timing.report("handshake with the server's certificate, X25519", &[name], &outcome);
}

fn wolfssl_name() -> String {
    format!("wolfSSL {}", wolfssl::version())
}

/// Counts the datagrams of a handshake and their bytes, and prints both as JSON.
fn wire(suite: SuiteName, cookie: bool) {
    let settings = settings(suite, ModeName::PskKe, cookie);
    let lengths = |lengths: Vec<usize>| {
        json!({
            "datagrams": lengths.len(),
            "bytes": lengths.iter().sum::<usize>(),
            "lengths": lengths,
        })
    };
    let ours = ours_race::Handshakes::new(&settings, &rustcrypto::PROVIDER).datagram_lengths();
    let mut peers = vec![match pair::Pair::new(&settings).datagram_lengths() {
        Ok(theirs) => json!({ "name": wolfssl_name(), "wire": lengths(theirs) }),
        Err(error) => refuse(&error.to_string()),
    }];
    if !settings.suite.is_of_13() {
        let provider = dimpl_race::Provider::AwsLc;
        let mut theirs = dimpl_race::Handshakes::new(provider, IDENTITY, &settings.key);
        peers.push(json!({ "name": "dimpl", "wire": lengths(theirs.datagram_lengths()) }));
    }
    println!("{}", json!({ "ours": lengths(ours), "peers": peers }));
}

fn main() {
    match Arguments::parse().what {
        Contest::Records { bytes, how } => bytes.into_iter().for_each(|bytes| records(&how, bytes)),
        Contest::Handshakes { mode, cookie, how } => handshakes(&how, mode, cookie),
        Contest::Certificates { kind, group, peers, timing } => {
            certificates(kind, group, &peers, &timing);
        }
        Contest::PostQuantum { timing } => post_quantum(&timing),
        Contest::Wire { suite, cookie } => wire(suite, cookie),
    }
}
