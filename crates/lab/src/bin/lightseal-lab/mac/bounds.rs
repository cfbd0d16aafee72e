//! `lightseal-lab mac bounds`: how much data one key may process.

use clap::Args;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::units::{Bytes, Quantity};
use lightseal_core::math;
use lightseal_mac_papers::bounds::{Certainty, MODES, Mode, Parameters, TYPICAL, power_of_two};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::str::FromStr;

#[derive(Clone, Debug, Args)]
pub(crate) struct BoundsArgs {
    /// Block length of the cipher in bits: whole bytes, from 32 to 128 bits.
    #[arg(long, value_name = "N", default_value_t = 64)]
    block_bits: u32,
    /// Length of LightMAC's counter in bits [default: half a block].
    #[arg(long, value_name = "S")]
    counter_bits: Option<u32>,
    /// Length of LightMAC's tag in bits [default: a block].
    #[arg(long, value_name = "T")]
    tag_bits: Option<u32>,
    /// Probability with which an attack may succeed at most: 2^-20, 1e-6 or 0.01%.
    #[arg(long, value_name = "P", default_value = "2^-20")]
    probability: MaxProbability,
    /// Lengths of messages to compare: 16 for blocks, 1KiB or 100B for bytes [default: several
    /// lengths up to LightMAC's longest message].
    #[arg(long, value_name = "LENGTH,..", value_delimiter = ',')]
    length: Vec<MessageLength>,
    /// Print also with which probability an attack on this number of messages succeeds.
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    /// Number of forgeries that an attack may try (LightMAC's Theorem 2).
    #[arg(long, value_name = "V")]
    verifications: Option<u64>,
    /// Number of tag blocks that each message gets from one pass (LightMAC with long outputs).
    #[arg(long, value_name = "R", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    outputs: u32,
    /// Print also where each bound is proved.
    #[arg(long)]
    sources: bool,
    /// Print everything as JSON instead.
    #[arg(long)]
    json: bool,
}

/// A probability above 0, in the forms in which people write small ones.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MaxProbability(f64);

impl FromStr for MaxProbability {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let text = text.trim();
        let value = if let Some(exponent) = text.strip_prefix("2^") {
            exponent.parse::<i32>().ok().map(power_of_two)
        } else if let Some(percent) = text.strip_suffix('%') {
            number(percent).map(|value| value / 100.0)
        } else {
            number(text)
        };
        let expected = "expected a probability such as 2^-20, 1e-6 or 0.01%, above 0 and at most 1";
        value.filter(|value| *value > 0.0 && *value <= 1.0).map(Self).ok_or(expected)
    }
}

/// The length of messages.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MessageLength {
    Blocks(u64),
    Bytes(u64),
}

impl FromStr for MessageLength {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = match text.trim().parse() {
            Ok(blocks) => Some(Self::Blocks(blocks)),
            // A fraction without a unit is refused: readers would take it for bytes, but numbers
            // without a unit are blocks.
            Err(_) if text.ends_with(|c: char| c.is_ascii_digit()) => None,
            Err(_) => text.parse().ok().map(|Quantity(Bytes(bytes))| Self::Bytes(bytes)),
        };
        length
            .filter(|length| !matches!(length, Self::Blocks(0) | Self::Bytes(0)))
            .ok_or("expected blocks as 16, or bytes as 100B or 1KiB, more than 0")
    }
}

impl MessageLength {
    /// The length in blocks of `block_bits` bits, where the last block need not be full.
    fn blocks(self, block_bits: u32) -> u128 {
        match self {
            Self::Blocks(blocks) => blocks.into(),
            Self::Bytes(bytes) => (u128::from(bytes) * 8).div_ceil(block_bits.into()),
        }
    }
}

/// The parameters that were asked for, with defaults filled in.
struct BoundsQuery {
    parameters: Parameters,
    probability: f64,
    lengths: Vec<u128>,
    messages: Option<u64>,
    verifications: u64,
    outputs: u32,
}

