//! Claims on LightMAC's speed compared with its cipher's and with other MACs'.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json, run_peer};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "ecb-aes-bulk",
        about: "Core cycles a byte of AES-128 in bulk over 10/64, which is ten rounds of 64 B at \
            one round a cycle. Bar: our own target",
        bar: Bar::AtMost(1.05),
        seconds: 5,
        measure: || {
            let rows = bench(AES, "aes-128", "lightmac", "8192")?;
            rows.figure("/cycles_per_byte", f64::max, is_bulk).map(over_rounds)
        },
    },
    Claim {
        name: "lightmac-aes-8k",
        about: "Throughput of LightMAC over its limit, the cipher's bulk throughput times (n - \
            s)/n with block size n and counter size s in bits: AES-128, 8 KiB, s = 40. Bar: \
            our own target",
        bar: Bar::AtLeast(0.85),
        seconds: 5,
        measure: || {
            let rows = bench(AES, "aes-128", "lightmac", "8192")?;
            rows.figure("/of_limit", f64::min, |row| has(row, 40, "back-to-back"))
        },
    },
    Claim {
        name: "lightmac-aes-2k",
        about: "Throughput of LightMAC over its limit, the cipher's bulk throughput times (n - \
            s)/n with block size n and counter size s in bits: AES-128, 2 KiB, s = 8. Bar: \
            our own target",
        bar: Bar::AtLeast(0.75),
        seconds: 5,
        measure: || {
            let rows = bench(AES, "aes-128", "lightmac", "2048")?;
            rows.figure("/of_limit", f64::min, |row| has(row, 8, "back-to-back"))
        },
    },
    Claim {
        name: "lightmac-1k-cmac-rustcrypto",
        about: "Time of RustCrypto's CMAC over LightMAC's: AES-128, messages of 1 KiB back to \
            back, s = 8. Bar: our own target",
        bar: Bar::AtLeast(8.0),
        seconds: 10,
        measure: || back_to_back(&["cmac_rustcrypto", "cmac_rustcrypto_own_aes"]),
    },
    Claim {
        name: "lightmac-1k-cmac-openssl",
        about: "Time of OpenSSL's CMAC over LightMAC's: AES-128, messages of 1 KiB back to back, \
            s = 8. Bar: our own target",
        bar: Bar::AtLeast(8.0),
        seconds: 10,
        measure: || back_to_back(&["cmac_openssl"]),
    },
    Claim {
        name: "lightmac-1k-gmac-ring",
        about: "Time of ring's GMAC over LightMAC's: AES-128, messages of 1 KiB back to back, s \
            = 8. Bar: LightMAC is no slower",
        bar: Bar::AtLeast(1.0),
        seconds: 10,
        measure: || back_to_back(&["gmac_ring"]),
    },
    Claim {
        name: "lightmac-batch-64",
        about: "Core cycles of LightMAC for each 64 B message of a batch, AES-128, s = 8. Bar: \
            our own target",
        bar: Bar::AtMost(45.0),
        seconds: 10,
        measure: batch,
    },
    Claim {
        name: "lightmac-alone-14",
        about: "Time of LightMAC over that of the fastest CMAC for a single message of up to 14 \
            B, AES-128, s = 8: the worst length. Bar: our own target",
        bar: Bar::AtMost(1.1),
        seconds: 10,
        measure: || alone(0..=14),
    },
    Claim {
        name: "lightmac-alone-16",
        about: "Time of LightMAC over that of the fastest CMAC for a single message of 16 B, \
            AES-128, s = 8. Bar: our own target",
        bar: Bar::AtMost(2.1),
        seconds: 10,
        measure: || alone(16..=16),
    },
    Claim {
        name: "lightmac-alone-64",
        about: "Time of LightMAC over that of the fastest CMAC for a single message of 64 B to 1 \
            KiB, AES-128, s = 8: the worst length. Bar: LightMAC is no slower",
        bar: Bar::AtMost(1.0),
        seconds: 10,
        measure: || alone(64..=1024),
    },
    // The best public bitsliced implementation took 6.9 cycles a byte. It is of the kind that
    // Benadjila, Guo, Lomné and Peyrin study ("Implementing Lightweight Block Ciphers on x86
    // Architectures", SAC 2013).
    Claim {
        name: "ecb-present-bulk",
        about: "Core cycles a byte of PRESENT-80 in bulk, with AVX-512 and GFNI. Bar: our own \
            target",
        bar: Bar::AtMost(2.5),
        seconds: 5,
        measure: || {
            let rows = bench(PRESENT, "present-80", "lightmac", "8192")?;
            rows.figure("/cycles_per_byte", f64::max, is_bulk)
        },
    },
    Claim {
        name: "ecb-present-avx2",
        about: "Core cycles a byte of PRESENT-80 in bulk, with AVX2. Bar: the best public \
            bitsliced implementation",
        bar: Bar::AtMost(6.9),
        seconds: 5,
        measure: || {
            let rows = bench("avx2", "present-80", "lightmac", "8192")?;
            rows.figure("/cycles_per_byte", f64::max, is_bulk)
        },
    },
    Claim {
        name: "lightmac-present-8k",
        about: "Throughput of LightMAC over its limit, the cipher's bulk throughput times (n - \
            s)/n with block size n and counter size s in bits: PRESENT-80, 8 KiB, s = 24. \
            Bar: our own target",
        bar: Bar::AtLeast(0.9),
        seconds: 5,
        measure: || {
            let rows = bench(PRESENT, "present-80", "lightmac", "8192")?;
            rows.figure("/of_limit", f64::min, |row| has(row, 24, "back-to-back"))
        },
    },
    Claim {
        name: "lightmac-present-batch",
        about: "Throughput of LightMAC over its limit, the cipher's bulk throughput times (n - \
            s)/n with block size n and counter size s in bits: PRESENT-80, batches of \
            messages of 1 KiB to 8 KiB, s = 24. Bar: our own target",
        bar: Bar::AtLeast(0.9),
        seconds: 10,
        measure: || {
            let rows = bench(PRESENT, "present-80", "lightmac", LONG)?;
            rows.figure("/of_limit", f64::min, |row| has(row, 24, "batch"))
        },
    },
    // With equally good kernels only the number of cipher calls differs: PMAC/P needs three for two
    // blocks, LightMAC n / (n - s) for each block. For AES with s = 40 the ratio is 1.5 / (128/88)
    // = 1.03. The paper's lead of 20 % is over a PMAC/P that loads its round keys for every block.
    Claim {
        name: "lightmac-pmac-parity-aes",
        about: "Time of PMAC with Parity over LightMAC's at rate 2/3: AES-128, s = 40, 1 KiB to \
            8 KiB, the worst length. Bar: the ratio of cipher calls, 1.5 / (128/88)",
        bar: Bar::AtLeast(1.03),
        seconds: 15,
        measure: || over_lightmac(AES, "aes-128", "pmac-parity"),
    },
    // For PRESENT with s = 24 the ratio is 1.5 / (64/40) = 0.9375: here LightMAC makes more cipher
    // calls. Any lead beyond that comes from the three passes over the message that PMAC/P needs.
    Claim {
        name: "lightmac-pmac-parity-present",
        about: "Time of PMAC with Parity over LightMAC's at rate 2/3: PRESENT-80, s = 24, 1 KiB \
            to 8 KiB, the worst length. Bar: the ratio of cipher calls, 1.5 / (64/40)",
        bar: Bar::AtLeast(0.93),
        seconds: 15,
        measure: || over_lightmac(PRESENT, "present-80", "pmac-parity"),
    },
    Claim {
        name: "lightmac-emac-aes",
        about: "Time of EMAC over LightMAC's at rate 2/3: AES-128, s = 40, 1 KiB to 8 KiB, the \
            worst length. Bar: our own target",
        bar: Bar::AtLeast(3.0),
        seconds: 15,
        measure: || over_lightmac(AES, "aes-128", "emac"),
    },
    Claim {
        name: "lightmac-emac-present",
        about: "Time of EMAC over LightMAC's at rate 2/3: PRESENT-80, s = 24, 1 KiB to 8 KiB, \
            the worst length. Bar: our own target",
        bar: Bar::AtLeast(3.0),
        seconds: 15,
        measure: || over_lightmac(PRESENT, "present-80", "emac"),
    },
];

