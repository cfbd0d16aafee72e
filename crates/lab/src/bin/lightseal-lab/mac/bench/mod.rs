//! `lightseal-lab mac bench`: the paper's Tables 3 and 4 on this machine.
//!
//! - [`ciphers`]: the ciphers and their kernels;
//! - [`contenders`]: the MACs that are measured, set up outside the measured
//!   time;
//! - [`report`]: the tables, as text, CSV and JSON.
//!
//! All figures that are compared come from one race: LightMAC, other MACs, the cipher alone and the
//! core's clock take short turns, one after the other.

mod ciphers;
mod contenders;
mod report;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use contenders::{BenchCipher, Measurement, Mode};
use lightseal_cli::ciphers::CipherName;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_measure::{Contender, CoreClock, Spread};
use report::{Report, Row};
use std::io::{self, Write};
use std::time::Duration;

/// How long a contender runs in one turn.
const TURN: Duration = Duration::from_micros(500);

/// Number of turns that are measured, by default and with `--quick`.
const TURNS: usize = 101;
const QUICK_TURNS: usize = 15;

/// Message lengths in bytes: short messages of devices, and the paper's lengths 2^7 to 2^13.
const LENGTHS: [usize; 11] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// The longest message length in bytes that may be asked for.
const MAX_LENGTH: u64 = 1 << 20;

#[derive(Clone, Debug, Args)]
pub(crate) struct BenchArgs {
    /// Ciphers to measure.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CIPHER",
          default_values_t = [CipherName::Aes128, CipherName::Present80])]
    cipher: Vec<CipherName>,
    /// Kernels to measure, by name; "all" is all kernels that this machine has [default: the
    /// fastest].
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    kernel: Vec<String>,
    /// MACs to measure [default: all].
    #[arg(long, value_enum, value_delimiter = ',', value_name = "MAC")]
    mode: Vec<ModeName>,
    /// Message lengths in bytes.
    #[arg(long, value_delimiter = ',', value_name = "N", default_values_t = LENGTHS,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_LENGTH))]
    bytes: Vec<usize>,
    /// Measure fewer turns: the figures are rougher and come sooner.
    #[arg(long)]
    quick: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values, one line per figure.
    #[arg(long)]
    csv: bool,
}

/// A MAC by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// LightMAC, with counters of half a block, a third of a block, and 8 bits.
    Lightmac,
    /// CBC-MAC whose last block is encrypted once more.
    Emac,
    /// A MAC in the manner of PMAC with Parity.
    PmacParity,
    /// RustCrypto's CMAC.
    Cmac,
    /// RustCrypto's PMAC.
    Pmac,
    /// RustCrypto's HMAC with SHA-256.
    HmacSha256,
    /// RustCrypto's AES-GCM with associated data only.
    Gmac,
}

/// Measures and prints the figures.
pub(crate) fn run(args: &BenchArgs, quiet: bool) -> Result<(), Failure> {
    let mut plan = Vec::new();
    for &cipher in &args.cipher {
        for kernel in args.kernels_of(cipher)? {
            plan.push((cipher, kernel));
        }
    }
    if plan.is_empty() {
        return Err(Failure::new("none of these ciphers has this kernel here"));
    }
    let turns = if args.quick { QUICK_TURNS } else { TURNS };
    let progress = Progress::steps(plan.len() * (args.bytes.len() + 1), quiet);
    let mut report = Report::new(turns);
    for (cipher, kernel) in plan {
        progress.set_step_name(&format!("{cipher}, {kernel}"));
        let measured = match cipher {
            CipherName::Aes128 => measure::<lightmac::Aes128>(args, cipher, kernel, &progress),
            CipherName::Aes256 => measure::<lightmac::Aes256>(args, cipher, kernel, &progress),
            CipherName::Present80 => {
                measure::<lightmac::Present80>(args, cipher, kernel, &progress)
            }
            CipherName::Present128 => {
                measure::<lightmac::Present128>(args, cipher, kernel, &progress)
            }
        };
        for (rows, clock_ghz) in measured {
            report.add(rows, clock_ghz);
        }
    }
    drop(progress);
    let text = if args.json {
        report.json()
    } else if args.csv {
        report.csv()
    } else {
        report.tables()
    };
    io::stdout().write_all(text.as_bytes()).context("standard output")
}