impl BoundsQuery {
    fn new(args: &BoundsArgs) -> Result<Self, Failure> {
        let n = args.block_bits;
        let (s, t) = (args.counter_bits.unwrap_or(n / 2), args.tag_bits.unwrap_or(n));
        let parameters = Parameters::new(n, s, t)
            .context(format_args!("block of {n} bits, counter of {s}, tag of {t}"))?;
        let mut lengths: Vec<u128> = args.length.iter().map(|length| length.blocks(n)).collect();
        if lengths.is_empty() {
            let longest = parameters.longest_message_blocks();
            lengths = [1, 4, 16, 256, 4096].into_iter().filter(|l| *l < longest).collect();
            lengths.push(longest.max(1));
        }
        Ok(Self {
            parameters,
            probability: args.probability.0,
            lengths,
            messages: args.messages,
            verifications: args.verifications.unwrap_or(0),
            outputs: args.outputs,
        })
    }

    /// The modes in the order in which they are printed: LightMAC and the rule of thumb first.
    fn modes() -> impl Iterator<Item = &'static Mode> {
        let (ours, others): (Vec<_>, Vec<_>) = MODES.iter().partition(|m| m.name == "lightmac");
        ours.into_iter().chain([&TYPICAL]).chain(others)
    }
}

/// Prints the table, or JSON.
pub(crate) fn run(args: &BoundsArgs) -> Result<(), Failure> {
    let query = BoundsQuery::new(args)?;
    let text = if args.json {
        serde_json::to_string_pretty(&as_json(&query)).context("bounds")? + "\n"
    } else {
        as_text(&query, args.sources)
    };
    std::io::stdout().write_all(text.as_bytes()).context("standard output")
}

const TITLE_WIDTH: usize = 24;
const CELL_WIDTH: usize = 11;

fn as_text(query: &BoundsQuery, sources: bool) -> String {
    let mut out = own_figures(query) + "\nMarks behind names, and blank cells:\n" + &notes(query);
    let lengths = query.lengths.iter().map(|blocks| count(*blocks)).collect::<Vec<_>>();
    let mut table = |heading: &str, cell: &dyn Fn(&Mode, u128) -> Option<String>| {
        let _ = writeln!(out, "\n{heading}");
        out += &row("message length in blocks", "keys", &lengths);
        for mode in BoundsQuery::modes() {
            let cells = query.lengths.iter();
            let cells: Vec<_> = cells.map(|l| cell(mode, *l).unwrap_or_default()).collect();
            let title = titled(mode);
            out += &row(&title, &mode.keys.to_string(), &cells);
        }
    };
    let most =
        |mode: &Mode, blocks| mode.most_messages(query.parameters, query.probability, blocks).ok();
    table("Maximum number of messages", &|mode, blocks| most(mode, blocks).map(count));
    table("Data per key", &|mode, blocks| {
        most(mode, blocks).map(|messages| {
            let bits = messages as f64 * blocks as f64 * f64::from(query.parameters.block_bits());
            bytes(bits / 8.0 / f64::from(mode.keys))
        })
    });
    if let Some(messages) = query.messages {
        table(
            &format!("An attack on {messages} messages succeeds with at most this probability"),
            &|mode, blocks| {
                let messages = messages as f64;
                mode.advantage(query.parameters, messages, blocks as f64).ok().map(probability)
            },
        );
    }
    out += "\nBounds, for q messages of l blocks of n bits\n";
    for mode in BoundsQuery::modes() {
        let title = titled(mode);
        let _ = writeln!(out, "{title:TITLE_WIDTH$} {}", mode.formula);
        if sources {
            let _ = writeln!(out, "    {}", mode.source);
        }
        if sources && !mode.remark.is_empty() {
            let _ = writeln!(out, "    {}", mode.remark);
        }
    }
    out
}

