//! The blocks and marks of a page.

/// A block between fences, with the marks before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line number of its opening fence, counted from 1.
    pub line: usize,
    /// The language named behind the opening fence.
    pub language: String,
    /// Its lines without the indentation of the fence.
    pub text: Vec<String>,
    /// The marks in the comments since the last block, in order.
    pub marks: Vec<Mark>,
}

/// What a comment says about the next block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The block, or its commands that begin with `of`, cannot be run.
    NotRun {
        /// The beginning of the commands. An empty text means all commands.
        of: String,
        /// The reason.
        why: String,
    },
    /// Like [`Mark::NotRun`], but only for the quick run.
    Slow {
        /// The beginning of the commands. An empty text means all commands.
        of: String,
        /// The reason, and how long the commands take.
        why: String,
    },
    /// The commands are run only if a program or a kind of network device exists.
    Needs {
        /// The beginning of the commands. An empty text means all commands.
        of: String,
        /// The name of a program, or `link KIND`.
        what: String,
    },
    /// Commands that a reader is assumed to have run already.
    Given(String),
    /// The block is the content of this file.
    File(String),
    /// The block shows lines that were printed.
    Output,
    /// A new directory and network begin here.
    Anew,
    /// The hosts of the page.
    Network(Vec<Host>),
    /// Blocks from here on run on this host.
    Host(String),
}

/// A host of a page with its interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The host's name.
    pub name: String,
    /// The name of each interface, and its addresses with prefix lengths.
    pub interfaces: Vec<(String, Vec<String>)>,
}

impl Block {
    /// Whether the block has commands, which its language tells.
    #[must_use]
    pub fn has_commands(&self) -> bool {
        let of_commands = matches!(self.language.as_str(), "sh" | "bash" | "shell" | "console");
        of_commands && !self.marks.iter().any(|m| matches!(m, Mark::File(_) | Mark::Output))
    }
}

/// The blocks of a page. A comment that is no valid mark is an error, so that no mark is lost by a
/// typing mistake.
pub fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut marks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let bare = line.trim_start();
        if let Some(language) = bare.strip_prefix("```") {
            let indentation = line.len() - bare.len();
            let mut text = Vec::new();
            loop {
                let Some((_, line)) = lines.next() else {
                    return Err(format!("line {}: the block has no end", index + 1));
                };
                if line.trim() == "```" {
                    break;
                }
                text.push(line.get(indentation..).unwrap_or(line.trim_start()).to_owned());
            }
            let (line, language) = (index + 1, language.trim().to_owned());
            if language.is_empty() && text.iter().any(|line| line.starts_with("lightseal ")) {
                return Err(format!(
                    "line {line}: a block of commands begins with ```sh, any other with ```text"
                ));
            }
            blocks.push(Block { line, language, text, marks: std::mem::take(&mut marks) });
        } else if let Some(rest) = bare.strip_prefix("<!--") {
            let mut comment = rest.to_owned();
            while !comment.contains("-->") {
                let Some((_, line)) = lines.next() else {
                    return Err(format!("line {}: the comment has no end", index + 1));
                };
                comment.push('\n');
                comment.push_str(line);
            }
            let (comment, _) = comment.split_once("-->").expect("it was just found");
            let mark = mark(comment.trim()).map_err(|e| format!("line {}: {e}", index + 1))?;
            marks.push(mark);
        }
    }
    match marks.last() {
        Some(mark) => Err(format!("no block follows the mark {mark:?}")),
        None => Ok(blocks),
    }
}

