//! A PostgreSQL server of a test's own.

use crate::ports::own_port;
use crate::program::TempDir;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The user that the server runs as if the test runs as root, which it refuses.
const NOBODY: u32 = 65_534;

/// Whether the server writes to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// What is committed survives the server, and not the machine. It is faster.
    Process,
    /// What is committed survives the machine.
    Machine,
}

/// A server with data of its own, which it listens for on 127.0.0.1 and on a Unix socket. Dropping it
/// stops it and removes the data.
#[derive(Debug)]
pub struct Postgres {
    dir: TempDir,
    programs: PathBuf,
    port: u16,
    durability: Durability,
    server: Option<Child>,
    /// Whether the data is on a disk of its own.
    is_mounted: bool,
}

impl Postgres {
    /// Makes the data and starts the server.
    ///
    /// # Errors
    ///
    /// Why there is no server on this machine: the test is skipped then.
    pub fn start(durability: Durability) -> Result<Self, String> {
        Self::begin(durability, None)
    }

    fn begin(durability: Durability, small_disk: Option<u32>) -> Result<Self, String> {
        let programs = programs().ok_or("no initdb (Debian's package postgresql)")?;
        if is_root() {
            skip::program_there("setpriv", "util-linux")?;
        }
        let dir = TempDir::new();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(""), open).unwrap();
        for name in ["data", "socket"] {
            std::fs::create_dir(dir.path(name)).unwrap();
            if is_root() {
                chown(dir.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let port = own_port();
        let mut server = Self { dir, programs, port, durability, server: None, is_mounted: false };
        if let Some(mebibytes) = small_disk {
            server.mount(mebibytes)?;
        }
        let data = server.dir.path("data");
        let flags = ["--no-sync", "--auth=trust", "--username=postgres", "--no-locale"];
        let mut initdb = server.program("initdb");
        let made = initdb.args(flags).args(["--encoding=UTF8", "--pgdata", &data]);
        let made = made.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.resume();
        Ok(server)
    }

    /// Does what [`start`](Self::start) does, with data on a disk of its own of this size, in MiB, which [`fill_disk`](Self::fill_disk) fills.
    ///
    /// # Errors
    ///
    /// Why there is no such server on this machine.
    pub fn start_on_small_disk(mebibytes: u32) -> Result<Self, String> {
        Self::begin(Durability::Machine, Some(mebibytes))
    }

    /// Fills the disk until the server cannot write any more.
    pub fn fill_disk(&self) {
        let mut filler = std::fs::File::create(self.dir.path("data/filler")).unwrap();
        let zeros = vec![0; 1 << 20];
        while filler.write_all(&zeros).is_ok() {}
        // What the server has set aside for its log is used up, too: it ends then.
        let more = "SELECT pg_logical_emit_message(true, 'filler', repeat('x', 1 << 20))";
        for _ in 0..2000 {
            if self.query(more).is_err() {
                return;
            }
        }
        panic!("the disk is never full");
    }

    /// Makes room again. The server is stopped.
    pub fn free_disk(&self) {
        std::fs::remove_file(self.dir.path("data/filler")).unwrap();
    }

    /// A program of PostgreSQL, as the user that owns the data.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            let id = NOBODY.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--pdeathsig", "KILL"]);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.dir.path("data")).stdin(Stdio::null());
        command
    }

    /// Starts the server again after [`stop`](Self::stop) or [`kill`](Self::kill).
    pub fn resume(&mut self) {
        assert!(self.server.is_none(), "it runs");
        let log = std::fs::File::options().append(true).create(true).open(self.dir.path("log"));
        let durable = if self.durability == Durability::Machine { "on" } else { "off" };
        let mut server = self.program("postgres");
        server.args(["-D", &self.dir.path("data"), "-k", &self.dir.path("socket")]);
        server.args(["-p", &self.port.to_string(), "-h", "127.0.0.1"]);
        let settings = ["max_connections=40", "shared_buffers=16MB", "autovacuum=off"];
        let durable = [format!("fsync={durable}"), format!("full_page_writes={durable}")];
        for setting in settings.into_iter().chain(durable.iter().map(String::as_str)) {
            server.args(["-c", setting]);
        }
        server.stdout(Stdio::null()).stderr(log.unwrap());
        self.server = Some(server.spawn().unwrap());
        for _ in 0..600 {
            if self.query("SELECT 1").is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.dir.path("log")).unwrap_or_default();
        panic!("the server does not start: {log}");
    }

    /// Stops the server and its connections at once, in an orderly way.
    pub fn stop(&mut self) {
        self.end("-INT");
    }

    /// Stops the server without an orderly end: it recovers when it is started again.
    pub fn kill(&mut self) {
        self.end("-QUIT");
    }

    fn end(&mut self, signal: &str) {
        let Some(mut server) = self.server.take() else { return };
        let sent = Command::new("kill").args([signal, &server.id().to_string()]).status();
        let ended = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            matches!(server.try_wait(), Ok(Some(_)))
        });
        if !ended || !sent.is_ok_and(|sent| sent.success()) {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Has the server go on as a standby does that becomes the primary server: on a new timeline. It was
    /// stopped, and has all writes.
    pub fn promote(&mut self) {
        assert!(self.server.is_none(), "it runs");
        let data = self.dir.path("data");
        self.set("restore_command = 'false'");
        let signal = format!("{data}/recovery.signal");
        std::fs::write(&signal, "").unwrap();
        if is_root() {
            chown(&signal, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        self.resume();
        for _ in 0..600 {
            if self.query("SELECT pg_is_in_recovery()").is_ok_and(|answer| answer == "f") {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server stays a standby");
    }

    /// Copies the data of the server, which is stopped, to a folder beside it.
    pub fn back_up(&self, name: &str) {
        self.copy("data", name);
    }

    /// Puts a copy in the place of the data of the server, which is stopped.
    pub fn restore(&self, name: &str) {
        std::fs::remove_dir_all(self.dir.path("data")).unwrap();
        self.copy(name, "data");
    }

    fn copy(&self, from: &str, to: &str) {
        assert!(self.server.is_none(), "it runs");
        let (from, to) = (self.dir.path(from), self.dir.path(to));
        let copied = Command::new("cp").args(["-a", &from, &to]).status();
        assert!(copied.unwrap().success());
    }

    /// The address of the database, over the Unix socket.
    pub fn url(&self) -> String {
        let socket = self.dir.path("socket");
        format!("host={socket} port={} user=postgres dbname=postgres", self.port)
    }

    /// Has the server, which is stopped, take TLS connections with this certificate and key, in PEM form.
    pub fn encrypt(&self, certificate: &str, key: &str) {
        assert!(self.server.is_none(), "it runs");
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.dir.path(&format!("data/{name}"));
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            if is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        self.set("ssl = on");
    }

    /// Adds a setting.
    fn set(&self, setting: &str) {
        let settings = self.dir.path("data/postgresql.auto.conf");
        let mut settings = std::fs::File::options().append(true).open(settings).unwrap();
        writeln!(settings, "{setting}").unwrap();
    }

    /// The port at which it listens on the loopback interface.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Puts the folder of the data into memory, with a limit.
    fn mount(&mut self, mebibytes: u32) -> Result<(), String> {
        if !is_root() {
            return Err("mounting needs root".into());
        }
        let options = format!("size={mebibytes}m,uid={NOBODY},gid={NOBODY},mode=700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs", &self.dir.path("data")]);
        let mounted = mount.output().map_err(|error| error.to_string())?;
        self.is_mounted = mounted.status.success();
        match self.is_mounted {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&mounted.stderr).trim().to_owned()),
        }
    }

    /// The address of the database, over TCP.
    pub fn tcp_url(&self) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs a statement, and returns what psql prints: a line for each row, columns separated by `|`.
    ///
    /// # Errors
    ///
    /// What psql complains about.
    pub fn query(&self, statement: &str) -> Result<String, String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "-d", &self.url()]);
        psql.args(["-v", "ON_ERROR_STOP=1", "-c", statement]).stdin(Stdio::null());
        let ran = psql.output().map_err(|error| error.to_string())?;
        match ran.status.success() {
            true => Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end("-QUIT");
        if self.is_mounted {
            let _ = Command::new("umount").arg(self.dir.path("data")).status();
        }
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Where the newest server's programs are. Debian has them outside of the search path.
fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> = debian.map(|entry| entry.path().join("bin")).collect();
    folders.sort_by_key(|folder| version(folder));
    folders.reverse();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    folders.into_iter().find(|folder| folder.join("initdb").is_file())
}

/// The version in `/usr/lib/postgresql/15/bin`.
fn version(folder: &Path) -> u32 {
    let name = folder.parent().and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().parse().unwrap_or(0)
}
