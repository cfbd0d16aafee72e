//! Runs sessions: namespaces, time limits, and results.

use crate::script::{self, NO_PLACE, Planned};
use crate::session::{Action, Command as PageCommand, Session};
use crate::{markdown, session};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The top directory of the repository, whose directories the commands find in their own.
    pub root: PathBuf,
    /// The program that runs as `lightseal`. Its commands `lightseal lab` run the `lightseal-lab`
    /// beside it.
    pub program: PathBuf,
    /// The program that runs as `cargo xtask`. If it is `None`, its commands are left out.
    pub xtask: Option<PathBuf>,
    /// Whether to leave out commands that are marked as slow.
    pub quick: bool,
    /// Whether to list the commands instead of running them.
    pub list: bool,
}

impl Settings {
    /// The reason why `lightseal lab` cannot be run; `None` if it can.
    pub fn missing_laboratory(&self) -> Option<String> {
        let name = format!("lightseal-lab{}", std::env::consts::EXE_SUFFIX);
        let there = self.program.with_file_name(name).is_file();
        (!there).then(|| "this machine has no lightseal-lab beside lightseal".into())
    }
}

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a command may take that is marked as slow.
const SLOW_LIMIT: Duration = Duration::from_secs(1800);
/// The number of last lines that are kept of what a failed command printed.
const LINES_KEPT: usize = 20;

/// The result of a block.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Page and line number of the opening fence, such as `docs/proxy.md:21`.
    pub block: String,
    /// Number of its commands that were run and succeeded.
    pub ran: usize,
    /// Commands that were left out, with the reason.
    pub left_out: Vec<(String, String)>,
    /// The failure, with the end of what was printed.
    pub failure: Option<String>,
}

/// Runs the blocks of `page`, a path relative to the top of the repository. With `line` it runs
/// only the block that begins at this line, and the blocks before it in its session.
///
/// The error says why nothing can be run: invalid marks, or missing rights.
pub fn page(settings: &Settings, page: &Path, line: Option<usize>) -> Result<Vec<Outcome>, String> {
    let name = page.display().to_string();
    let text = fs::read_to_string(settings.root.join(page)).map_err(|e| format!("{name}: {e}"))?;
    let blocks = markdown::blocks(&text).map_err(|error| format!("{name}: {error}"))?;
    let sessions = session::sessions(&blocks).map_err(|error| format!("{name}: {error}"))?;
    let mut outcomes = Vec::new();
    for mut session in sessions {
        if let Some(line) = line {
            if !session.steps.iter().any(|step| step.block == line) {
                continue;
            }
            session.steps.retain(|step| step.block <= line);
        }
        outcomes.extend(run(settings, &name, &session)?);
    }
    Ok(outcomes)
}

/// The reason why blocks cannot be run on this machine; `None` if they can.
pub fn missing() -> Option<String> {
    let mut probe = unshare();
    probe.args(["mount", "-t", "tmpfs", "probe", "/run"]);
    let output = probe.stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Some(format!("cannot create namespaces: {}", said.lines().next().unwrap_or_default()))
        }
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// A command that runs as root of its own namespaces. All processes that it starts end with it.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    // A user namespace is used only where it is needed, since it has fewer rights.
    if fs::read_to_string("/proc/self/status").is_ok_and(|s| !s.contains("\nUid:\t0\t0")) {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command
}