/// The figures from LightMAC's own theorems.
fn own_figures(query: &BoundsQuery) -> String {
    let BoundsQuery { parameters: p, probability: margin, verifications, .. } = *query;
    let mut out = format!(
        "{}-bit blocks, {}-bit counter, {}-bit tags; an attack succeeds with at most {}.\n\n",
        p.block_bits(),
        p.counter_bits(),
        p.tag_bits(),
        probability(margin),
    );
    let mut line = |what: &str, value: String| {
        let _ = writeln!(out, "{what:TITLE_WIDTH$} {value}");
    };
    line(
        "LightMAC's longest",
        format!(
            "{} ({} blocks)",
            bytes(p.longest_message_bits() as f64 / 8.0),
            count(p.longest_message_blocks())
        ),
    );
    let fitting = |messages: u128, condition: &str| {
        let longest = p.data_bits(messages) as f64 / 8.0;
        let (all, each) = (bytes(longest), bytes(longest / 2.0));
        let messages = count(messages);
        format!("{messages} messages{condition}: {all} of the longest, {each} for each of two keys")
    };
    let tried = match verifications {
        0 => String::new(),
        _ => format!(" and {} attempts to forge", count(verifications.into())),
    };
    let as_mac = p.most_messages_as_mac(margin, verifications as f64);
    line("  by Theorem 1", fitting(p.most_messages(margin), ""));
    line("  by q²/2ⁿ alone", fitting(p.most_messages_roughly(margin), ""));
    line("  by Theorem 2", fitting(as_mac, &tried));
    if query.outputs > 1 {
        let long = p.most_messages_of_long_output(margin, query.outputs);
        line(&format!("  with {} outputs each", query.outputs), fitting(long, ""));
    }
    if let Some(q) = query.messages {
        let messages = format!("an attack on {} messages", count(q.into()));
        let (prf, mac) = (p.prf(q as f64), p.mac(q as f64, verifications as f64));
        line("  Theorem 1", format!("{messages}: {}", probability(prf)));
        line("  Theorem 2", format!("{messages}{tried}: {}", probability(mac)));
        if query.outputs > 1 {
            let long = probability(p.long_output(q as f64, query.outputs));
            line(&format!("  {} outputs each", query.outputs), format!("{messages}: {long}"));
        }
        let calls = p.cipher_queries(q.into(), verifications.into());
        let [hash, last, verification] =
            [calls.hash, calls.finalisation, calls.verification].map(count);
        line("  plus the cipher's own", format!("PRP({hash}) + PRP({last}) + PRP({verification})"));
    }
    out
}

/// Explains the marks and the blank cells.
fn notes(query: &BoundsQuery) -> String {
    let mut out = String::new();
    for certainty in
        [Certainty::Derived, Certainty::LeadingTerm, Certainty::OrderOnly, Certainty::Unchecked]
    {
        let _ = writeln!(out, "{} {}", certainty.mark(), certainty.explanation());
    }
    let mut blank = Vec::new();
    for mode in BoundsQuery::modes() {
        let outside = query.lengths.iter().find_map(|blocks| {
            mode.most_messages(query.parameters, query.probability, *blocks).err()
        });
        if let Some(limits) = outside {
            blank.push(format!("{} is proved for {limits}", mode.title));
        }
    }
    if !blank.is_empty() {
        let _ = writeln!(out, "Blank: {}.", blank.join("; "));
    }
    out
}

/// The mode's name, with a mark if the source does not give all coefficients.
fn titled(mode: &Mode) -> String {
    format!("{} {}", mode.title, mode.certainty.mark()).trim_end().into()
}

fn row(title: &str, keys: &str, cells: &[String]) -> String {
    let mut line = format!("{title:TITLE_WIDTH$} {keys:>4}");
    for cell in cells {
        let _ = write!(line, "{cell:>CELL_WIDTH$}");
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

/// A number in full if it is short, else as a power of two.
fn count(number: u128) -> String {
    if number < 10_000_000 || number.is_power_of_two() && number < 1 << 30 {
        number.to_string()
    } else {
        power_text(number as f64)
    }
}

/// `number` as 2^x, where x has one decimal unless it is whole.
fn power_text(number: f64) -> String {
    let exponent = math::log2(number);
    if exponent == exponent.round() { format!("2^{exponent}") } else { format!("2^{exponent:.1}") }
}

fn probability(value: f64) -> String {
    if value >= 1.0 { "1".into() } else { power_text(value) }
}

fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 9] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"];
    let (mut value, mut unit) = (bytes, 0);
    // A value from 1023.5 on would be rounded to 1024, so it takes the next unit.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value >= 10_000.0 {
        return format!("{} {}", power_text(value), UNITS[unit]);
    }
    let text = format!("{value:.if_short$}", if_short = if value < 100.0 { 2 } else { 0 });
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {}", UNITS[unit])
}

