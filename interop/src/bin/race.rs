//! Times Lightseal beside wolfSSL, in turns, in one process.

use clap::{Args, Parser, Subcommand, ValueEnum};
use dtls::crypto::{Provider, rustcrypto};
use interop::race::{Outcome, race};
use interop::wolfssl::{Group, Mode, Settings, Suite, version};
use interop::{ours_race, pair};
use measure::Spread;
use serde_json::{Value, json};

/// Times Lightseal's DTLS 1.3 beside wolfSSL's. Each figure is the median over
/// turns of some milliseconds, first ours, then theirs, and so on.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A record sealed at one end and opened at the other.
    Records {
        /// Bytes of payload.
        #[arg(long, value_delimiter = ',', default_values_t = [16, 64, 256, 1200],
              value_parser = clap::value_parser!(u16).range(1..=1300))]
        bytes: Vec<u16>,
        #[command(flatten)]
        how: How,
    },
    /// A handshake, both ends, without cookies.
    Handshakes {
        /// How the key is used.
        #[arg(long, value_enum, default_value_t = ModeName::PskKe)]
        mode: ModeName,
        #[command(flatten)]
        how: How,
    },
}

#[derive(Args)]
struct How {
    /// The cipher suite.
    #[arg(long, value_enum, default_value_t = SuiteName::Aes128Gcm)]
    suite: SuiteName,
    /// Who computes our cryptography.
    #[arg(long, value_enum, default_value_t = ProviderName::AwsLc)]
    provider: ProviderName,
    /// Turns that count.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    turns: u32,
    /// Print one JSON object a figure.
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
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeName {
    PskKe,
    PskX25519,
    PskP256,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProviderName {
    AwsLc,
    Rustcrypto,
}

impl How {
    fn settings(&self, mode: ModeName) -> Settings {
        Settings {
            suite: match self.suite {
                SuiteName::Aes128Gcm => Suite::Aes128Gcm,
                SuiteName::Chacha20Poly1305 => Suite::Chacha20Poly1305,
                SuiteName::Aes128Ccm => Suite::Aes128Ccm,
                SuiteName::Aes128Ccm8 => Suite::Aes128Ccm8,
            },
            mode: match mode {
                ModeName::PskKe => Mode::Psk,
                ModeName::PskX25519 => Mode::PskWith(Group::X25519),
                ModeName::PskP256 => Mode::PskWith(Group::P256),
            },
            cookie: false,
            identity: b"sensor-7".to_vec(),
            key: vec![0x5a; 32],
        }
    }

    fn provider(&self) -> &'static Provider {
        match self.provider {
            ProviderName::AwsLc => &dtls_aws_lc::PROVIDER,
            ProviderName::Rustcrypto => &rustcrypto::PROVIDER,
        }
    }

    fn report(&self, what: &str, outcome: &Outcome) {
        let Outcome { turns, ours_ns, theirs_ns, ratio } = outcome;
        let provider = self.provider().name;
        if self.json {
            let line = json!({
                "what": what,
                "provider": provider,
                "peer": format!("wolfSSL {}", version()),
                "turns": turns,
                "ours": in_json(ours_ns, "_ns"),
                "wolfssl": in_json(theirs_ns, "_ns"),
                "ratio": in_json(ratio, ""),
            });
            println!("{line}");
        } else {
            println!(
                "{what}: ours ({provider}) {:.0} ns ({:.0}..{:.0}), {:.0}/s; wolfSSL {} {:.0} ns \
                 ({:.0}..{:.0}), {:.0}/s; their time over ours {:.3} ({:.3}..{:.3}), {turns} turns",
                ours_ns.median,
                ours_ns.low,
                ours_ns.high,
                1e9 / ours_ns.median,
                version(),
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

fn main() {
    match Arguments::parse().what {
        What::Records { bytes, how } => {
            let settings = how.settings(ModeName::PskKe);
            for bytes in bytes {
                let length = usize::from(bytes);
                let mut ours = ours_race::Records::new(&settings, how.provider(), length);
                let mut theirs = pair::Records::new(&settings, length);
                let outcome = race(&mut ours, &mut theirs, how.turns as usize);
                how.report(&format!("{:?} record of {bytes} B", settings.suite), &outcome);
            }
        }
        What::Handshakes { mode, how } => {
            let settings = how.settings(mode);
            let mut ours = ours_race::Handshakes::new(&settings, how.provider());
            let mut theirs = pair::Handshakes(pair::Pair::new(&settings));
            let outcome = race(&mut ours, &mut theirs, how.turns as usize);
            how.report(&format!("{:?} handshake, {:?}", settings.suite, settings.mode), &outcome);
        }
    }
}