/// Runs the commands of a session that can be run. Returns the results of its blocks in order.
fn run(settings: &Settings, page: &str, session: &Session) -> Result<Vec<Outcome>, String> {
    let mut outcomes: BTreeMap<usize, Outcome> = BTreeMap::new();
    let mut planned = Vec::new();
    for (number, step) in session.steps.iter().enumerate() {
        let outcome = outcomes.entry(step.block).or_default();
        match &step.action {
            Action::Command(command) => match left_out(settings, command) {
                Some(why) => outcome.left_out.push((command.text.clone(), why)),
                None if settings.list => outcome.ran += 1,
                None => planned.push(Planned { number, stays: command.stays }),
            },
            Action::Given(_) | Action::File { .. } if !settings.list => {
                planned.push(Planned { number, stays: None });
            }
            _ => {}
        }
    }
    let is_command =
        |planned: &Planned| matches!(session.steps[planned.number].action, Action::Command(_));
    if planned.iter().any(is_command) {
        let place = Place::new(settings, session, &planned)?;
        let failed = place.run(session, &planned)?;
        for Planned { number, .. } in &planned {
            let step = &session.steps[*number];
            let outcome = outcomes.entry(step.block).or_default();
            match &failed {
                Some((at, why)) if at == number => outcome.failure = Some(why.clone()),
                Some((at, _)) if number > at => {
                    let cause = session.steps[*at].block;
                    let text = || format!("not reached, since the block at line {cause} failed");
                    outcome.failure.get_or_insert_with(text);
                }
                _ if matches!(step.action, Action::Command(_)) => outcome.ran += 1,
                _ => {}
            }
        }
        if failed.is_none() {
            place.compare(session, &planned, &mut outcomes);
        }
    }
    let named = outcomes
        .into_iter()
        .map(|(line, outcome)| Outcome { block: format!("{page}:{line}"), ..outcome });
    Ok(named
        .filter(|outcome| {
            outcome.ran > 0 || !outcome.left_out.is_empty() || outcome.failure.is_some()
        })
        .collect())
}

/// The reason why a command is left out of this run; `None` if it is run.
fn left_out(settings: &Settings, command: &PageCommand) -> Option<String> {
    if let Some(why) = &command.not_run {
        return Some(why.clone());
    }
    if let Some(why) = command.slow.as_ref().filter(|_| settings.quick) {
        return Some(format!("slow: {why}"));
    }
    if settings.xtask.is_none() && command.text.starts_with("cargo xtask") {
        return Some("maintenance is not part of this run".into());
    }
    if !settings.list && command.text.contains("lightseal lab") {
        let missing = settings.missing_laboratory();
        if missing.is_some() {
            return missing;
        }
    }
    let absent = command.needs.iter().find(|what| !exists(what))?;
    Some(format!("this machine has no {absent}"))
}

/// Whether a program with this name exists, or for `link KIND` this kind of network device.
fn exists(what: &str) -> bool {
    if let Some(kind) = what.strip_prefix("link ") {
        let mut probe = unshare();
        let device = "ip link add name under type veth peer name over && ip link set under up && \
                      ip link add link under name probe type";
        probe.args(["sh", "-c", &format!("{device} {kind}")]);
        let status =
            probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        return status.is_ok_and(|status| status.success());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(what).is_file())
}

/// The directory of a session on disk, with its script and the directory in which its commands run.
struct Place {
    folder: PathBuf,
}

impl Drop for Place {
    fn drop(&mut self) {
        // If this fails, the files remain in the directory for temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Place {
    fn new(settings: &Settings, session: &Session, planned: &[Planned]) -> Result<Self, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("lightseal-documents-{}-{count}", std::process::id());
        let place = Self { folder: std::env::temp_dir().join(name) };
        place
            .fill(settings, session, planned)
            .map_err(|error| format!("{}: {error}", place.folder.display()))?;
        Ok(place)
    }

