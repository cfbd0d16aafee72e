//! The modes of the paper's Table 2: their bounds as powers of the message length.

use super::{Parameters, largest, power, power_of_two};
use core::fmt;

/// A mode of operation that makes a MAC from a block cipher, and its proven bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// A short name for scripts.
    pub name: &'static str,
    /// The common name.
    pub title: &'static str,
    /// Number of independent keys.
    pub keys: u32,
    /// The bound on an attack's advantage.
    pub formula: Formula,
    /// How certain the coefficients are.
    pub certainty: Certainty,
    /// Author, title and venue, and the theorem if it is known.
    pub source: &'static str,
    /// Conditions and later results; may be empty.
    pub remark: &'static str,
    range: Range,
}

/// A bound on the advantage over a random function, for q messages of at most l blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Formula {
    /// The sum of the terms.
    Sum(&'static [Term]),
    /// The sum of the terms, with 2^n − k·l in place of 2^n.
    Reduced {
        /// The terms of the sum.
        terms: &'static [Term],
        /// The factor k.
        lengths: f64,
    },
    /// Theorem 1 of the LightMAC paper, whose small terms depend on n alone.
    LightMac,
}

/// One term, `coefficient`·q^`messages`·l^`length` / 2^(`blocks`·n).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// The coefficient of the term.
    pub coefficient: f64,
    /// The power of q.
    pub messages: u32,
    /// The power of l.
    pub length: u32,
    /// The power of 2^n in the denominator.
    pub blocks: u32,
}

/// How certain the coefficients of a bound are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// All coefficients are as the source states them.
    Stated,
    /// The coefficients follow from the source's proof in one step, which the remark names.
    Derived,
    /// The source's leading term with its coefficient. Smaller terms are left out.
    LeadingTerm,
    /// Only the order of the source's bound is known to us. Every coefficient is taken as 1.
    OrderOnly,
    /// The coefficients are from memory and have not been checked against the source.
    Unchecked,
}

/// The condition that messages violate, so that a bound is not proved for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unproved {
    /// Messages are longer than the bound allows.
    TooLong {
        /// The largest number of blocks in a message.
        blocks: u128,
    },
    /// There are fewer messages than the square of the number of blocks in one.
    TooFewMessages,
}

/// The messages for which a bound holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Range {
    Everywhere,
    /// l ≤ 2^(numerator·n/denominator).
    Short {
        numerator: u32,
        denominator: u32,
    },
    /// l ≤ 2^(n/8) and q ≥ l².
    ShortAndMany,
    /// The messages that the counter allows.
    Counter,
}

/// The term `coefficient`·q^`messages`·l^`length` / 2^(`blocks`·n).
const fn term(coefficient: f64, messages: u32, length: u32, blocks: u32) -> Term {
    Term { coefficient, messages, length, blocks }
}

/// The paper's equation (1), q²·l/2^n, which is approximately the bound of most modes.
pub const TYPICAL: Mode = Mode {
    name: "typical",
    title: "many modes, roughly",
    keys: 1,
    formula: Formula::Sum(&[term(1.0, 2, 1, 1)]),
    certainty: Certainty::Stated,
    source: "Luykx, Preneel, Tischhauser, Yasuda: A MAC Mode for Lightweight Block Ciphers, FSE 2016, equation (1)",
    remark: "a rule of thumb, not a theorem",
    range: Range::Everywhere,
};

/// The bound of XCBC and TMAC, which share a proof.
const THREE_KEY_CBC: Formula = Formula::Sum(&[term(1.0, 2, 1, 1), term(1.0, 2, 4, 2)]);