/// The kernels for which the bars were set.
const AES: &str = "vaes-512";
const PRESENT: &str = "avx512-gfni";

/// The paper's message lengths from 1 KiB, in bytes.
const LONG: &str = "1024,2048,4096,8192";

/// Cycles a byte of ten AES rounds over a register of 64 bytes at one round a cycle.
const AES_CYCLES_PER_BYTE: f64 = 10.0 / 64.0;

/// The rows that `lightseal mac bench` printed for one cipher.
struct Rows {
    all: Vec<Value>,
    /// The kernel for which the bar was set; the rows of the others are in the detail only.
    kernel: &'static str,
    /// The first line of the detail.
    run: String,
}

/// Measures on every kernel that this machine has; an error if `kernel` is not one of them.
fn bench(kernel: &'static str, cipher: &str, modes: &str, bytes: &str) -> Result<Rows, Unmeasured> {
    let what = ["--cipher", cipher, "--mode", modes, "--bytes", bytes];
    let how = ["--kernel", "all", "--json"];
    let result =
        run_json("lightseal", "lightseal", &[&["mac", "bench"], &what[..], &how].concat())?;
    let all = result["rows"].as_array().cloned().unwrap_or_default();
    if !all.iter().any(|row| row["kernel"] == kernel) {
        return Err(Unmeasured::NotHere(format!("{cipher} has no kernel {kernel} here")));
    }
    let run = format!(
        "core clock {:.3} GHz; medians of {} turns, in brackets the quartiles\n",
        number(&result, "/clock_ghz/median")?,
        number(&result, "/turns")?
    );
    Ok(Rows { all, kernel, run })
}

