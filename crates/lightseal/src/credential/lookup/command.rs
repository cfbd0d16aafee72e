//! A program that is asked for keys: `--psk-command PROGRAM` and `--allow-command PROGRAM`.
//!
//! The program reads an identity from each line of its standard input, in the form of access lists,
//! that of a pre-shared key without `psk:`. It answers each with one line: the key in hexadecimal
//! digits, or `+` for a public key or a name that is let in; `-` if there is no key, or the peer is
//! not let in. It ends with status 0 after the last line. Whatever else it does counts as no answer: a
//! program that fails must not look like one that has revoked all keys.

use super::source::{
    Changed, Entry, KeySource, MOST_KEY_BYTES, PeerIdentity, SourceError, written,
};
use crate::keys::decode_hex;
use crate::system;
use lightseal_dtls::{Identity, Psk};
use lightseal_owner_only::file::refuse_writable;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long the program may take for one question.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// How often it is looked whether the program has ended.
const GLANCE: Duration = Duration::from_millis(2);

/// How often a program that is being written is tried.
const BUSY_TRIES: u32 = 20;

/// The answer for an identity without a key, and for one that is not let in.
const NO_KEY: &str = "-";

/// The answer for a public key or a name that is let in.
const ADMITTED: &str = "+";

/// The longest line of an answer, with its end.
const MOST_LINE_BYTES: usize = 2 * MOST_KEY_BYTES + 2;

/// Variables of this process that are not the program's business: with them it could speak to systemd
/// in the name of this service.
const HIDDEN: [&str; 4] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_FDS"];

/// A program that knows keys.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    time_limit: Duration,
}

impl Program {
    /// # Errors
    ///
    /// If there is no such program, or other users can change it.
    pub(super) fn open(path: &Path) -> Result<Self, SourceError> {
        // As a path it is not looked for in the folders of $PATH.
        let path = path.canonicalize().map_err(SourceError::new)?;
        refuse_unfit(&path)?;
        Ok(Self { path, time_limit: TIME_LIMIT })
    }

    fn start(&self) -> Result<Child, SourceError> {
        let mut command = Command::new(&self.path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        for name in HIDDEN {
            command.env_remove(name);
        }
        system::lead_group(&mut command);
        // Whoever has just written the program may still have it open for a moment.
        let mut tries = 0;
        loop {
            match command.spawn() {
                Err(error)
                    if error.kind() == ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES =>
                {
                    tries += 1;
                    std::thread::sleep(GLANCE);
                }
                started => return started.map_err(SourceError::new),
            }
        }
    }

    /// Asks the program. Returns its output.
    fn ask(&self, question: String, lines: usize) -> Result<Zeroizing<Vec<u8>>, SourceError> {
        let until = Instant::now() + self.time_limit;
        let mut child = self.start()?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(SourceError::new("it has no standard input or output"));
        };
        // Two threads, because the program may answer before it has read all. They end when it closes
        // its ends of the pipes, at the latest when it is killed.
        let writer = std::thread::Builder::new().name("key question".into());
        let written = writer.spawn(move || drop(stdin.write_all(question.as_bytes())));
        let (answers, answer) = channel();
        let most = lines * MOST_LINE_BYTES;
        let reader = std::thread::Builder::new().name("key answer".into());
        let read = reader.spawn(move || {
            let mut output = Zeroizing::new(Vec::with_capacity(most + 1));
            let read = stdout.take(most as u64 + 1).read_to_end(&mut output);
            // Whoever has asked may have given up.
            let _ = answers.send(read.map(|_| output));
        });
        if let Some(error) = written.err().or(read.err()) {
            end(&mut child);
            return Err(SourceError::new(error));
        }
        let waited = answer.recv_timeout(until.saturating_duration_since(Instant::now()));
        let output = match waited {
            Ok(Ok(output)) if output.len() <= most => output,
            outcome => {
                end(&mut child);
                return Err(match outcome {
                    Err(RecvTimeoutError::Timeout) => self.late(),
                    Ok(Err(error)) => SourceError::new(error),
                    _ => SourceError::new("its answer is too long"),
                });
            }
        };
        let status = wait(&mut child, until).map_err(SourceError::new)?;
        match status {
            Some(status) if status.success() => Ok(output),
            Some(status) => Err(SourceError::new(format_args!("it has ended with {status}"))),
            None => {
                end(&mut child);
                Err(self.late())
            }
        }
    }