    fn fill(
        &self,
        settings: &Settings,
        session: &Session,
        planned: &[Planned],
    ) -> std::io::Result<()> {
        let folder = &self.folder;
        for name in ["", "steps", "logs", "bin", "home", "work"] {
            fs::create_dir(folder.join(name))?;
        }
        for name in ["crates", "docs", "tools"] {
            std::os::unix::fs::symlink(settings.root.join(name), folder.join("work").join(name))?;
        }
        std::os::unix::fs::symlink(&settings.program, folder.join("bin/lightseal"))?;
        executable(&folder.join("bin/cargo"), &cargo(settings))?;
        fs::write(folder.join("step"), script::STEP)?;
        fs::write(folder.join("script"), script::script(session, planned))?;
        fs::write(folder.join("results"), "")?;
        fs::write(folder.join("state"), format!("cd '{}'\n", folder.join("work").display()))?;
        for Planned { number, .. } in planned {
            let text = match &session.steps[*number].action {
                Action::Command(command) => command.text.clone(),
                Action::Given(commands) => commands.clone(),
                Action::File { path, text } => {
                    fs::write(folder.join(format!("steps/{number}.content")), text)?;
                    format!(
                        "mkdir -p \"$(dirname '{path}')\" && cp \"$PLACE/steps/{number}.content\" '{path}'"
                    )
                }
                Action::Output { .. } => continue,
            };
            fs::write(folder.join(format!("steps/{number}")), text + "\n")?;
        }
        Ok(())
    }

    /// Runs the script. Returns the step that failed and the reason, if one failed.
    fn run(
        &self,
        session: &Session,
        planned: &[Planned],
    ) -> Result<Option<(usize, String)>, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(
            [self.folder.join("bin")].into_iter().chain(std::env::split_paths(&path)),
        )
        .map_err(|error| error.to_string())?;
        let mut command = unshare();
        command.arg("bash").arg(self.folder.join("script"));
        command.env("PLACE", &self.folder).env("HOME", self.folder.join("home")).env("PATH", path);
        command.env_remove("RUST_LOG").current_dir(self.folder.join("work"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("unshare: {error}"))?;
        self.watch(child, session, planned)
    }

    /// Waits for the script, and kills it if a command takes too long.
    fn watch(
        &self,
        mut child: Child,
        session: &Session,
        planned: &[Planned],
    ) -> Result<Option<(usize, String)>, String> {
        let mut running = (planned[0].number, Instant::now());
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(20));
            let began = self.results().into_iter().rfind(|(word, ..)| word == "begin");
            if let Some((_, number, _)) = began.filter(|began| began.1 != running.0) {
                running = (number, Instant::now());
            }
            let slow = |c: &PageCommand| c.slow.is_some();
            let action = &session.steps[running.0].action;
            let limit = match action {
                Action::Command(command) if slow(command) => SLOW_LIMIT,
                _ => LIMIT,
            };
            if running.1.elapsed() > limit {
                // The processes in its process namespace end with it.
                let _ = child.kill();
                let _ = child.wait();
                let why = format!("did not end within {} s", limit.as_secs());
                return Ok(Some((running.0, self.failure(session, running.0, &why))));
            }
        };
        if status.code() == Some(NO_PLACE) {
            let output = child.wait_with_output().map(|o| o.stderr).unwrap_or_default();
            return Err(format!(
                "cannot create its network: {}",
                String::from_utf8_lossy(&output).trim()
            ));
        }
        let failed = self.results().into_iter().find(|(word, ..)| word == "failed");
        if let Some((_, number, why)) = failed {
            return Ok(Some((number, self.failure(session, number, &why))));
        }
        let done = self.results().iter().filter(|(word, ..)| word == "ok").count();
        if done < planned.len() {
            return Err(format!("the script ended early: {status}"));
        }
        Ok(None)
    }

    /// The word, the step number and the remark in each line of the results.
    fn results(&self) -> Vec<(String, usize, String)> {
        let text = fs::read_to_string(self.folder.join("results")).unwrap_or_default();
        let parse = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (word, number) = (words.next()?, words.next()?.parse().ok()?);
            Some((word.to_owned(), number, words.next().unwrap_or_default().to_owned()))
        };
        // A line without a line end is still being written.
        text.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .filter_map(|l| parse(l.trim_end()))
            .collect()
    }

    fn log(&self, number: usize) -> String {
        let bytes = fs::read(self.folder.join(format!("logs/{number}"))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn failure(&self, session: &Session, number: usize, why: &str) -> String {
        let text = match &session.steps[number].action {
            Action::Command(command) => &command.text,
            Action::Given(commands) => commands,
            Action::File { path, .. } => path,
            Action::Output { .. } => "output",
        };
        let log = self.log(number);
        let lines: Vec<_> = log.lines().collect();
        let end = &lines[lines.len().saturating_sub(LINES_KEPT)..];
        format!("`{text}` {why}\n{}", end.join("\n"))
    }

    /// Compares what was printed with what the page shows.
    fn compare(
        &self,
        session: &Session,
        planned: &[Planned],
        outcomes: &mut BTreeMap<usize, Outcome>,
    ) {
        for (number, step) in session.steps.iter().enumerate() {
            let (shown, printed) = match &step.action {
                Action::Command(command)
                    if planned.iter().any(|planned| planned.number == number) =>
                {
                    (&command.shown, self.log(number))
                }
                Action::Output { lines, needs } if needs.iter().all(|what| exists(what)) => {
                    let before =
                        planned.iter().map(|planned| planned.number).filter(|n| *n < number);
                    (lines, before.map(|n| self.log(n)).collect())
                }
                _ => continue,
            };
            if let Some(line) = first_missing(shown, &printed) {
                let outcome = outcomes.entry(step.block).or_default();
                let lines: Vec<_> = printed.lines().collect();
                let end = lines[lines.len().saturating_sub(LINES_KEPT)..].join("\n");
                outcome.failure =
                    Some(format!("printed no line like {line:?}, which the page shows\n{end}"));
            }
        }
    }
}

/// The names of months. A date has another one next month.
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The first line of `shown` that is not in `printed`. Numbers (hexadecimal ones too), spaces and
/// escape sequences are ignored, and a line `...` matches anything.
fn first_missing<'a>(shown: &'a [String], printed: &str) -> Option<&'a String> {
    let printed = alike(printed);
    shown.iter().find(|line| {
        let line = alike(line);
        !matches!(line.as_str(), "" | "...") && !printed.contains(&line)
    })
}

