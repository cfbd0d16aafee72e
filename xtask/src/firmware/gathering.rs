//! Boards that are members of a multicast group, on one link.

use super::images::Images;
use super::programs::{Program, board, free_port};
use crate::Failure;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// A gathering that has not ended after this time has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The link ends when it has carried nothing for this time, in milliseconds. Members have ended
/// before.
const QUIET_LINK: u32 = 3000;

/// Where the members of a group keep what they know of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// On the heap.
    Heap,
    /// In the member itself, whose memory has a fixed size.
    Fixed,
    /// On the heap at members of odd numbers, and else in the member itself.
    Mixed,
}

impl Memory {
    /// Whether a member uses the heap.
    const fn is_heap(self, member: u8) -> bool {
        match self {
            Self::Heap => true,
            Self::Fixed => false,
            Self::Mixed => member % 2 == 1,
        }
    }
}

/// The boards of a group.
#[derive(Clone, Debug)]
pub(super) struct Gathering {
    pub(super) name: String,
    members: u8,
    senders: u8,
    words: Vec<String>,
    /// How many of 1000 datagrams each member loses, in each direction.
    loss: u32,
    memory: Memory,
    /// Datagrams that an attacker on the link sends ahead of each genuine one.
    copies: u32,
}

impl Gathering {
    /// A group of `members`, of which the first `senders` send requests. The condition is a part of
    /// the name.
    pub(super) fn new(
        profile: &str,
        (members, senders): (u8, u8),
        condition: &str,
        words: &str,
    ) -> Self {
        let name = format!("group of {members}, {profile}{condition}");
        let group = format!("profile={profile} members={members} senders={senders}");
        let words = group.split_whitespace().chain(words.split_whitespace());
        let words = words.map(str::to_owned).collect();
        Self { name, members, senders, words, loss: 0, memory: Memory::Heap, copies: 0 }
    }

    /// With loss at each member.
    pub(super) fn with_loss(self, permille: u32) -> Self {
        Self { loss: permille, ..self }
    }

    /// With members of this kind.
    pub(super) fn with_memory(self, memory: Memory) -> Self {
        Self { memory, ..self }
    }

    /// With an attacker on the link.
    pub(super) fn with_attacker(self, copies: u32) -> Self {
        Self { copies, ..self }
    }

    /// Starts the link and the boards, and waits for their reports.
    pub(super) fn hold(&self, images: &Images) -> Result<Value, Failure> {
        let deadline = Instant::now() + PATIENCE;
        let (link, boards) = self.commands(images)?;
        let link = Program::start(link)?;
        let boards = boards.into_iter().map(Program::start).collect::<Result<Vec<_>, _>>()?;
        let members: Vec<_> = boards.into_iter().map(|board| board.end(deadline)).collect();
        let link = link.end(deadline);
        Ok(self.judged(&members, &link))
    }

    /// The commands that start the link and the boards. The senders are started last.
    fn commands(&self, images: &Images) -> Result<(Command, Vec<Command>), Failure> {
        let hub = free_port()?;
        let mut link = Command::new(&images.host);
        link.args(["link", "--bind", &format!("127.0.0.1:{hub}")]);
        link.args(["--copies", &self.copies.to_string(), &format!("quiet={QUIET_LINK}")]);
        let mut boards = Vec::new();
        for member in (0..self.members).rev() {
            let own = free_port()?;
            link.args(["--board", &format!("127.0.0.1:{own}")]);
            let network = format!(
                "socket,model=lan9118,mac=52:54:00:12:35:{member:02x},\
                 udp=127.0.0.1:{hub},localaddr=127.0.0.1:{own}"
            );
            let own = [format!("member={member}"), format!("seed={}", u32::from(member) + 10)];
            let heap = self.memory.is_heap(member);
            let further = [format!("loss={}", self.loss), format!("heap={heap}")];
            let words = [&self.words[..], &own, &further].concat();
            boards.push(board(images, "group-member", &network, &words));
        }
        Ok((link, boards))
    }

    /// The reports with their sums. A request counts once for each member that should get it.
    fn judged(&self, members: &[Value], link: &Value) -> Value {
        let sum = |key: &str| members.iter().map(|member| number(&member[key])).sum::<u64>();
        let others = u64::from(self.members.saturating_sub(1));
        let expected = sum("requests") * others;
        let (delivered, lost) = (sum("delivered"), sum("lost"));
        let missed = expected.saturating_sub(delivered);
        let senders = members.iter().filter(|member| number(&member["requests"]) > 0);
        let unsent: u64 = senders.map(|sender| number(&sender["lost_sent"])).sum();
        // What a sender loses is missed by every other member, and so is a request under new keys by
        // a member that lost their announcement.
        let explained = unsent * others + lost - sum("lost_sent") + sum("strangers");
        let succeeded = members.iter().all(|member| member["succeeded"] == true);
        let has_links = link["succeeded"] == true;
        let met = succeeded && has_links && expected > 0 && delivered <= expected;
        json!({
            "name": self.name,
            "met": met && missed <= explained,
            "boards": self.members,
            "senders": self.senders,
            "requests": sum("requests"),
            "delivered": delivered,
            "missed": missed,
            "forged": sum("alien") + sum("replayed"),
            "responses": sum("responses"),
            "lost": lost,
            "altered": number(&link["altered"]),
            "members": members,
            "link": link,
        })
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A gathering as a row of the table.
pub(super) fn line(row: &Value) -> String {
    format!(
        "{:3} requests delivered {:4} times, missed {:3}, {:4} responses, {:3} datagrams lost, {:4} \
         altered",
        number(&row["requests"]),
        number(&row["delivered"]),
        number(&row["missed"]),
        number(&row["responses"]),
        number(&row["lost"]),
        number(&row["altered"]),
    )
}
