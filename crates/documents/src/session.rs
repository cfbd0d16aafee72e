//! Sessions: the steps that run together, made from the blocks of a page.

use crate::markdown::{Block, Host, Mark};

/// Blocks that run one after the other in one directory and one network.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The hosts; empty if all steps run on one host.
    pub hosts: Vec<Host>,
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// One step of a session.
#[derive(Clone, Debug)]
pub struct Step {
    /// The line number of the block's opening fence.
    pub block: usize,
    /// The host on which the step runs; `None` if there is only one.
    pub host: Option<String>,
    /// The action of the step.
    pub action: Action,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Commands that the page assumes to be done.
    Given(String),
    /// The step writes a file.
    File {
        /// The file's path, relative to the page's directory.
        path: String,
        /// The content of the file.
        text: String,
    },
    /// Lines that must have been printed by now.
    Output {
        /// The lines.
        lines: Vec<String>,
        /// The programs or devices that are needed to print the lines, if not every machine has
        /// them.
        needs: Vec<String>,
    },
    /// A command of the page.
    Command(Command),
}

/// A command on the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The command as a shell reads it, without a `&` at its end.
    pub text: String,
    /// The lines that the command prints according to the page.
    pub shown: Vec<String>,
    /// `None` for a command that ends. A command that keeps running has the text that it prints
    /// when it is ready, as an extended regular expression; empty if it prints none.
    pub stays: Option<&'static str>,
    /// The reason why the command is not run.
    pub not_run: Option<String>,
    /// The reason why the quick run leaves the command out.
    pub slow: Option<String>,
    /// Programs, or kinds of network devices, without which the command is not run.
    pub needs: Vec<String>,
}

/// Commands that run until they are ended, and what they print when they are ready (as `grep -E`
/// takes it). Any other command that ends in `&` counts as ready after it has run for a moment.
const STAYING: &[(&str, &str)] = &[
    ("lightseal proxy server", "carrying"),
    ("lightseal proxy client", "carrying"),
    ("lightseal s_server", "serving DTLS on"),
    ("lightseal impair", "relaying"),
    ("lightseal group controller", "listening for devices on"),
    ("lightseal group join", "requests|applications send"),
    ("lightseal group listen", "listening to"),
    ("lightseal gateway run", "carries frames"),
    ("lightseal macsec", ", MTU "),
    ("coap-server-notls", ""),
];
/// With one of these flags a command of [`STAYING`] prints something and ends.
const ENDING: &[&str] = &[" --sample", " --help"];

/// Commands that run the blocks. They are never run from a block.
const RUNNERS: [&str; 2] = ["cargo xtask test", "cargo xtask documents"];

/// The sessions of a page.
pub fn sessions(blocks: &[Block]) -> Result<Vec<Session>, String> {
    let mut sessions = vec![Session::default()];
    let mut host = None;
    for block in blocks {
        for mark in &block.marks {
            if *mark == Mark::Anew {
                sessions.push(Session::default());
                host = None;
            }
            let session = sessions.last_mut().expect("there is always one");
            match mark {
                Mark::Network(hosts) => {
                    session.hosts.clone_from(hosts);
                    host = hosts.first().map(|first| first.name.clone());
                }
                Mark::Host(name) => {
                    if !session.hosts.iter().any(|host| host.name == *name) {
                        return Err(format!("line {}: no network has {name}", block.line));
                    }
                    host = Some(name.clone());
                }
                _ => {}
            }
        }
        let session = sessions.last_mut().expect("there is always one");
        let actions = actions(block).map_err(|error| format!("line {}: {error}", block.line))?;
        let step = |action| Step { block: block.line, host: host.clone(), action };
        session.steps.extend(actions.into_iter().map(step));
    }
    sessions.retain(|session| !session.steps.is_empty());
    Ok(sessions)
}