fn as_json(query: &BoundsQuery) -> Value {
    let BoundsQuery { parameters: p, probability, verifications, .. } = *query;
    let of = |messages: u128| {
        let bits = p.data_bits(messages) as f64;
        json!({
            "messages": number(messages),
            "data_bytes": bits / 8.0,
            "data_bytes_per_key": bits / 16.0,
        })
    };
    let modes: Vec<Value> = BoundsQuery::modes().map(|mode| mode_as_json(query, mode)).collect();
    json!({
        "block_bits": p.block_bits(),
        "counter_bits": p.counter_bits(),
        "tag_bits": p.tag_bits(),
        "probability": probability,
        "verifications": verifications,
        "outputs": query.outputs,
        "lightmac": {
            "longest_message_bits": number(p.longest_message_bits()),
            "longest_message_blocks": number(p.longest_message_blocks()),
            "theorem_1": of(p.most_messages(probability)),
            "birthday_term": of(p.most_messages_roughly(probability)),
            "long_output": of(p.most_messages_of_long_output(probability, query.outputs)),
            "theorem_2": of(p.most_messages_as_mac(probability, verifications as f64)),
            "attack": query.messages.map(|messages| {
                let calls = p.cipher_queries(messages.into(), verifications.into());
                json!({
                    "messages": messages,
                    "theorem_1": p.prf(messages as f64),
                    "long_output": p.long_output(messages as f64, query.outputs),
                    "theorem_2": p.mac(messages as f64, verifications as f64),
                    "cipher_queries": {
                        "hash": number(calls.hash),
                        "finalisation": number(calls.finalisation),
                        "verification": number(calls.verification),
                    },
                })
            }),
        },
        "modes": modes,
    })
}

fn mode_as_json(query: &BoundsQuery, mode: &Mode) -> Value {
    let p = query.parameters;
    let lengths = query.lengths.iter().map(|blocks| {
        let most = mode.most_messages(p, query.probability, *blocks);
        let data = most
            .as_ref()
            .ok()
            .map(|messages| *messages as f64 * *blocks as f64 * f64::from(p.block_bits()) / 8.0);
        let advantage = query.messages.map(|q| mode.advantage(p, q as f64, *blocks as f64));
        json!({
            "blocks": number(*blocks),
            "most_messages": most.as_ref().ok().map(|messages| number(*messages)),
            "data_bytes": data,
            "data_bytes_per_key": data.map(|bytes| bytes / f64::from(mode.keys)),
            "advantage": advantage.and_then(Result::ok),
            "unproved": most.err().map(|reason| reason.to_string()),
        })
    });
    let terms = mode.terms().iter().map(|term| {
        json!({
            "coefficient": term.coefficient,
            "power_of_messages": term.messages,
            "power_of_length": term.length,
            "power_of_block_space": term.blocks,
        })
    });
    json!({
        "name": mode.name,
        "title": mode.title,
        "keys": mode.keys,
        "formula": mode.formula.to_string(),
        "terms": terms.collect::<Vec<_>>(),
        "certainty": mode.certainty.explanation(),
        "source": mode.source,
        "remark": mode.remark,
        "lengths": lengths.collect::<Vec<_>>(),
    })
}

