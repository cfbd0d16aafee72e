//! The claim `errors-exit-2`: the command is started with every kind of mistake.

use super::claim::Measured;
use crate::Failure;
use crate::program::LIGHTSEAL;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Number of bad starts.
pub(super) const COUNT: usize = STARTS.len();

/// Files that the command lines name, with their content. `%DIR/` stands for their folder.
const FILES: &[(&str, &str)] = &[
    ("good.psk", "sensor:000102030405060708090a0b0c0d0e0f\n"),
    ("other.psk", "sensor:ff0102030405060708090a0b0c0d0e0f\n"),
    ("stranger.psk", "stranger:000102030405060708090a0b0c0d0e0f\n"),
    ("empty.psk", "# no key at all\n"),
    ("colon.psk", "000102030405060708090a0b0c0d0e0f\n"),
    ("digits.psk", "# one\nsensor:xx0102030405060708090a0b0c0d0e0f\n"),
    ("short.psk", "sensor:0102\n"),
    ("twice.psk", "a:000102030405060708090a0b0c0d0e0f\na:ff0102030405060708090a0b0c0d0e0f\n"),
    ("syntax.toml", "[impair]\nloss =\n"),
    ("setting.toml", "[proxy.client]\nlisten = \"127.0.0.1:0\"\ncolour = \"red\"\n"),
    ("section.toml", "[proxy.middle]\n"),
    ("type.toml", "[impair]\nloss = true\n"),
    ("value.toml", "[impair]\nloss = \"200%\"\n"),
];

/// Command lines, each with the words that the line on standard error must contain. `%SERVER` is
/// the address of a server proxy that has the key of good.psk, `%TAKEN` an address in use, `%FREE`
/// an address with any free port, `%KEYS` the flag with a valid key file.
const STARTS: &[(&str, &str)] = &[
    // Keys.
    ("proxy client --listen %FREE --connect %SERVER --psk-file %DIR/other.psk", "another key"),
    ("proxy client --listen %FREE --connect %SERVER --psk-file %DIR/stranger.psk", "does not know"),
    ("proxy client --listen %FREE --connect %SERVER %KEYS --identity nobody", "nobody"),
    ("proxy client --listen %FREE --connect %SERVER --psk-file %DIR/no.psk", "no.psk"),
    ("proxy server --listen %FREE --connect %FREE --psk-file %DIR/no.psk", "no.psk"),
    ("proxy server --listen %FREE --connect %FREE --psk-file %DIR", "PSK file"),
    ("proxy server --listen %FREE --connect %FREE", "--psk-file"),
    ("proxy server --listen %FREE --connect %FREE --psk-file %DIR/empty.psk", "holds no key"),
    ("proxy server --listen %FREE --connect %FREE --psk-file %DIR/colon.psk", "line 1"),
    ("proxy server --listen %FREE --connect %FREE --psk-file %DIR/digits.psk", "line 2"),
    ("proxy client --listen %FREE --connect %FREE --psk-file %DIR/short.psk", "16 bytes"),
    ("proxy server --listen %FREE --connect %FREE --psk-file %DIR/twice.psk", "already has a key"),
    ("psk #1", "identity"),
    // Configuration files.
    ("impair --config %DIR/no.toml", "no.toml"),
    ("impair --config %DIR/syntax.toml", "line 2"),
    ("proxy client --config %DIR/setting.toml", "colour"),
    ("impair --config %DIR/section.toml", "proxy.middle"),
    ("impair --config %DIR/type.toml", "loss"),
    ("impair --config %DIR/value.toml", "probability"),
    // Addresses.
    ("proxy server --listen %TAKEN --connect %FREE %KEYS", "in use"),
    ("proxy client --listen %TAKEN --connect %SERVER %KEYS", "in use"),
    ("impair --listen %TAKEN --connect %FREE", "in use"),
    ("proxy client --listen %FREE --connect nowhere.invalid:5684 %KEYS", "nowhere.invalid"),
    ("impair --listen %FREE --connect nowhere.invalid:5684", "nowhere.invalid"),
    ("proxy server --listen 127.0.0.1 --connect %FREE %KEYS", "--listen"),
    ("proxy server --listen %FREE --connect 127.0.0.1:99999 %KEYS", "--connect"),
    ("proxy server --listen 192.0.2.1:5684 --connect %FREE %KEYS", "192.0.2.1"),
    ("proxy client --listen %FREE %KEYS", "--connect"),
    // Flags.
    ("impair --loss 200%", "probability"),
    ("impair --delay 20", "time"),
    ("impair --rate fast", "rate"),
    ("impair --lose 1%", "--loss"),
    ("demo --messages 1", "--messages"),
    ("proxy server --listen %FREE --connect %FREE %KEYS --max-flows 0", "--max-flows"),
    ("proxy server --listen %FREE --connect %FREE %KEYS --max-datagram 79", "79"),
    ("proxy server --listen %FREE --connect %FREE %KEYS --max-datagram 70000", "--max-datagram"),
    ("proxy server --listen %FREE --connect %FREE %KEYS --idle-timeout 0", "--idle-timeout"),
    ("proxy server --listen %FREE --connect %FREE %KEYS --aggregate agg:0", "agg:0"),
    ("proxy server --listen %FREE --connect %FREE %KEYS --cipher-suite RC4", "RC4"),
    ("proxy server --listen %FREE --connect %FREE %KEYS --group x448", "x448"),
    ("proxy server --listen %FREE --connect %FREE %KEYS --psk-mode none", "none"),
    (
        "proxy server --listen %FREE --connect %FREE %KEYS --aggregate agg:8 \
         --cipher-suite TLS_AES_128_GCM_SHA256",
        "aggregation",
    ),
    ("proxy server --listen %FREE --connect %FREE %KEYS --key-log %DIR/no/log", "key log"),
    ("proxy server --listen %FREE --connect %FREE %KEYS --stats-file %DIR/no/stats", "statistics"),
    // Commands.
    ("fly", "fly"),
    ("psk", "<IDENTITY>"),
];