/// The modes of Table 2, and the two improved bounds of section 1.2, each with its source.
pub const MODES: &[Mode] = &[
    Mode {
        name: "cbc-mac",
        title: "CBC-MAC",
        keys: 1,
        formula: Formula::Sum(&[term(12.0, 2, 1, 1), term(64.0, 2, 4, 2)]),
        certainty: Certainty::Unchecked,
        source: "Bellare, Pietrzak, Rogaway: Improved Security Analyses for CBC MACs, CRYPTO 2005, Theorem 1",
        remark: "only where no message is a prefix of another; Jha and Nandi (Revisiting Structure Graphs, J. Math. Cryptology 2016) found a gap in the proof and closed it, for about the same bound",
        range: Range::Everywhere,
    },
    Mode {
        name: "emac",
        title: "EMAC",
        keys: 2,
        formula: Formula::Sum(&[term(1.0, 2, 1, 1), term(64.0, 2, 4, 2)]),
        certainty: Certainty::Unchecked,
        source: "Bellare, Pietrzak, Rogaway: Improved Security Analyses for CBC MACs, CRYPTO 2005; Pietrzak: A Tight Bound for EMAC, ICALP 2006",
        remark: "d'(l), the most divisors of a number up to l, is replaced by l as in the paper; Jha and Nandi (J. Math. Cryptology 2016) repair the proofs",
        range: Range::Everywhere,
    },
    Mode {
        name: "emac-short",
        title: "EMAC, short messages",
        keys: 2,
        formula: Formula::Sum(&[term(16.0, 2, 0, 1), term(128.0, 2, 8, 2)]),
        certainty: Certainty::Stated,
        source: "Pietrzak: A Tight Bound for EMAC, ICALP 2006, as given in section 1.2 of the LightMAC paper",
        remark: "for l ≤ 2^(n/8) and q ≥ l²",
        range: Range::ShortAndMany,
    },
    Mode {
        name: "omac",
        title: "OMAC, CMAC",
        keys: 1,
        formula: Formula::Sum(&[term(4.0, 2, 1, 1)]),
        certainty: Certainty::LeadingTerm,
        source: "Nandi: Improved Security Analysis for OMAC as a Pseudorandom Function, J. Math. Cryptology 2009 (ePrint 2007/292: roughly 4·q·σ/2^n)",
        remark: "Chattopadhyay, Jha and Nandi (ASIACRYPT 2022) later proved O(q²/2^n + q·l²/2^n)",
        range: Range::Everywhere,
    },
    Mode {
        name: "xcbc",
        title: "XCBC",
        keys: 3,
        formula: THREE_KEY_CBC,
        certainty: Certainty::OrderOnly,
        source: "Minematsu, Matsushima: New Bounds for PMAC, TMAC, and XCBC, FSE 2007",
        remark: "Chattopadhyay, Jha and Nandi (ASIACRYPT 2022) later proved a better order",
        range: Range::Everywhere,
    },
    Mode {
        name: "tmac",
        title: "TMAC",
        keys: 2,
        formula: THREE_KEY_CBC,
        certainty: Certainty::OrderOnly,
        source: "Minematsu, Matsushima: New Bounds for PMAC, TMAC, and XCBC, FSE 2007",
        remark: "Chattopadhyay, Jha and Nandi (ASIACRYPT 2022) later proved a better order",
        range: Range::Everywhere,
    },
    Mode {
        name: "pmac",
        title: "PMAC",
        keys: 1,
        formula: Formula::Sum(&[term(5.0, 2, 1, 1), term(-3.5, 2, 0, 1)]),
        certainty: Certainty::Stated,
        source: "Nandi, Mandal: Improved Security Analysis of PMAC, J. Math. Cryptology 2008",
        remark: "with all messages of l blocks; they prove (5·q·σ − 3.5·q²)/2^n for σ blocks in all",
        range: Range::Everywhere,
    },
    Mode {
        name: "pmac-2007",
        title: "PMAC, FSE 2007",
        keys: 1,
        formula: Formula::Reduced { terms: &[term(5.0, 2, 1, 1)], lengths: 2.0 },
        certainty: Certainty::Stated,
        source: "Minematsu, Matsushima: New Bounds for PMAC, TMAC, and XCBC, FSE 2007, as quoted by Nandi and Mandal",
        remark: "5·l·q²/(2^n − 2·l)",
        range: Range::Everywhere,
    },
    Mode {
        name: "pmac-parity",
        title: "PMAC with Parity",
        keys: 4,
        formula: Formula::Sum(&[term(1.0, 2, 0, 1), term(1.0, 2, 2, 2)]),
        certainty: Certainty::OrderOnly,
        source: "Yasuda: PMAC with Parity: Minimizing the Query-Length Influence, CT-RSA 2012",
        remark: "",
        range: Range::Everywhere,
    },
    Mode {
        name: "pmacx",
        title: "PMACX",
        keys: 2,
        formula: Formula::Sum(&[term(1.0, 2, 0, 1), term(1.0, 2, 2, 2)]),
        certainty: Certainty::OrderOnly,
        source: "Zhang: Using an Error-Correction Code for Fast, Beyond-Birthday-Bound Authentication, CT-RSA 2015",
        remark: "with a code of distance 3; O(q²/2^n + q·σ·l^((d−1)/2)/2^((d+1)·n/2)) for distance d, as we read his slides",
        range: Range::Everywhere,
    },
    Mode {
        name: "sum-of-cbcs",
        title: "Sum of CBCs",
        keys: 4,
        formula: Formula::Sum(&[term(40.0, 3, 3, 2)]),
        certainty: Certainty::Stated,
        source: "Yasuda: The Sum of CBC MACs Is a Secure PRF, CT-RSA 2010, as given in section 1.2 of the LightMAC paper",
        remark: "for l ≤ 2^(2n/5); his bound for longer messages is left out, not being at hand",
        range: Range::Short { numerator: 2, denominator: 5 },
    },
    Mode {
        name: "pmac-plus",
        title: "PMAC_Plus",
        keys: 3,
        formula: Formula::Sum(&[term(4.0, 1, 1, 1), term(27.0, 3, 3, 2)]),
        certainty: Certainty::Unchecked,
        source: "Yasuda: A New Variant of PMAC: Beyond the Birthday Bound, CRYPTO 2011",
        remark: "",
        range: Range::Everywhere,
    },
    Mode {
        name: "3kf9",
        title: "3kf9",
        keys: 3,
        formula: Formula::Sum(&[term(1.0, 1, 1, 1), term(1.0, 3, 3, 2)]),
        certainty: Certainty::OrderOnly,
        source: "Zhang, Wu, Sui, Wang: 3kf9: Enhancing 3GPP-MAC beyond the Birthday Bound, ASIACRYPT 2012",
        remark: "",
        range: Range::Everywhere,
    },
    Mode {
        name: "counter-sum",
        title: "Protected counter sum",
        keys: 1,
        formula: Formula::Sum(&[term(1.0, 2, 0, 1), term(2.0, 2, 1, 1), term(2.0, 2, 2, 1)]),
        certainty: Certainty::Derived,
        source: "Bernstein: How to Stretch Random Functions: The Security of Protected Counter Sums, J. Cryptology 1999",
        remark: "his bound for random functions, at most q²/2^(n+1), plus the switch to a permutation for q·(2l + 1) calls with a counter of half a block",
        range: Range::Everywhere,
    },
    Mode {
        name: "lightmac",
        title: "LightMAC",
        keys: 2,
        formula: Formula::LightMac,
        certainty: Certainty::Stated,
        source: "Luykx, Preneel, Tischhauser, Yasuda: A MAC Mode for Lightweight Block Ciphers, FSE 2016, Theorem 1",
        remark: "up to the length that the counter allows",
        range: Range::Counter,
    },
];

