//! Rules about the language of comments, messages and documents (CONTRIBUTING.md, "Language").
//!
//! The word list finds sentences that have no subject, and quantities without a name. It reads
//! comments and string literals of Rust sources, comments of scripts and settings, and documents
//! outside of code blocks. It is no judge of good language: it only finds habits that were bad.

use crate::process::{capture, command, workspace};
use std::fs;

/// Words that begin a clause and, at the head of a sentence, leave its subject out.
const HEADLESS: &[&str] = &["Of", "Who", "Whom", "Whose"];
/// Words that point at a noun: one of [`NO_NOUNS`] or a stop behind them shows that it is missing.
const POINTERS: &[&str] = &["That", "Those", "Which", "The same"];
const NO_NOUNS: &[&str] = &[
    "a", "again", "all", "alone", "an", "and", "are", "as", "at", "before", "but", "by", "can",
    "come", "comes", "did", "do", "does", "for", "from", "goes", "had", "has", "have", "if", "in",
    "is", "it", "may", "must", "no", "none", "nothing", "of", "on", "one", "or", "over", "that",
    "the", "there", "to", "too", "two", "under", "was", "were", "what", "when", "where", "which",
    "who", "whose", "will", "with", "without", "would", "after", "here",
];
/// "That is why" and "That is, ..." are whole sentences.
const WHOLE: &[&str] = &["That is why ", "That is, "];
/// What follows "so" where a quantity has no name, unless a comparison follows.
const QUANTITIES: &[&str] = &["few", "little", "long", "many", "much", "often"];
/// Phrases that stand for a word of the field, and that word. In two halves, so that this file does
/// not find itself.
const PHRASES: &[(&str, &str)] = &[
    (concat!("put", " out"), "evicted"),
    (concat!("hung", " up"), "closed the connection"),
    (concat!("hangs", " up"), "closes the connection"),
];
/// First words of comments of two words that name nothing.
const POSSESSIVES: &[&str] = &["All", "Both", "His", "Its", "Such", "Their", "These", "This"];
/// Whole comments that name nothing.
const EMPTY: &[&str] = &["As above", "Likewise", "Of these", "Same", "The same", "Which"];

/// Sentences that are right as they are: path, and words of the sentence.
const ALLOWED: &[(&str, &str)] = &[];
/// What is not read: the history of changes, and the word list itself.
const UNREAD: &[&str] = &["CHANGELOG.md", "xtask/src/lint/language.rs"];

/// A paragraph of text, with the line where it begins.
#[derive(Debug, PartialEq)]
struct Paragraph {
    line: usize,
    is_message: bool,
    text: String,
}

