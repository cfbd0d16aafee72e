//! Two programs that exchange payloads, at least one of them on a board.

use super::images::{EMULATOR, Images};
use crate::Failure;
use serde_json::{Value, json};
use std::io::Read;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The UDP port of a server on a board.
const BOARD_PORT: u16 = 5684;

/// The address of the host as QEMU's user network shows it to a board.
const HOST: &str = "10.0.2.2";

/// The address of a server on a board that meets another board.
const SERVER_BOARD: &str = "10.0.2.20";

/// A meeting that has not ended after this time has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which end is where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// The client is on a board, the server on the host.
    BoardToHost,
    /// The client is on the host, the server on a board.
    HostToBoard,
    /// Each end is on a board of its own.
    BoardToBoard,
}

impl Ends {
    const fn described(self) -> &'static str {
        match self {
            Self::BoardToHost => "board to host",
            Self::HostToBoard => "host to board",
            Self::BoardToBoard => "board to board",
        }
    }
}

/// A client and a server that meet.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    pub(super) name: String,
    ends: Ends,
    client: Vec<String>,
    server: Vec<String>,
    /// Datagrams that an attacker sends to the board ahead of each genuine one.
    copies: u32,
    patience: Duration,
}

impl Meeting {
    /// A meeting whose ends both have these options of an exchange. The condition is a part of its
    /// name.
    pub(super) fn new(ends: Ends, version: &str, condition: &str, words: &str) -> Self {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let name = format!("{}, {version}{condition}", ends.described());
        let (client, server) = (words.clone(), words);
        let (copies, patience) = (0, PATIENCE);
        Self { name, ends, client, server, copies, patience }
            .for_client("seed=2")
            .for_server("seed=3")
    }

    /// With further options of the client.
    pub(super) fn for_client(mut self, words: &str) -> Self {
        self.client.extend(words.split_whitespace().map(str::to_owned));
        self
    }

    /// With further options of the server.
    pub(super) fn for_server(mut self, words: &str) -> Self {
        self.server.extend(words.split_whitespace().map(str::to_owned));
        self
    }

    /// Loses `permille` of 1000 datagrams in each direction, on a board.
    pub(super) fn with_loss(self, permille: u32) -> Self {
        let word = format!("loss={permille}");
        match self.ends {
            Ends::HostToBoard => self.for_server(&word),
            Ends::BoardToHost | Ends::BoardToBoard => self.for_client(&word),
        }
    }

    /// With an attacker on the host who sends this many datagrams ahead of each genuine one.
    pub(super) fn with_attacker(self, copies: u32) -> Self {
        Self { copies, ..self }
    }

    /// With another time after which the meeting has failed.
    pub(super) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Holds the meeting. The result says whether both ends succeeded, and what each reported.
    pub(super) fn hold(&self, images: &Images) -> Result<Value, Failure> {
        let (server, client) = self.commands(images)?;
        let deadline = Instant::now() + self.patience;
        let server = Program::start(server)?;
        let client = Program::start(client)?.end(deadline);
        let server = server.end(deadline);
        let met = client["succeeded"] == true && server["succeeded"] == true;
        Ok(json!({ "name": self.name, "met": met, "client": client, "server": server }))
    }

    /// The commands that start the server and the client.
    fn commands(&self, images: &Images) -> Result<(Command, Command), Failure> {
        let port = free_port()?;
        let with = |words: &[String], more: &[String]| [words, more].concat();
        match self.ends {
            Ends::BoardToHost => {
                let address = [format!("server={HOST}:{port}")];
                let words = with(&self.client, &address);
                let client = board(images, "dtls-client", "user,model=lan9118", &words);
                let bind = ["server".into(), "--bind".into(), format!("127.0.0.1:{port}")];
                Ok((self.host(images, &bind, &self.server), client))
            }
            Ends::HostToBoard => {
                let forward = format!("hostfwd=udp:127.0.0.1:{port}-:{BOARD_PORT}");
                let network = format!("user,model=lan9118,{forward}");
                let server = board(images, "dtls-server", &network, &self.server);
                let to = ["client".into(), "--server".into(), format!("127.0.0.1:{port}")];
                Ok((server, self.host(images, &to, &self.client)))
            }
            Ends::BoardToBoard => {
                let other = free_port()?;
                let link = |own, peer, mac: u8| {
                    format!(
                        "socket,model=lan9118,mac=52:54:00:12:34:{mac:02x},\
                         udp=127.0.0.1:{peer},localaddr=127.0.0.1:{own}"
                    )
                };
                let server = with(&self.server, &[format!("address={SERVER_BOARD}")]);
                let server = board(images, "dtls-server", &link(port, other, 1), &server);
                let address = [format!("server={SERVER_BOARD}:{BOARD_PORT}")];
                let client = with(&self.client, &address);
                let client = board(images, "dtls-client", &link(other, port, 2), &client);
                Ok((server, client))
            }
        }
    }

    /// The command that starts the host's end.
    fn host(&self, images: &Images, end: &[String], words: &[String]) -> Command {
        let mut command = Command::new(&images.host);
        command.args(end).args(["--copies", &self.copies.to_string()]).args(words);
        command
    }
}

/// The command that starts a board with an image, a network and a command line.
fn board(images: &Images, image: &str, network: &str, words: &[String]) -> Command {
    let arguments: String = words.iter().map(|word| format!(",arg={word}")).collect();
    let mut command = Command::new(EMULATOR);
    command.args(["-M", "mps2-an385", "-display", "none", "-serial", "null", "-monitor", "none"]);
    command.args(["-semihosting-config", &format!("enable=on,target=native{arguments}")]);
    command.args(["-nic", network]).arg("-kernel").arg(images.image(image));
    command
}

/// A port of UDP that was free a moment ago.
fn free_port() -> Result<u16, Failure> {
    let bound = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    bound.map(|address| address.port()).map_err(|e| Failure::NotPossibleHere(e.to_string()))
}

/// A running end of a meeting. It is ended with this value.
struct Program(Child);

impl Program {
    fn start(mut command: Command) -> Result<Self, Failure> {
        // The emulator warns on standard error of each frame for which the board has no room.
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = command.spawn().map(Self);
        started.map_err(|error| Failure::NotPossibleHere(error.to_string()))
    }

    /// Waits for the end of the program, and returns its report. A program that fails without one
    /// has an object without counters, with the text that it printed.
    fn end(mut self, deadline: Instant) -> Value {
        while Instant::now() < deadline && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = matches!(self.0.try_wait(), Ok(Some(_)));
        if !ended {
            return json!({ "succeeded": false, "ended": false });
        }
        let mut text = String::new();
        if let Some(mut output) = self.0.stdout.take() {
            // Text that is no text is no report either.
            let _ = output.read_to_string(&mut text);
        }
        let report = serde_json::from_str(text.trim());
        report.unwrap_or_else(|_| json!({ "succeeded": false, "printed": text.trim() }))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A program that has ended already is no error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