impl Mode {
    /// The mode with this short name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        MODES.iter().find(|mode| mode.name == name)
    }

    /// The bound on the advantage with `messages` messages of at most `blocks` blocks of n bits. A
    /// value above 1 has no meaning.
    ///
    /// Both numbers may be fractions, for smooth curves.
    ///
    /// # Errors
    ///
    /// Fails if the bound is not proved for this number or this length of messages.
    pub fn advantage(
        &self,
        parameters: Parameters,
        messages: f64,
        blocks: f64,
    ) -> Result<f64, Unproved> {
        self.check_length(parameters, blocks)?;
        if self.range == Range::ShortAndMany && messages < blocks * blocks {
            return Err(Unproved::TooFewMessages);
        }
        Ok(self.evaluate(parameters, messages, blocks))
    }

    /// The largest number of messages of `blocks` blocks that one key may tag so that an attack
    /// succeeds with at most this probability; 0 if not even one is allowed.
    ///
    /// # Errors
    ///
    /// Fails if the bound is not proved for such messages.
    pub fn most_messages(
        &self,
        parameters: Parameters,
        probability: f64,
        blocks: u128,
    ) -> Result<u128, Unproved> {
        self.check_length(parameters, blocks as f64)?;
        let most = largest(parameters.distinct(), |messages| {
            self.evaluate(parameters, messages as f64, blocks as f64) <= probability
        });
        if self.range == Range::ShortAndMany && (most as f64) < power(blocks as f64, 2) {
            return Err(Unproved::TooFewMessages);
        }
        Ok(most)
    }

    /// The largest length in blocks of n bits such that one key may tag `messages` messages and an
    /// attack succeeds with at most this probability; 0 if not even messages of one block are
    /// allowed.
    pub fn longest_message(
        &self,
        parameters: Parameters,
        probability: f64,
        messages: u128,
    ) -> u128 {
        largest(self.longest_proved(parameters), |blocks| {
            self.advantage(parameters, messages as f64, blocks as f64)
                .is_ok_and(|advantage| advantage <= probability)
        })
    }

    /// The terms of the bound. For LightMAC, the small terms that depend on n are left out;
    /// [`Parameters::prf`] includes them.
    pub const fn terms(&self) -> &'static [Term] {
        match self.formula {
            Formula::Sum(terms) | Formula::Reduced { terms, .. } => terms,
            Formula::LightMac => const { &[term(1.0, 2, 0, 1)] },
        }
    }

    /// The largest number of blocks in a message for which the bound is proved.
    pub fn longest_proved(&self, parameters: Parameters) -> u128 {
        let n = parameters.block_bits();
        match self.range {
            Range::Everywhere => parameters.distinct(),
            Range::Counter => parameters.longest_message_blocks(),
            Range::ShortAndMany => 1 << (n / 8),
            Range::Short { numerator, denominator } => {
                let limit = power_of_two((numerator * n) as i32);
                largest(parameters.distinct(), |l| power(l as f64, denominator) <= limit)
            }
        }
    }

    fn check_length(&self, parameters: Parameters, blocks: f64) -> Result<(), Unproved> {
        let longest = self.longest_proved(parameters);
        if blocks > longest as f64 { Err(Unproved::TooLong { blocks: longest }) } else { Ok(()) }
    }

    fn evaluate(&self, parameters: Parameters, messages: f64, blocks: f64) -> f64 {
        let (terms, lengths) = match self.formula {
            Formula::Sum(terms) => (terms, 0.0),
            Formula::Reduced { terms, lengths } => (terms, lengths),
            Formula::LightMac => return parameters.prf(messages),
        };
        let space = parameters.blocks() - lengths * blocks;
        if space <= 0.0 {
            return f64::INFINITY;
        }
        let value = |term: &Term| {
            term.coefficient * power(messages, term.messages) * power(blocks, term.length)
                / power(space, term.blocks)
        };
        terms.iter().map(value).sum()
    }
}