    fn late(&self) -> SourceError {
        let seconds = self.time_limit.as_secs_f64();
        SourceError::new(format_args!("it has not ended after {seconds} s"))
    }
}

impl KeySource for Program {
    fn find(&mut self, identities: &[PeerIdentity]) -> Result<Vec<Option<Entry>>, SourceError> {
        let mut question = String::new();
        for identity in identities {
            let _ = writeln!(question, "{}", written(identity));
        }
        let output = self.ask(question, identities.len())?;
        let text =
            std::str::from_utf8(&output).map_err(|_| SourceError::new("its answer is no text"))?;
        let mut lines = text.lines();
        let found: Result<Vec<_>, _> = identities
            .iter()
            .map(|identity| {
                let shown = written(identity);
                let Some(line) = lines.next() else {
                    return Err(SourceError::new(format_args!("no answer for {shown}")));
                };
                let line = line.trim_ascii();
                if line == NO_KEY {
                    return Ok(None);
                }
                let Identity::Psk(name) = &**identity else {
                    let wrong = || {
                        SourceError::new(format_args!(
                            "the answer for {shown} is neither `{ADMITTED}` nor `{NO_KEY}`"
                        ))
                    };
                    return (line == ADMITTED).then_some(Some(Entry::Admitted)).ok_or_else(wrong);
                };
                let key = decode_hex(line).filter(|key| key.len() <= MOST_KEY_BYTES);
                let psk = key.and_then(|key| Psk::external(name, &key).ok());
                let wrong = || {
                    SourceError::new(format_args!(
                        "the answer for {shown} is neither `{NO_KEY}` nor a key of 16 to \
                         {MOST_KEY_BYTES} bytes in hexadecimal digits"
                    ))
                };
                psk.map(|psk| Some(Entry::Psk(psk))).ok_or_else(wrong)
            })
            .collect();
        if lines.next().is_some() {
            return Err(SourceError::new("it has answered more lines than it was asked"));
        }
        found
    }

    /// The program is not asked what has changed, and is asked about all keys in use again.
    fn changes(&mut self) -> Result<Changed, SourceError> {
        Ok(Changed::All)
    }
}

/// Waits until the program has ended; `None` if it has not at this time.
fn wait(child: &mut Child, until: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        std::thread::sleep(GLANCE);
    }
}

/// Kills the program and what it has started.
fn end(child: &mut Child) {
    system::kill_group(child);
    let _ = child.wait();
}