fn actions(block: &Block) -> Result<Vec<Action>, String> {
    let mut actions = Vec::new();
    for mark in &block.marks {
        match mark {
            Mark::Given(commands) => actions.push(Action::Given(commands.clone())),
            Mark::File(path) => {
                let text = block.text.join("\n") + "\n";
                actions.push(Action::File { path: path.clone(), text });
            }
            Mark::Output => {
                let needs = block.marks.iter().filter_map(|mark| match mark {
                    Mark::Needs { what, .. } => Some(what.clone()),
                    _ => None,
                });
                let (lines, needs) = (block.text.clone(), needs.collect());
                actions.push(Action::Output { lines, needs });
            }
            _ => {}
        }
    }
    if block.has_commands() {
        let mut commands = commands(block);
        for mark in &block.marks {
            apply(mark, &mut commands)?;
        }
        let runs_blocks = |text: &str| RUNNERS.iter().any(|runner| text.starts_with(runner));
        let unmarked = |command: &&Command| command.not_run.is_none() && runs_blocks(&command.text);
        if let Some(runner) = commands.iter().find(unmarked) {
            return Err(format!(
                "{:?} needs a mark `not run`, since it runs the blocks",
                runner.text
            ));
        }
        actions.extend(commands.into_iter().map(Action::Command));
    }
    Ok(actions)
}

/// Applies `mark` to `commands`. It is an error if the mark's text begins none of them.
fn apply(mark: &Mark, commands: &mut [Command]) -> Result<(), String> {
    let (Mark::NotRun { of, .. } | Mark::Slow { of, .. } | Mark::Needs { of, .. }) = mark else {
        return Ok(());
    };
    let mut meant = commands.iter_mut().filter(|command| command.text.starts_with(of)).peekable();
    if meant.peek().is_none() {
        return Err(format!("no command of the block begins with {of:?}, as a mark says"));
    }
    for command in meant {
        match mark {
            Mark::NotRun { why, .. } => command.not_run = Some(why.clone()),
            Mark::Slow { why, .. } => command.slow = Some(why.clone()),
            Mark::Needs { what, .. } => command.needs.push(what.clone()),
            _ => {}
        }
    }
    Ok(())
}

/// The commands of a block. Each line is a command, or several lines if a shell would read on (`\`,
/// an open quotation). In a console block, lines with a prompt are commands, and the other lines
/// are what they print.
fn commands(block: &Block) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let mut open = String::new();
    let console = block.language == "console";
    for line in &block.text {
        let typed = match line.strip_prefix("$ ") {
            Some(typed) if console => typed,
            _ if console && open.is_empty() => {
                if let Some(last) = commands.last_mut() {
                    last.shown.push(line.clone());
                }
                continue;
            }
            _ => line,
        };
        if open.is_empty() && (typed.trim().is_empty() || typed.trim_start().starts_with('#')) {
            continue;
        }
        if !open.is_empty() {
            open.push('\n');
        }
        open.push_str(typed);
        if !goes_on(&open) {
            commands.push(command(&std::mem::take(&mut open)));
        }
    }
    if !open.is_empty() {
        commands.push(command(&open));
    }
    commands
}

fn command(text: &str) -> Command {
    let bare = without_remark(text).trim_end();
    let (bare, background) = match bare.strip_suffix('&') {
        Some(rest) if !rest.ends_with('&') => (rest.trim_end(), true),
        _ => (bare, false),
    };
    let known = STAYING.iter().find(|(start, _)| bare.starts_with(start));
    let ends = ENDING.iter().any(|flag| bare.contains(flag));
    let stays = match known {
        Some((_, ready)) if !ends => Some(*ready),
        _ if bare.ends_with(" --watch") || background => Some(""),
        _ => None,
    };
    Command { text: bare.to_owned(), stays, ..Command::default() }
}

/// Whether a shell would read another line after this text.
fn goes_on(text: &str) -> bool {
    text.ends_with('\\') || unquoted(text).1
}

/// The text without a comment at its end.
fn without_remark(text: &str) -> &str {
    let (places, _) = unquoted(text);
    let remark =
        places.iter().find(|&&(at, c)| c == '#' && text[..at].ends_with(char::is_whitespace));
    remark.map_or(text, |&(at, _)| &text[..at])
}