impl BenchArgs {
    /// The kernels of a cipher that are asked for. The list is empty if the cipher has none of the
    /// named ones.
    fn kernels_of(&self, cipher: CipherName) -> Result<Vec<&'static str>, Failure> {
        let (all, here) = match cipher {
            CipherName::Aes128 => lightmac::Aes128::kernels(),
            CipherName::Aes256 => lightmac::Aes256::kernels(),
            CipherName::Present80 => lightmac::Present80::kernels(),
            CipherName::Present128 => lightmac::Present128::kernels(),
        };
        if self.kernel.is_empty() {
            return Ok(here.last().into_iter().copied().collect());
        }
        for name in &self.kernel {
            if !self.is_kernel_of_any(name) {
                return Err(Failure::new(format_args!(
                    "--kernel {name}: {cipher} has {}",
                    all.join(", ")
                )));
            }
            if all.contains(&&**name) && !here.contains(&&**name) {
                return Err(Failure::new(format_args!(
                    "--kernel {name}: this processor has only {}",
                    here.join(", ")
                )));
            }
        }
        let asked = |kernel: &&str| self.kernel.iter().any(|name| name == kernel || name == "all");
        Ok(here.into_iter().filter(asked).collect())
    }

    fn is_kernel_of_any(&self, name: &str) -> bool {
        let all = [lightmac::Aes128::kernels().0, lightmac::Present80::kernels().0].concat();
        name == "all" || all.contains(&name)
    }

    fn wants(&self, mode: ModeName) -> bool {
        self.mode.is_empty() || self.mode.contains(&mode)
    }
}

/// The races of one cipher on one kernel: the rows and the clock rate of each race.
fn measure<C: BenchCipher>(
    args: &BenchArgs,
    cipher: CipherName,
    kernel: &'static str,
    progress: &Progress,
) -> Vec<(Vec<Row>, Spread)> {
    let turns = if args.quick { QUICK_TURNS } else { TURNS };
    let keys = contenders::keys::<C>(kernel);
    let by_itself = vec![contenders::bulk(&keys), contenders::serial(&keys)];
    let mut races = vec![race(by_itself, cipher, kernel, turns)];
    progress.step();
    for &bytes in &args.bytes {
        let data = contenders::data(bytes);
        races.push(race(contenders::all(args, &keys, &data, bytes), cipher, kernel, turns));
        progress.step();
    }
    races
}

/// One race. Its first contender is the cipher alone on many independent blocks.
fn race(
    mut entries: Vec<Measurement<'_>>,
    cipher: CipherName,
    kernel: &'static str,
    turns: usize,
) -> (Vec<Row>, Spread) {
    let mut clock = CoreClock::new();
    let mut contenders: Vec<&mut dyn Contender> = Vec::new();
    for entry in &mut entries {
        contenders.push(&mut *entry.contender);
    }
    let clock_at = contenders.len();
    contenders.push(&mut clock);
    let outcome = lightseal_measure::race(&mut contenders, turns, TURN);
    let clock_ns = outcome.ns(clock_at);
    // The clock's rate is high when its time is low.
    let clock_ghz = Spread {
        low: CoreClock::CYCLES / clock_ns.high,
        median: CoreClock::CYCLES / clock_ns.median,
        high: CoreClock::CYCLES / clock_ns.low,
    };
    let a_third = contenders::counter_lengths(cipher.block_bits())[1];
    let lightmac = |form| {
        entries.iter().position(|entry| entry.form == form && entry.mode == Mode::LightMac(a_third))
    };
    let per_byte = |entry: &Measurement<'_>| entry.messages * entry.bytes as f64;
    let rows = entries.iter().enumerate().map(|(at, entry)| {
        let of_limit = match entry.mode {
            Mode::LightMac(s) => {
                let n = f64::from(cipher.block_bits());
                let limit = n / (n - f64::from(s));
                let bytes = per_byte(entry) / per_byte(&entries[0]);
                Some(outcome.ratio(0, at).scaled(bytes * limit))
            }
            _ => None,
        };
        let over_lightmac = match entry.mode {
            Mode::LightMac(_) | Mode::Ecb => None,
            _ => lightmac(entry.form).map(|ours| {
                outcome.ratio(at, ours).scaled(entries[ours].messages / entry.messages)
            }),
        };
        Row {
            cipher,
            kernel,
            mode: entry.mode,
            form: entry.form,
            bytes: entry.bytes,
            ns: outcome.ns(at).scaled(1.0 / entry.messages),
            cycles: outcome.ratio(at, clock_at).scaled(CoreClock::CYCLES / entry.messages),
            of_limit,
            over_lightmac,
        }
    });
    (rows.collect(), clock_ghz)
}