/// How long a bad start may take to exit. A name server may be slow to refuse a name.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tries every bad start and counts those that end as they should.
pub(super) fn measure() -> Result<Measured, Failure> {
    let program = LIGHTSEAL.built()?;
    let failed = |error: std::io::Error| Failure::Failed(error.to_string());
    let folder = Folder::with_files().map_err(failed)?;
    let holder = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    let taken = holder.local_addr().map_err(failed)?.to_string();
    let folder_name = folder.0.display().to_string();
    let spelled = |text: &str| {
        let keys = format!("--psk-file {folder_name}/good.psk");
        let text = text.replace("%DIR", &folder_name).replace("%KEYS", &keys);
        text.replace("%FREE", "127.0.0.1:0").replace("%TAKEN", &taken)
    };
    let (_server, address) =
        server(&program, &spelled("proxy server --listen %FREE --connect %FREE %KEYS"))?;
    let mut detail = String::new();
    let mut good = 0;
    for (line, named) in STARTS {
        match answered(&program, &spelled(line).replace("%SERVER", &address), named) {
            Ok(()) => good += 1,
            Err(how) => detail += &format!("`lightseal {line}`: {how}\n"),
        }
    }
    detail += &format!("{good}/{COUNT} bad starts");
    Ok(Measured { figure: f64::from(good), detail })
}

/// Starts a server proxy and returns the address that it listens on.
fn server(program: &Path, line: &str) -> Result<(Running, String), Failure> {
    let mut server = Running::start(program, line).map_err(Failure::Failed)?;
    let says = server.0.stderr.take().map(BufReader::new);
    let says = says.and_then(|pipe| pipe.lines().next()?.ok()).unwrap_or_default();
    let mut words = says.split_whitespace().skip_while(|word| *word != "carrying");
    match words.nth(1) {
        Some(address) => Ok((server, address.to_owned())),
        None => Err(Failure::Failed(format!("the server proxy did not start: {says}"))),
    }
}

/// Whether a bad start ends with exit code 2 and one line that names the mistake.
fn answered(program: &Path, line: &str, named: &str) -> Result<(), String> {
    let mut child = Running::start(program, line)?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.0.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() >= deadline => return Err("it does not exit".into()),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let pipe = child.0.stderr.take().ok_or("no standard error")?;
    let said = std::io::read_to_string(pipe).map_err(|error| error.to_string())?;
    match (status.code(), said.lines().count()) {
        (Some(2), 1) if said.contains(named) => Ok(()),
        (Some(2), 1) => Err(format!("it does not name {named}: {said}")),
        (Some(2), lines) => Err(format!("{lines} lines: {said}")),
        (code, _) => Err(format!("exit code {code:?}: {said}")),
    }
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Running {
    fn start(program: &Path, line: &str) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.args(line.split_whitespace()).env_remove("LIGHTSEAL_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map(Self).map_err(|error| error.to_string())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary folder, removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn with_files() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("lightseal-claim-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        let folder = Self(path);
        for (name, content) in FILES {
            let path = folder.0.join(name);
            fs::write(&path, content)?;
            #[cfg(unix)]
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