pub(super) fn check() -> Result<(), String> {
    let listed =
        capture(command("git", &["ls-files", "--cached", "--others", "--exclude-standard"]))?;
    let mut faults = Vec::new();
    for name in listed.lines().filter(|name| !UNREAD.contains(name)) {
        // A file that is deleted and not yet committed is listed as well; pictures are no text.
        let Ok(text) = fs::read_to_string(workspace().join(name)) else { continue };
        for paragraph in paragraphs(name, &text) {
            let is_allowed = |fault: &Fault<'_>| {
                ALLOWED.iter().any(|(path, words)| *path == name && fault.sentence.contains(words))
            };
            let found = faults_in(&paragraph).into_iter().filter(|fault| !is_allowed(fault));
            faults.extend(found.map(|Fault { rule, sentence }| {
                let start: String = sentence.chars().take(100).collect();
                format!("{name}:{}: {rule}: {start}", paragraph.line)
            }));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn paragraphs(name: &str, text: &str) -> Vec<Paragraph> {
    match name.rsplit('.').next() {
        Some("rs") => of_rust(text),
        Some("md") => of_document(text),
        Some("conf" | "py" | "service" | "sh" | "toml") => of_script(text),
        _ => Vec::new(),
    }
}

/// Collects lines into paragraphs.
#[derive(Default)]
struct Collector {
    done: Vec<Paragraph>,
    open: Option<Paragraph>,
}

impl Collector {
    fn add(&mut self, line: usize, text: &str) {
        match &mut self.open {
            Some(open) => {
                open.text.push(' ');
                open.text.push_str(text.trim());
            }
            None => {
                self.open =
                    Some(Paragraph { line, is_message: false, text: text.trim().to_owned() });
            }
        }
    }

    fn end(&mut self) {
        self.done.extend(self.open.take());
    }

    fn finish(mut self) -> Vec<Paragraph> {
        self.end();
        self.done
    }
}

fn of_rust(text: &str) -> Vec<Paragraph> {
    let mut collector = Collector::default();
    let mut last_kind = "";
    for (line, content) in (1..).zip(text.lines()) {
        let code = content.trim_start();
        let kind = ["///", "//!", "//"].into_iter().find(|kind| code.starts_with(kind));
        let comment = kind.map(|kind| code[kind.len()..].trim()).filter(|text| !text.is_empty());
        if let (Some(kind), Some(comment)) = (kind, comment) {
            if kind != last_kind || is_item(comment) {
                collector.end();
            }
            last_kind = kind;
            collector.add(line, item_text(comment));
            continue;
        }
        collector.end();
        last_kind = "";
        if kind.is_none() {
            if let Some((_, comment)) = code.split_once(" // ")
                && !comment.contains('"')
            {
                collector.add(line, comment);
                collector.end();
            }
            let messages = literals(code).filter(|text| text.contains(' '));
            collector.done.extend(messages.map(|text| Paragraph { line, is_message: true, text }));
        }
    }
    collector.finish()
}

/// The string literals that begin and end in a line.
fn literals(code: &str) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    let mut chars = code.chars();
    while let Some(c) = chars.next() {
        match (&mut open, c) {
            (Some(text), '\\') => text.extend(chars.next()),
            (Some(_), '"') => found.extend(open.take()),
            (Some(text), c) => text.push(c),
            (None, '"') => open = Some(String::new()),
            (None, _) => {}
        }
    }
    found.into_iter()
}

fn of_document(text: &str) -> Vec<Paragraph> {
    let mut collector = Collector::default();
    let mut is_code = false;
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || content.is_empty() || content.starts_with("```") {
            collector.end();
        } else if let Some(row) = content.strip_prefix('|') {
            collector.end();
            for cell in row.split('|') {
                collector.add(line, cell);
                collector.end();
            }
        } else {
            if is_item(content) || content.starts_with(['#', '>']) {
                collector.end();
            }
            collector.add(line, item_text(content.trim_start_matches(['#', '>'])));
        }
    }
    collector.finish()
}

fn of_script(text: &str) -> Vec<Paragraph> {
    let mut collector = Collector::default();
    for (line, content) in (1..).zip(text.lines()) {
        match content.trim_start().strip_prefix("# ") {
            Some(comment) => collector.add(line, comment),
            None => collector.end(),
        }
    }
    collector.finish()
}

/// Whether a line begins an item of a list.
fn is_item(text: &str) -> bool {
    item_text(text).len() < text.len()
}

/// What stands in an item of a list.
fn item_text(text: &str) -> &str {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    match (number.len() < text.len()).then(|| number.strip_prefix(". ")).flatten() {
        Some(rest) => rest,
        None => ["- ", "* "].iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text),
    }
}

/// A sentence that breaks a rule.
#[derive(Debug)]
struct Fault<'a> {
    rule: String,
    sentence: &'a str,
}

fn faults_in(paragraph: &Paragraph) -> Vec<Fault<'_>> {
    let mut faults = Vec::new();
    let text = &*paragraph.text;
    let fault = |rule: String, sentence| Fault { rule, sentence };
    if !paragraph.is_message && names_nothing(text) {
        faults.push(fault("a comment that names nothing".into(), text));
    }
    for sentence in sentences(text) {
        let head = sentence.trim_start_matches(['*', '`', '_', '"', '(', '[']);
        let is_question = sentence.ends_with('?');
        if let Some(word) =
            HEADLESS.iter().find(|word| begins_with(head, word)).filter(|_| !is_question)
        {
            faults.push(fault(format!("a sentence begins with {word:?}"), sentence));
        }
        let pointer = POINTERS.iter().find(|word| begins_with(head, word));
        if let Some(word) = pointer
            && !paragraph.is_message
            && !is_question
            && !WHOLE.iter().any(|whole| head.starts_with(whole))
            && lacks_noun(&head[word.len()..])
        {
            faults.push(fault(format!("{word:?} without its noun"), sentence));
        }
        if let Some(words) = nameless_quantity(sentence) {
            faults.push(fault(format!("{words:?} in place of a quantity's name"), sentence));
        }
        for (phrase, better) in PHRASES {
            if holds_words(sentence, phrase) {
                faults.push(fault(format!("{phrase:?}: say {better:?}"), sentence));
            }
        }
    }
    faults
}