/// A JSON number. Above 2^64 it is rounded, as readers of JSON do anyway.
fn number(value: u128) -> Value {
    u64::try_from(value).map_or_else(|_| json!(value as f64), |value| json!(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BoundsArgs,
    }

    fn query(line: &str) -> Result<BoundsQuery, Failure> {
        let line = Line::try_parse_from(["bounds"].into_iter().chain(line.split_whitespace()));
        BoundsQuery::new(&line.expect("well-formed").args)
    }

    #[test]
    fn the_papers_example_is_printed() {
        let asked = query("--block-bits 32 --length 1,4,16,32768 --messages 64").expect("right");
        let text = as_text(&asked, true);
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).expect(start);
        assert!(
            line("  by Theorem 1")
                .ends_with("63 messages: 7.88 MiB of the longest, 3.94 MiB for each of two keys")
        );
        assert!(
            line("  by q²/2ⁿ")
                .ends_with("64 messages: 8 MiB of the longest, 4 MiB for each of two keys")
        );
        let typical: Vec<_> = line("many modes").split_whitespace().collect();
        assert_eq!(typical[3..7], ["1", "64", "32", "16"]);
        let data = text.split("Data per key").nth(1).expect("a second table");
        let typical = data.lines().find(|line| line.starts_with("many modes")).expect("again");
        assert!(typical.contains("512 B") && typical.contains("1 KiB"), "{typical}");
        assert!(text.contains("EMAC, short messages is proved for"), "{text}");
    }

    #[test]
    fn json_has_the_same_figures() {
        let asked =
            query("--block-bits 32 --length 4 --messages 64 --verifications 3").expect("right");
        let value = as_json(&asked);
        assert_eq!(value["lightmac"]["theorem_1"]["messages"], 63);
        assert_eq!(value["lightmac"]["birthday_term"]["data_bytes_per_key"], 4_194_304.0);
        assert_eq!(value["modes"][1]["lengths"][0]["data_bytes"], 512.0);
        assert_eq!(value["modes"].as_array().map(Vec::len), Some(MODES.len() + 1));
    }

    #[test]
    fn what_lightmac_is_not_defined_for_is_refused() {
        for wrong in [
            "--block-bits 24",
            "--block-bits 33",
            "--block-bits 64 --counter-bits 33",
            "--tag-bits 0",
        ] {
            assert!(query(wrong).is_err(), "{wrong}");
        }
        assert!(query("--block-bits 128 --counter-bits 64 --tag-bits 128").is_ok());
    }

    #[test]
    fn margins_are_read_as_people_write_them() {
        assert_eq!("2^-20".parse(), Ok(MaxProbability(power_of_two(-20))));
        assert_eq!("0.5%".parse(), Ok(MaxProbability(0.005)));
        assert_eq!("1e-6".parse(), Ok(MaxProbability(1e-6)));
        assert_eq!("1".parse(), Ok(MaxProbability(1.0)));
        for wrong in ["0", "-1", "2^1", "2^-2000", "nan", "inf", "2^x", "", "%"] {
            assert!(wrong.parse::<MaxProbability>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn lengths_are_blocks_or_bytes() {
        assert_eq!("16".parse(), Ok(MessageLength::Blocks(16)));
        assert_eq!("1KiB".parse(), Ok(MessageLength::Bytes(1024)));
        assert_eq!("17B".parse::<MessageLength>().map(|length| length.blocks(128)), Ok(2));
        assert_eq!("16B".parse::<MessageLength>().map(|length| length.blocks(128)), Ok(1));
        for wrong in ["0", "0B", "-1", "1.5", "many", ""] {
            assert!(wrong.parse::<MessageLength>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn long_outputs_have_lines_of_their_own() {
        let text = |line: &str| as_text(&query(line).expect("right"), false);
        assert!(!text("").contains("outputs each"));
        let long = text("--outputs 3 --messages 1000");
        assert_eq!(long.matches("3 outputs each").count(), 2, "{long}");
    }

    #[test]
    fn numbers_stay_short() {
        assert_eq!(count(9_999_999), "9999999");
        assert_eq!(count(1 << 62), "2^62");
        assert_eq!(count(u128::MAX), "2^128");
        assert_eq!(bytes(1536.0), "1.5 KiB");
        assert_eq!(bytes(math::powi(2.0, 100)), "2^20 YiB");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1024.0 * 1024.0 - 1.0), "1 MiB");
        assert_eq!(probability(power_of_two(-20)), "2^-20");
        assert_eq!(probability(3.0), "1");
    }
}