impl Certainty {
    /// An explanation in one line.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Stated => "all coefficients as the source states them",
            Self::Derived => "follows from the source in one step, named in the remark",
            Self::LeadingTerm => "the source's leading term; smaller ones are left out",
            Self::OrderOnly => "the source's order alone, with every coefficient taken as 1",
            Self::Unchecked => "coefficients from memory, not checked against the source",
        }
    }

    /// An explanation in a few words, for a legend.
    pub const fn in_brief(self) -> &'static str {
        match self {
            Self::Stated => "as stated",
            Self::Derived => "derived",
            Self::LeadingTerm => "leading term",
            Self::OrderOnly => "order only",
            Self::Unchecked => "from memory",
        }
    }

    /// The mark behind a mode's name; empty if all coefficients are as stated.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Stated => "",
            Self::Derived => "+",
            Self::LeadingTerm => "~",
            Self::OrderOnly => "*",
            Self::Unchecked => "?",
        }
    }
}

impl fmt::Display for Formula {
    /// Writes a bound such as `12·l·q²/2ⁿ + 64·l⁴·q²/2²ⁿ`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (terms, lengths) = match *self {
            Self::LightMac => return f.write_str("(1 + ε)·q²/2ⁿ"),
            Self::Sum(terms) => (terms, 0.0),
            Self::Reduced { terms, lengths } => (terms, lengths),
        };
        for (i, term) in terms.iter().enumerate() {
            let negative = term.coefficient < 0.0;
            f.write_str(match (i, negative) {
                (0, false) => "",
                (0, true) => "−",
                (_, false) => " + ",
                (_, true) => " − ",
            })?;
            let coefficient = if negative { -term.coefficient } else { term.coefficient };
            Term { coefficient, ..*term }.write(f, lengths)?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    /// Writes a term such as `64·l⁴·q²/2²ⁿ`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0.0)
    }
}