/// The characters outside of quotations with their positions, and whether a quotation is open at
/// the end.
fn unquoted(text: &str) -> (Vec<(usize, char)>, bool) {
    let mut quotation = None;
    let mut outside = Vec::new();
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quotation, c) {
            (None | Some('"'), '\\') => escaped = true,
            (None, '\'' | '"') => quotation = Some(c),
            (Some(open), _) if open == c => quotation = None,
            (None, _) => outside.push((at, c)),
            _ => {}
        }
    }
    (outside, quotation.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::blocks;

    fn of(page: &str) -> Vec<Command> {
        let sessions = sessions(&blocks(page).unwrap()).unwrap();
        let steps = sessions.into_iter().flat_map(|session| session.steps);
        let commands = steps.filter_map(|step| match step.action {
            Action::Command(command) => Some(command),
            _ => None,
        });
        commands.collect()
    }

    fn texts(page: &str) -> Vec<String> {
        of(page).into_iter().map(|command| command.text).collect()
    }

    #[test]
    fn a_line_is_a_command_unless_it_goes_on() {
        let page =
            "```sh\n# a remark\numask 077   # another\necho '#' a \\\n   b\n\necho 'a\nb'\n```\n";
        assert_eq!(texts(page), ["umask 077", "echo '#' a \\\n   b", "echo 'a\nb'"]);
    }

    #[test]
    fn on_a_console_lines_without_a_prompt_are_what_is_printed() {
        let commands = of("```console\n$ ls\na\nb\n$ true\n```\n");
        assert_eq!((commands[0].text.as_str(), commands[0].shown.len()), ("ls", 2));
        assert_eq!(commands[1].text, "true");
    }

    #[test]
    fn servers_stay_whether_the_page_says_so_or_not() {
        let commands = of("```sh\nlightseal proxy server --listen a &  # in the background\n\
                           lightseal impair --loss 1%\nlightseal proxy client --sample > c\nsleep 1 &\n\
                           lightseal gateway status --watch\na && b\n```\n");
        let stays: Vec<_> = commands.iter().map(|command| command.stays).collect();
        assert_eq!(stays, [Some("carrying"), Some("relaying"), None, Some(""), Some(""), None]);
        assert_eq!(commands[0].text, "lightseal proxy server --listen a");
    }

    #[test]
    fn a_mark_counts_for_the_commands_that_begin_with_its_text() {
        let commands = of(
            "<!-- not run \"b\": why -->\n<!-- needs link macsec \"a\" -->\n<!-- slow: long -->\n\
                           ```sh\na 1\nb 2\n```\n",
        );
        assert_eq!(
            (commands[0].not_run.as_deref(), commands[1].not_run.as_deref()),
            (None, Some("why"))
        );
        assert_eq!((commands[0].needs.len(), commands[1].needs.len()), (1, 0));
        assert!(commands.iter().all(|command| command.slow.as_deref() == Some("long")));
        let wrong = blocks("<!-- not run \"c\": why -->\n```sh\na 1\n```\n").unwrap();
        assert!(sessions(&wrong).is_err());
    }

    #[test]
    fn the_test_command_is_never_run() {
        let page = "```sh\ncargo xtask test --package lightseal-net\n```\n";
        assert!(sessions(&blocks(page).unwrap()).is_err());
        let marked = format!("<!-- not run: it is what runs this -->\n{page}");
        assert_eq!(of(&marked)[0].not_run.as_deref(), Some("it is what runs this"));
    }

    #[test]
    fn a_session_begins_anew_and_hosts_last() {
        let page = "<!-- network: a eth0; b eth0 -->\n```sh\n1\n```\n<!-- host: b -->\n```sh\n2\n```\n```sh\n3\n```\n\
                    <!-- anew -->\n```sh\n4\n```\n";
        let sessions = sessions(&blocks(page).unwrap()).unwrap();
        let hosts = |session: &Session| {
            session
                .steps
                .iter()
                .map(|step| step.host.clone().unwrap_or_default())
                .collect::<Vec<_>>()
        };
        assert_eq!(hosts(&sessions[0]), ["a", "b", "b"]);
        assert_eq!(hosts(&sessions[1]), [""]);
        assert!(super::sessions(&blocks("<!-- host: c -->\n```sh\n1\n```\n").unwrap()).is_err());
    }
}