/// The text with single spaces, in which every word that contains a digit or is a month is
/// replaced.
fn alike(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut escape = false;
    for c in text.chars() {
        match c {
            '\u{1b}' => escape = true,
            _ if escape => escape = !c.is_ascii_alphabetic(),
            _ => plain.push(c),
        }
    }
    let mut alike = String::with_capacity(plain.len());
    for word in plain.split_whitespace() {
        if !alike.is_empty() {
            alike.push(' ');
        }
        let number = word.contains(|c: char| c.is_ascii_digit()) || MONTHS.contains(&word);
        alike.push_str(if number { "#" } else { word });
    }
    alike
}

/// The script that runs as `cargo` for the commands. It starts programs that are built already.
fn cargo(settings: &Settings) -> String {
    let xtask = match &settings.xtask {
        // The script's own directory comes first in the search path. It is removed, since `cargo`
        // would otherwise be this script again.
        Some(xtask) => format!(
            "shift; PATH=${{PATH#*:}} HOME='{}' exec '{}' \"$@\"",
            std::env::var("HOME").unwrap_or_default(),
            xtask.display()
        ),
        None => "exit 97".to_owned(),
    };
    format!(
        "#!/bin/sh\ncase \"$*\" in\n\"run --release -- \"*) shift 3; exec lightseal \"$@\" ;;\n\
         \"xtask test\"*|\"xtask documents\"*) echo 'not run from a document: it runs the documents' >&2; exit 97 ;;\n\
         \"xtask \"*) {xtask} ;;\n*) echo \"cargo $*: not run from a document\" >&2; exit 97 ;;\nesac\n"
    )
}

fn executable(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_spaces_may_differ_and_words_may_not() {
        let shown = ["carrying 127.0.0.1:5 to   x; 1 key".to_owned(), "...".to_owned()];
        assert_eq!(
            first_missing(&shown, "a\n\u{1b}[32mcarrying 10.0.0.1:7\u{1b}[0m to x; 2 key\n"),
            None
        );
        assert_eq!(first_missing(&shown, "carries 10.0.0.1:7 to x; 2 key\n"), Some(&shown[0]));
    }
}