impl Term {
    /// Writes the term with 2^n − `lengths`·l in the denominator.
    fn write(&self, f: &mut fmt::Formatter<'_>, lengths: f64) -> fmt::Result {
        if self.coefficient != 1.0 {
            write!(f, "{}·", self.coefficient)?;
        }
        if self.length > 0 {
            write!(f, "l{}·", Raised(self.length))?;
        }
        write!(f, "q{}/", Raised(self.messages))?;
        if lengths == 0.0 {
            write!(f, "2{}ⁿ", Raised(self.blocks))
        } else {
            write!(f, "(2ⁿ − {lengths}·l){}", Raised(self.blocks))
        }
    }
}

/// An exponent in superscript; nothing for 1.
struct Raised(u32);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: [&str; 10] = ["⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"];
        match self.0 {
            1 => Ok(()),
            exponent @ 0..=9 => f.write_str(DIGITS[exponent as usize]),
            exponent => write!(f, "^{exponent}"),
        }
    }
}

impl fmt::Display for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { blocks } => write!(f, "messages of at most {blocks} blocks"),
            Self::TooFewMessages => f.write_str("at least l² messages of l blocks"),
        }
    }
}

impl core::error::Error for Unproved {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MILLIONTH: f64 = power_of_two(-20);

    fn papers() -> Parameters {
        Parameters::new(32, 16, 32).expect("the paper's own example")
    }