/// The text cut behind each stop that a capital letter follows.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut ends: Vec<_> = text
        .match_indices(['.', '!', '?', ':', ';'])
        .filter(|(at, _)| {
            let rest = &text[at + 1..];
            let next = rest.trim_start();
            rest.starts_with(' ')
                && next.starts_with(|c: char| c.is_uppercase() || "`\"*(".contains(c))
        })
        .map(|(at, _)| at + 1)
        .collect();
    ends.push(text.len());
    let mut from = 0;
    ends.into_iter().map(move |end| {
        let sentence = text[from..end].trim();
        from = end;
        sentence
    })
}

fn begins_with(sentence: &str, word: &str) -> bool {
    let rest = sentence.strip_prefix(word);
    rest.is_some_and(|rest| {
        !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '\'')
    })
}

/// Whether the words stand in the sentence, and not as parts of longer words.
fn holds_words(sentence: &str, words: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    sentence.match_indices(words).any(|(at, _)| {
        !sentence[..at].ends_with(is_part) && !sentence[at + words.len()..].starts_with(is_part)
    })
}

/// Whether what follows a pointing word cannot be its noun.
fn lacks_noun(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(' ') else {
        return rest.is_empty() || rest.starts_with(['.', ',', ':', ';']);
    };
    let word: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
    NO_NOUNS.contains(&&*word)
}

/// "so long" and the like, unless "as" or "that" follows.
fn nameless_quantity(sentence: &str) -> Option<String> {
    let plain = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let words: Vec<_> = sentence.split_whitespace().collect();
    let at = words.windows(2).position(|pair| {
        plain(pair[0]) == "so"
            && pair[0].ends_with(['o', 'O'])
            && QUANTITIES.contains(&&*plain(pair[1]))
    });
    let is_comparison = |at: usize| {
        words[at + 1].ends_with(char::is_alphabetic)
            && words.get(at + 2).is_some_and(|word| ["as", "that"].contains(&&*plain(word)))
    };
    at.filter(|at| !is_comparison(*at)).map(|at| words[at..=at + 1].join(" "))
}

/// Whether a whole comment is like "The same." or "Its name."
fn names_nothing(text: &str) -> bool {
    let text = text.trim_end_matches('.');
    let words: Vec<_> = text.split(' ').collect();
    EMPTY.contains(&text)
        || matches!(&words[..], [first, second]
            if POSSESSIVES.contains(first) && second.chars().all(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<(usize, String)> {
        let paragraphs = paragraphs(name, text);
        let faults = |paragraph: &Paragraph| {
            let line = paragraph.line;
            faults_in(paragraph)
                .into_iter()
                .map(move |fault| (line, fault.rule))
                .collect::<Vec<_>>()
        };
        paragraphs.iter().flat_map(faults).collect()
    }

    fn is_found(comment: &str) -> bool {
        let in_rust = found("x.rs", &format!("/// {comment}\nfn x() {{}}\n"));
        assert_eq!(in_rust.is_empty(), found("x.md", comment).is_empty(), "{comment}");
        !in_rust.is_empty()
    }

    #[test]
    fn sentences_without_a_subject_are_found() {
        for wrong in [
            "Of two, the first.",
            "A set. Who asks gets it.",
            "Whose key it is.",
            "Those of the peer.",
            "That of a sender.",
            "The same, with a tag.",
            "The same.",
            "Its name.",
            "Waits so long.",
            "At most so many are kept.",
            "The member is put out.",
        ] {
            assert!(is_found(wrong), "{wrong}");
        }
    }

    #[test]
    fn whole_sentences_are_not_found() {
        for right in [
            "Often it waits.",
            "Whoever asks gets it.",
            "Those records are dropped.",
            "That record is dropped. That is why it is not counted.",
            "The same key opens both.",
            "Who opens it?",
            "As long as it waits, and so often that it pays, so long as there is room.",
            "The number of the records.",
            "Its name is short.",
            "It put outer brackets there.",
        ] {
            assert!(!is_found(right), "{right}");
        }
    }

    #[test]
    fn comments_are_read_as_paragraphs_and_code_is_not() {
        let text = "/// Keys\n/// of so\n/// many peers.\nlet so = \"x\"; // Of it.\nOf(this);\n";
        let lines: Vec<_> = found("x.rs", text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 4]);
        assert_eq!(found("x.rs", "f(\"it waits so long\", \"Who is it\");\n").len(), 2);
        assert_eq!(found("x.rs", "f(\"Those of it\");\n").len(), 0);
        assert_eq!(found("x.md", "Text.\n```\nOf these\n```\n| a | Of them |\n- Of it\n").len(), 2);
        assert_eq!(found("x.py", "# Of it\nOf = 1\n").len(), 1);
        assert_eq!(found("x.svg", "Of it\n").len(), 0);
    }
}