impl Rows {
    /// The worst median at `pointer` among the kernel's rows that are `wanted`.
    fn figure(
        &self,
        pointer: &str,
        worst: fn(f64, f64) -> f64,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Measured, Unmeasured> {
        let mut figures = Vec::new();
        let mut detail = self.run.clone();
        for row in self.all.iter().filter(|row| wanted(row)) {
            let [median, low, high] =
                ["median", "low", "high"].map(|part| number(row, &format!("{pointer}/{part}")));
            let (median, low, high) = (median?, low?, high?);
            detail += &format!(
                "{} on {}, {} B: {median:.3} [{low:.3}..{high:.3}], {:.3} cycles/byte\n",
                text(row, "mac"),
                text(row, "kernel"),
                number(row, "/bytes")?,
                number(row, "/cycles_per_byte/median")?,
            );
            if row["kernel"] == self.kernel {
                figures.push(median);
            }
        }
        let figure = figures.into_iter().reduce(worst);
        let figure = figure.ok_or_else(|| Unmeasured::Broken("no figure was printed".into()))?;
        Ok(Measured { figure, detail })
    }
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or("?")
}

fn is_bulk(row: &Value) -> bool {
    row["mac"] == "ecb" && row["form"] == "batch"
}

fn has(row: &Value, counter_bits: u32, form: &str) -> bool {
    row["counter_bits"] == counter_bits && row["form"] == form
}

fn over_rounds(measured: Measured) -> Measured {
    Measured { figure: measured.figure / AES_CYCLES_PER_BYTE, ..measured }
}

fn over_lightmac(
    kernel: &'static str,
    cipher: &str,
    rival: &'static str,
) -> Result<Measured, Unmeasured> {
    let rows = bench(kernel, cipher, &format!("lightmac,{rival}"), LONG)?;
    let wanted = |row: &Value| row["mac"] == rival && row["form"] == "back-to-back";
    rows.figure("/over_lightmac", f64::min, wanted)
}

/// The race with other libraries' MACs, on the kernel for which the bars were set.
fn macs() -> Result<Value, Unmeasured> {
    let result = run_peer("macs", &["--json"])?;
    match text(&result, "kernel") {
        AES => Ok(result),
        other => Err(Unmeasured::NotHere(format!("no kernel {AES} here, only {other}"))),
    }
}

/// One line for each contender of a race.
fn lines(race: &Value) -> Result<String, Unmeasured> {
    let bytes = number(race, "/bytes")?;
    let mut lines = String::new();
    for (name, figures) in race.as_object().into_iter().flatten() {
        if figures.is_object() {
            lines += &format!(
                "{bytes} B, {name}: {:.1} ns, {:.0} cycles [{:.0}..{:.0}], {:.2} times LightMAC's\n",
                number(figures, "/ns/median")?,
                number(figures, "/cycles/median")?,
                number(figures, "/cycles/low")?,
                number(figures, "/cycles/high")?,
                number(figures, "/over_lightmac/median")?,
            );
        }
    }
    Ok(lines)
}

/// The time of the fastest of `rivals` over LightMAC's, messages of 1 KiB back to back.
fn back_to_back(rivals: &[&str]) -> Result<Measured, Unmeasured> {
    let result = macs()?;
    let races = result["back_to_back"].as_array().into_iter().flatten();
    let race = races.into_iter().find(|race| race["bytes"] == 1024);
    let race = race.ok_or_else(|| Unmeasured::Broken("no race with 1024 B".into()))?;
    Ok(Measured { figure: fastest(race, rivals)?, detail: lines(race)? })
}

/// The smallest time among `rivals` over LightMAC's.
fn fastest(race: &Value, rivals: &[&str]) -> Result<f64, Unmeasured> {
    rivals.iter().try_fold(f64::INFINITY, |least, rival| {
        Ok(least.min(number(race, &format!("/{rival}/over_lightmac/median"))?))
    })
}

fn batch() -> Result<Measured, Unmeasured> {
    let result = macs()?;
    let [median, low, high, ns] = ["/cycles/median", "/cycles/low", "/cycles/high", "/ns/median"]
        .map(|part| number(&result["batch"], part));
    let figure = median?;
    let detail = format!(
        "{} messages of {} B a call: {figure:.1} cycles each [{:.1}..{:.1}], {:.2} ns",
        number(&result, "/batch/messages")?,
        number(&result, "/batch/bytes")?,
        low?,
        high?,
        ns?,
    );
    Ok(Measured { figure, detail })
}

/// LightMAC's time over that of the fastest CMAC at the worst message length within `bytes`.
fn alone(bytes: std::ops::RangeInclusive<u64>) -> Result<Measured, Unmeasured> {
    let result = macs()?;
    let mut figure: f64 = 0.0;
    let mut detail = String::new();
    for race in result["alone"].as_array().into_iter().flatten() {
        if race["bytes"].as_u64().is_some_and(|length| bytes.contains(&length)) {
            let cmacs = ["cmac_rustcrypto", "cmac_rustcrypto_own_aes", "cmac_openssl"];
            figure = figure.max(1.0 / fastest(race, &cmacs)?);
            detail += &lines(race)?;
        }
    }
    if detail.is_empty() {
        return Err(Unmeasured::Broken("no race with such messages".into()));
    }
    Ok(Measured { figure, detail })
}