fn mark(comment: &str) -> Result<Mark, String> {
    let unknown = || format!("no mark: {comment:?}; see crates/documents/src/lib.rs");
    match comment {
        "output" => return Ok(Mark::Output),
        "anew" => return Ok(Mark::Anew),
        _ => {}
    }
    if let Some(rest) = comment.strip_prefix("needs") {
        let (what, of) = rest.trim().split_once('"').unwrap_or((rest.trim(), ""));
        let (what, of) = (what.trim().to_owned(), of.trim_end_matches('"').to_owned());
        return if what.is_empty() { Err(unknown()) } else { Ok(Mark::Needs { of, what }) };
    }
    for (word, slow) in [("not run", false), ("slow", true)] {
        let Some(rest) = comment.strip_prefix(word) else { continue };
        let (of, rest) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(unknown)?,
            None => ("", rest),
        };
        let why = rest.trim_start().strip_prefix(':').ok_or_else(unknown)?;
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        if why.is_empty() {
            return Err(format!("{word:?} without a reason"));
        }
        let of = of.to_owned();
        return Ok(if slow { Mark::Slow { of, why } } else { Mark::NotRun { of, why } });
    }
    let (word, rest) = comment.split_once(':').ok_or_else(unknown)?;
    let rest = rest.trim();
    match word {
        _ if rest.is_empty() => Err(unknown()),
        "given" => Ok(Mark::Given(rest.to_owned())),
        "file" => Ok(Mark::File(rest.to_owned())),
        "host" => Ok(Mark::Host(rest.to_owned())),
        "network" => Ok(Mark::Network(rest.split(';').filter_map(host).collect())),
        _ => Err(unknown()),
    }
}

/// Parses a host of the form `NAME INTERFACE=ADDRESS,ADDRESS INTERFACE`.
fn host(text: &str) -> Option<Host> {
    let mut words = text.split_whitespace();
    let name = words.next()?.to_owned();
    let interfaces = words.map(|word| {
        let (interface, addresses) = word.split_once('=').unwrap_or((word, ""));
        let addresses = addresses.split(',').filter(|address| !address.is_empty());
        (interface.to_owned(), addresses.map(str::to_owned).collect())
    });
    Some(Host { name, interfaces: interfaces.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_line_their_text_and_the_marks_before_them() {
        let page = "A\n\n<!-- not run \"b c\": takes\n     a radio -->\n<!-- needs tshark -->\n```sh\na\nb c d\n```\n\
                    text\n- list\n  ```toml\n  x = 1\n    y = 2\n  ```\n";
        let blocks = blocks(page).unwrap();
        assert_eq!(blocks.len(), 2);
        assert_eq!((blocks[0].line, blocks[0].language.as_str()), (6, "sh"));
        assert_eq!(blocks[0].text, ["a", "b c d"]);
        assert_eq!(
            blocks[0].marks,
            [
                Mark::NotRun { of: "b c".into(), why: "takes a radio".into() },
                Mark::Needs { of: String::new(), what: "tshark".into() },
            ]
        );
        assert_eq!(blocks[1].text, ["x = 1", "  y = 2"]);
        assert!(blocks[0].has_commands() && !blocks[1].has_commands());
        assert_eq!(blocks[1].marks, []);
    }

    #[test]
    fn hosts_have_interfaces_with_addresses() {
        let page = "<!-- network: a eth0=fd00::1/64,10.0.0.1/24 eth1; b eth0 -->\n```\nls\n```\n";
        let Mark::Network(hosts) = &blocks(page).unwrap()[0].marks[0] else { panic!("no network") };
        let eth0 = ("eth0".to_owned(), vec!["fd00::1/64".to_owned(), "10.0.0.1/24".to_owned()]);
        assert_eq!(hosts[0].interfaces, [eth0, ("eth1".to_owned(), Vec::new())]);
        assert_eq!(hosts[1].name, "b");
    }

    #[test]
    fn a_mark_with_a_slip_and_one_without_a_block_are_errors() {
        for wrong in [
            "<!-- no run: why -->\n```\nls\n```\n",
            "<!-- not run -->\n```\nls\n```\n",
            "<!-- not run: -->\n```\nls\n```\n",
            "<!-- slow \"a: b -->\n```\nls\n```\n",
            "<!-- given: -->\n```\nls\n```\n",
            "<!-- anew -->\n",
            "<!-- anew\n```\nls\n```\n",
            "```sh\nls\n",
            "```\nlightseal demo\n```\n",
        ] {
            assert!(blocks(wrong).is_err(), "{wrong}");
        }
    }
}
