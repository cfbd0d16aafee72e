//! Two programs that exchange payloads, at least one of them on a board.

use super::images::Images;
use super::programs::{Program, board, free_port};
use crate::Failure;
use serde_json::{Value, json};
use std::process::Command;
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
    /// As the first, with a client in embassy.
    EmbassyToHost,
    /// A board signs messages, and the host verifies them.
    SignerToHost,
}

impl Ends {
    const fn described(self) -> &'static str {
        match self {
            Self::BoardToHost => "board to host",
            Self::HostToBoard => "host to board",
            Self::BoardToBoard => "board to board",
            Self::EmbassyToHost => "embassy to host",
            Self::SignerToHost => "signer to host",
        }
    }
}

/// A client and a server that meet, or a signer and a verifier.
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
            _ => self.for_client(&word),
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
            Ends::BoardToHost | Ends::EmbassyToHost | Ends::SignerToHost => {
                let (image, role) = match self.ends {
                    Ends::SignerToHost => ("lightmac-signer", "verifier"),
                    Ends::EmbassyToHost => ("embassy-client", "server"),
                    _ => ("dtls-client", "server"),
                };
                let address = [format!("server={HOST}:{port}")];
                let words = with(&self.client, &address);
                let client = board(images, image, "user,model=lan9118", &words);
                let bind = [role.into(), "--bind".into(), format!("127.0.0.1:{port}")];
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

/// A meeting as a row of the table.
pub(super) fn line(row: &Value) -> String {
    let (client, server) = (&row["client"], &row["server"]);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let lost = number(&client["lost"]) + number(&server["lost"]);
    if client["role"] == "signer" {
        return format!(
            "{:3} messages verified, {:4} altered ones refused of {:4}, {lost:3} datagrams lost",
            number(&client["confirmed"]),
            number(&client["refused"]),
            number(&server["altered_sent"]),
        );
    }
    format!(
        "{:3} handshakes of {:6.1} ms, {:4} payloads echoed, {lost:3} datagrams lost",
        number(&client["completed"]),
        number(&client["handshake_us"]) as f64 / 1000.0,
        number(&client["echoed"]),
    )
}
