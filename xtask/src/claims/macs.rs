//! Claims on LightMAC's speed compared with its cipher's and with other MACs'.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    let topics = [aes(), back_to_back(), few_messages(), present(), rivals_at_two_thirds()];
    topics.into_iter().flatten().collect()
}

/// A cipher and the kernel for which the bars were set.
type Kernel = (&'static str, &'static str);

const AES: Kernel = ("aes-128", "vaes-512");
const PRESENT: Kernel = ("present-80", "avx512-gfni");
const PRESENT_AVX2: Kernel = ("present-80", "avx2");

/// The paper's message lengths from 1 KiB, in bytes.
const LONG: &str = "1024,2048,4096,8192";

/// The rows of the cipher alone, on many blocks at a time.
const BULK: &str = "rows[mac=ecb][form=batch]";

/// Measures `modes` on every kernel that this machine has. The figure is the worst `value` of the
/// kernel's rows; the detail shows the rows of all kernels.
fn bench(
    (cipher, kernel): Kernel,
    modes: &str,
    bytes: &str,
    rows: &str,
    worst: Reducer,
    value: &'static str,
) -> Reading {
    let options = format!("--cipher {cipher} --mode {modes} --bytes {bytes} --kernel all --json");
    let shown = value.split('/').next().unwrap_or_default();
    read(LAB.run(format!("mac bench {options}")))
        .possible_if(
            format!("#rows[kernel={kernel}] > 0"),
            format!("{cipher} has no kernel {kernel} here"),
        )
        .line(
            "core clock {clock_ghz/median:.3} GHz; medians of {turns} turns, in brackets the \
             quartiles",
        )
        .each(
            rows.to_owned(),
            format!(
                "{{mac}} on {{kernel}}, {{bytes}} B: {{{shown}/median:.3}} \
                 [{{{shown}/low:.3}}..{{{shown}/high:.3}}], {{cycles_per_byte/median:.3}} \
                 cycles/byte"
            ),
        )
        .reduced(worst, format!("{rows}[kernel={kernel}]"), value)
}

/// LightMAC's throughput over its limit.
fn of_limit(kernel: Kernel, bytes: &str, counter_bits: u32, form: &str) -> Reading {
    let rows = format!("rows[counter_bits={counter_bits}][form={form}]");
    bench(kernel, "lightmac", bytes, &rows, least, "of_limit/median")
}

const OF_LIMIT: &str = "Throughput of LightMAC over its limit, the cipher's bulk throughput times \
                        (n - s)/n with block size n and counter size s in bits:";

fn aes() -> Vec<Claim> {
    // Ten rounds of 64 bytes at one round a cycle take 10/64 = 0.15625 cycles a byte.
    let rounds = "cycles_per_byte/median / 0.15625";
    vec![
        "Core cycles a byte of AES-128 in bulk over 10/64, which is ten rounds of 64 B at one \
            round a cycle. Bar: our own target"
            .claim("ecb-aes-bulk", AtMost(1.05), Seconds(5))
            .by(bench(AES, "lightmac", "8192", BULK, greatest, rounds)),
        format!("{OF_LIMIT} AES-128, 8 KiB, s = 40. Bar: our own target")
            .claim("lightmac-aes-8k", AtLeast(0.85), Seconds(5))
            .by(of_limit(AES, "8192", 40, "back-to-back")),
        format!("{OF_LIMIT} AES-128, 2 KiB, s = 8. Bar: our own target")
            .claim("lightmac-aes-2k", AtLeast(0.75), Seconds(5))
            .by(of_limit(AES, "2048", 8, "back-to-back")),
    ]
}

/// The race with other libraries' MACs, on the kernel for which the bars were set. Each race also
/// gets a list of its contenders.
fn race() -> Result<Value, Failure> {
    let mut result = Program::peer("macs").run("--json").json()?;
    if result["kernel"] != AES.1 {
        let reason = format!("no kernel {} here, only {}", AES.1, result["kernel"]);
        return Err(Failure::NotPossibleHere(reason));
    }
    for form in ["back_to_back", "alone"] {
        for race in result[form].as_array_mut().into_iter().flatten() {
            let entries = race.as_object().into_iter().flatten();
            let contenders = entries.filter(|(_, figures)| figures.is_object());
            let named = contenders.map(|(name, figures)| {
                json!({ "name": name, "bytes": race["bytes"], "figures": figures })
            });
            race["contenders"] = named.collect();
        }
    }
    Ok(result)
}

const CONTENDER: &str = "{bytes} B, {name}: {figures/ns/median:.1} ns, {figures/cycles/median:.0} \
                         cycles [{figures/cycles/low:.0}..{figures/cycles/high:.0}], \
                         {figures/over_lightmac/median:.2} times LightMAC's";

fn back_to_back() -> Vec<Claim> {
    // RustCrypto's CMAC runs over its own AES and over ours: the faster of them counts.
    let rustcrypto =
        "cmac_rustcrypto/over_lightmac/median, cmac_rustcrypto_own_aes/over_lightmac/median";
    let openssl = "cmac_openssl/over_lightmac/median";
    let ring = "gmac_ring/over_lightmac/median";
    [
        ("cmac-rustcrypto", "RustCrypto's CMAC", 8.0, "our own target", rustcrypto),
        ("cmac-openssl", "OpenSSL's CMAC", 8.0, "our own target", openssl),
        ("gmac-ring", "ring's GMAC", 1.0, "LightMAC is no slower", ring),
    ]
    .map(|(name, rival, bar, why, times)| {
        format!(
            "Time of {rival} over LightMAC's: AES-128, messages of 1 KiB back to back, s = 8. Bar: \
             {why}"
        )
        .claim(format!("lightmac-1k-{name}"), AtLeast(bar), Seconds(10))
        .by(read(race).each("back_to_back[bytes=1024]/contenders[]", CONTENDER).reduced(
            least,
            "back_to_back[bytes=1024]",
            times,
        ))
    })
    .into()
}