/// Refuses a program that other users can change, and a file that is none.
fn refuse_unfit(path: &Path) -> Result<(), SourceError> {
    let metadata = std::fs::metadata(path).map_err(SourceError::new)?;
    if !metadata.is_file() || !system::is_executable(&metadata) {
        return Err(SourceError::new("it is no program that can be executed"));
    }
    refuse_writable(path, &metadata).map_err(SourceError::new)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f";

    /// A script that is removed in the end.
    struct Script(PathBuf);

    impl Script {
        fn new(name: &str, text: &str) -> Self {
            let name = format!("lightseal-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            Self(path)
        }

        fn program(&self) -> Program {
            Program { time_limit: Duration::from_millis(300), ..Program::open(&self.0).unwrap() }
        }
    }

    impl Drop for Script {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).unwrap();
        }
    }

    fn of(identities: &[&[u8]]) -> Vec<PeerIdentity> {
        identities.iter().map(|identity| Identity::Psk(identity.to_vec()).into()).collect()
    }

    #[test]
    fn each_line_of_the_answer_is_about_the_same_line_of_the_question() {
        let script = Script::new(
            "keys-command",
            &format!(
                "while read -r identity; do case $identity in\n\
                 a) echo {HEX};; 'b%20$(id)') echo {HEX}ff;; *) echo -;; esac; done"
            ),
        );
        let mut program = Program::open(&script.0).unwrap();
        let asked = of(&[b"a", b"none", b"b $(id)", b"-n", b"a\nb"]);
        let found = program.find(&asked).unwrap();
        let known: Vec<_> = found.iter().map(Option::is_some).collect();
        assert_eq!(known, [true, false, true, false, false]);
        let key: Vec<u8> = (0..16).collect();
        let first = found[0].as_ref().unwrap();
        assert_eq!(first.check(), Some(Psk::external(b"a", &key).unwrap().check()));
        // More than a pipe holds, both ways.
        let many: Vec<PeerIdentity> =
            (0..1000).map(|n| Identity::Psk(format!("{n:0>200}").into_bytes()).into()).collect();
        assert!(program.find(&many).unwrap().iter().all(Option::is_none));
        assert_eq!(program.changes().unwrap(), Changed::All);
    }

    #[test]
    fn a_public_key_or_a_name_is_let_in_or_not() {
        let script = Script::new(
            "keys-peers",
            "while read -r peer; do case $peer in\n\
             subject:a.example|spki:0a*) echo +;; subject:odd) echo yes;; *) echo -;; esac; done",
        );
        let mut program = Program::open(&script.0).unwrap();
        let subject = |name: &str| PeerIdentity::from(Identity::Subject(name.into()));
        let asked = [subject("a.example"), subject("b c"), Identity::Key([10; 32]).into()];
        let found = program.find(&asked).unwrap();
        let found: Vec<_> =
            found.iter().map(|entry| matches!(entry, Some(Entry::Admitted))).collect();
        assert_eq!(found, [true, false, true]);
        let said = program.find(&[subject("odd")]).unwrap_err().to_string();
        assert!(said.contains("neither `+` nor `-`"), "{said}");
    }

    #[test]
    fn whatever_is_no_answer_is_known_to_be_none() {
        for (name, text, expected) in [
            ("fails", "cat >/dev/null; echo -; exit 3", "exit status: 3"),
            ("killed", "kill -9 $$", "signal: 9"),
            ("silent", "exit 0", "no answer for a"),
            ("short", "echo 0011", "neither `-` nor a key"),
            ("words", "echo no such key", "neither `-` nor a key"),
            ("empty", "echo", "neither `-` nor a key"),
            ("more", "echo -; echo -", "more lines"),
            ("long", "head -c 100000 /dev/zero", "too long"),
            ("binary", "printf '\\377\\n'", "no text"),
            ("hangs", "sleep 600", "not ended after 0.3 s"),
            // Its output is complete, and something that it has started goes on.
            ("lingers", "echo -; exec >&-; sleep 600", "not ended after 0.3 s"),
        ] {
            let script = Script::new(&format!("keys-{name}"), text);
            let said = script.program().find(&of(&[b"a"])).unwrap_err().to_string();
            assert!(said.contains(expected), "{name}: {said}");
        }
    }

    #[test]
    fn a_program_that_others_can_change_and_a_file_that_is_none_are_refused() {
        let script = Script::new("keys-unfit", "exit 0");
        let said = |mode, path: &Path| {
            std::fs::set_permissions(&script.0, std::fs::Permissions::from_mode(mode)).unwrap();
            Program::open(path).unwrap_err().to_string()
        };
        assert!(said(0o777, &script.0).contains("chmod go-w"));
        assert!(said(0o644, &script.0).contains("no program"));
        assert!(said(0o755, Path::new("/")).contains("no program"));
        assert!(said(0o755, Path::new("/nowhere/keys")).contains("No such file"));
    }
}