    fn mode(name: &str) -> &'static Mode {
        Mode::by_name(name).expect("the name is that of a mode")
    }

    #[test]
    fn the_papers_example() {
        let data_bits = |blocks| {
            let messages = TYPICAL.most_messages(papers(), MILLIONTH, blocks).expect("proved");
            (messages, messages * blocks * 32)
        };
        assert_eq!(data_bits(1), (64, 64 * 32));
        assert_eq!(data_bits(4), (32, 512 * 8));
        assert_eq!(data_bits(16), (16, 1024 * 8));
        let longest = papers().longest_message_blocks();
        assert_eq!(mode("lightmac").most_messages(papers(), MILLIONTH, longest), Ok(63));
        assert!(mode("lightmac").most_messages(papers(), MILLIONTH, longest + 1).is_err());
    }

    #[test]
    fn names_are_unique_and_sources_are_named() {
        for (i, mode) in MODES.iter().enumerate() {
            assert!(MODES[..i].iter().all(|other| other.name != mode.name), "{}", mode.name);
            assert!(mode.source.contains(": ") && mode.keys > 0, "{}", mode.name);
            assert_eq!(Mode::by_name(mode.name), Some(mode));
        }
        assert_eq!(Mode::by_name("hmac"), None);
    }

    #[test]
    fn ranges_end_where_the_sources_say() {
        let short = mode("emac-short");
        assert_eq!(short.longest_proved(papers()), 16);
        assert!(short.advantage(papers(), 256.0, 16.0).is_ok());
        assert_eq!(short.advantage(papers(), 255.0, 16.0), Err(Unproved::TooFewMessages));
        let too_long = Err(Unproved::TooLong { blocks: 16 });
        assert_eq!(short.advantage(papers(), 1000.0, 17.0), too_long);
        assert_eq!(short.most_messages(papers(), MILLIONTH, 2), Ok(15));
        assert_eq!(short.most_messages(papers(), MILLIONTH, 5), Err(Unproved::TooFewMessages));
        // The limits are 2^(2·40/5) and 2^(2·32/5).
        let sum = mode("sum-of-cbcs");
        let forty = Parameters::new(40, 20, 40).expect("permitted");
        assert_eq!(sum.longest_proved(forty), 1 << 16);
        assert_eq!(sum.longest_proved(papers()), 7131);
        let vacuous = mode("pmac-2007").advantage(papers(), 1.0, power_of_two(31));
        assert_eq!(vacuous, Ok(f64::INFINITY));
    }

    #[test]
    fn known_values() {
        let at = |name: &str, q, l| mode(name).advantage(papers(), q, l).expect("proved");
        let n = power_of_two(32);
        assert_eq!(at("pmac", 10.0, 3.0), 1150.0 / n);
        assert_eq!(at("omac", 10.0, 3.0), 1200.0 / n);
        assert_eq!(at("cbc-mac", 1.0, 2.0), 24.0 / n + 1024.0 / n / n);
        assert_eq!(at("counter-sum", 1.0, 1.0), 5.0 / n);
        assert_eq!(at("3kf9", 2.0, 2.0), 4.0 / n + 64.0 / n / n);
    }

    #[test]
    fn formulas_read_as_in_the_literature() {
        let written = |name: &str| std::format!("{}", mode(name).formula);
        assert_eq!(written("cbc-mac"), "12·l·q²/2ⁿ + 64·l⁴·q²/2²ⁿ");
        assert_eq!(written("pmac"), "5·l·q²/2ⁿ − 3.5·q²/2ⁿ");
        assert_eq!(written("pmac-2007"), "5·l·q²/(2ⁿ − 2·l)");
        assert_eq!(written("3kf9"), "l·q/2ⁿ + l³·q³/2²ⁿ");
        assert_eq!(std::format!("{}", term(-1.5, 12, 0, 1)), "-1.5·q^12/2ⁿ");
    }

    #[test]
    fn lightmac_alone_has_no_power_of_the_length() {
        let flat = MODES.iter().filter(|mode| mode.terms().iter().all(|term| term.length == 0));
        assert_eq!(flat.map(|mode| mode.name).collect::<std::vec::Vec<_>>(), ["lightmac"]);
    }

    proptest! {
        #[test]
        fn more_or_longer_messages_never_help(
            index in 0..MODES.len(), bytes in 4u32..=16, q in 1.0..1e15, l in 1.0..1e12,
        ) {
            let parameters = Parameters::new(bytes * 8, bytes * 4, bytes * 8).unwrap();
            let mode = &MODES[index];
            if let Ok(advantage) = mode.advantage(parameters, q, l) {
                prop_assert!(advantage > 0.0);
                if let Ok(more) = mode.advantage(parameters, q * 2.0, l) {
                    // The denominator may become zero. Then the bound of a single message is
                    // infinite as well.
                    prop_assert!(advantage < more || advantage.is_infinite());
                }
                if let Ok(longer) = mode.advantage(parameters, q, l * 2.0) {
                    prop_assert!(advantage <= longer);
                }
            }
        }

        #[test]
        fn most_messages_and_longest_message_agree(
            index in 0..MODES.len(), bytes in 4u32..=6, messages in 1u128..5000,
        ) {
            let parameters = Parameters::new(bytes * 8, bytes * 4, bytes * 8).unwrap();
            let mode = &MODES[index];
            let longest = mode.longest_message(parameters, MILLIONTH, messages);
            if longest > 0 {
                let most = mode.most_messages(parameters, MILLIONTH, longest).expect("proved");
                prop_assert!(most >= messages, "{}: {messages} of {longest}: {most}", mode.name);
                let longer = mode.advantage(parameters, messages as f64, longest as f64 + 1.0);
                prop_assert!(longer.is_err() || longer.unwrap() > MILLIONTH);
            }
        }
    }
}