fn few_messages() -> Vec<Claim> {
    let batch = read(race)
        .line(
            "{batch/messages} messages of {batch/bytes} B a call: {batch/cycles/median:.1} cycles \
             each [{batch/cycles/low:.1}..{batch/cycles/high:.1}], {batch/ns/median:.2} ns",
        )
        .figure("batch/cycles/median");
    let alone = "Time of LightMAC over that of the fastest CMAC for a single message of";
    vec![
        "Core cycles of LightMAC for each 64 B message of a batch, AES-128, s = 8. Bar: our own \
            target"
            .claim("lightmac-batch-64", AtMost(45.0), Seconds(10))
            .by(batch),
        format!("{alone} up to 14 B, AES-128, s = 8: the worst length. Bar: our own target")
            .claim("lightmac-alone-14", AtMost(1.1), Seconds(10))
            .by(one_message("[bytes<=14]")),
        format!("{alone} 16 B, AES-128, s = 8. Bar: our own target")
            .claim("lightmac-alone-16", AtMost(2.1), Seconds(10))
            .by(one_message("[bytes=16]")),
        format!(
            "{alone} 64 B to 1 KiB, AES-128, s = 8: the worst length. Bar: LightMAC is no slower"
        )
        .claim("lightmac-alone-64", AtMost(1.0), Seconds(10))
        .by(one_message("[bytes>=64][bytes<=1024]")),
    ]
}

/// LightMAC's time over that of the fastest CMAC at the worst of some message lengths.
fn one_message(lengths: &str) -> Reading {
    let times = ["cmac_rustcrypto", "cmac_rustcrypto_own_aes", "cmac_openssl"]
        .map(|cmac| format!("1 / {cmac}/over_lightmac/median"));
    read(race).each(format!("alone{lengths}/contenders[]"), CONTENDER).reduced(
        greatest,
        format!("alone{lengths}"),
        times.join(", "),
    )
}

fn present() -> Vec<Claim> {
    let cycles = "cycles_per_byte/median";
    vec![
        // The best public bitsliced implementation took 6.9 cycles a byte. It is of the kind that
        // Benadjila, Guo, Lomné and Peyrin study ("Implementing Lightweight Block Ciphers on x86
        // Architectures", SAC 2013).
        "Core cycles a byte of PRESENT-80 in bulk, with AVX-512 and GFNI. Bar: our own target"
            .claim("ecb-present-bulk", AtMost(2.5), Seconds(5))
            .by(bench(PRESENT, "lightmac", "8192", BULK, greatest, cycles)),
        "Core cycles a byte of PRESENT-80 in bulk, with AVX2. Bar: the best public bitsliced \
            implementation"
            .claim("ecb-present-avx2", AtMost(6.9), Seconds(5))
            .by(bench(PRESENT_AVX2, "lightmac", "8192", BULK, greatest, cycles)),
        format!("{OF_LIMIT} PRESENT-80, 8 KiB, s = 24. Bar: our own target")
            .claim("lightmac-present-8k", AtLeast(0.9), Seconds(5))
            .by(of_limit(PRESENT, "8192", 24, "back-to-back")),
        format!(
            "{OF_LIMIT} PRESENT-80, batches of messages of 1 KiB to 8 KiB, s = 24. Bar: our own \
             target"
        )
        .claim("lightmac-present-batch", AtLeast(0.9), Seconds(10))
        .by(of_limit(PRESENT, LONG, 24, "batch")),
    ]
}

fn rivals_at_two_thirds() -> Vec<Claim> {
    // With equally good kernels only the number of cipher calls differs: PMAC/P needs three for two
    // blocks, LightMAC n / (n - s) for each block. For AES with s = 40 the ratio is 1.5 / (128/88)
    // = 1.03. The paper's lead of 20 % is over a PMAC/P that loads its round keys for every block.
    let parity_aes = ("pmac-parity", "aes", 1.03, "the ratio of cipher calls, 1.5 / (128/88)");
    // For PRESENT with s = 24 the ratio is 1.5 / (64/40) = 0.9375: here LightMAC makes more cipher
    // calls. Any lead beyond that comes from the three passes over the message that PMAC/P needs.
    let parity_present =
        ("pmac-parity", "present", 0.93, "the ratio of cipher calls, 1.5 / (64/40)");
    let emac_aes = ("emac", "aes", 3.0, "our own target");
    let emac_present = ("emac", "present", 3.0, "our own target");
    [parity_aes, parity_present, emac_aes, emac_present]
        .map(|(rival, cipher, bar, why)| {
            let name = if rival == "emac" { "EMAC" } else { "PMAC with Parity" };
            let (kernel, at) = match cipher {
                "aes" => (AES, "AES-128, s = 40"),
                _ => (PRESENT, "PRESENT-80, s = 24"),
            };
            let modes = format!("lightmac,{rival}");
            let rows = format!("rows[mac={rival}][form=back-to-back]");
            format!(
                "Time of {name} over LightMAC's at rate 2/3: {at}, 1 KiB to 8 KiB, the worst \
                 length. Bar: {why}"
            )
            .claim(format!("lightmac-{rival}-{cipher}"), AtLeast(bar), Seconds(15))
            .by(bench(kernel, &modes, LONG, &rows, least, "over_lightmac/median"))
        })
        .into()
}
