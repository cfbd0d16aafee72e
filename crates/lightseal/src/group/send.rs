//! `lightseal group send`.

use super::member::{MemberArgs, Role, stopped};
use crate::failure::{Context, Failure};
use crate::units::Quantity;
use clap::Args;
use lightseal_core::{Decode, Encode, Writer};
use lightseal_group::directory::{Lookup, Names};
use lightseal_group::member::Listener;
use lightseal_group_host::member::{ApplicationPort, Datagram, Destination, HEADER, Origin};
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The port to which answers are addressed: a number that a socket could get, but that no socket
/// here has.
const SOURCE: u16 = 61_616;
/// How long an answer waits for the name of its device before it is printed without the name.
const NAMING: Duration = Duration::from_millis(500);
/// Maximum number of pages of names that are asked for. A page has the names of 16 devices.
const MOST_PAGES: usize = 256;
/// Maximum length of a message in bytes. Longer ones do not fit into a datagram.
const MAX_MESSAGE: u64 = 60_000;

#[derive(Clone, Debug, Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Message to send, or - for standard input.
    pub(crate) message: String,
    /// Port of the application that the message is for.
    #[arg(long, value_name = "PORT", default_value_t = 5683)]
    pub(crate) port: u16,
    /// How long to wait for answers after the message was sent.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub(crate) wait: Quantity<Duration>,
    /// Exit after this many answers, and fail if fewer come.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Print each answer as a line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

struct SingleRequest<'a> {
    message: Option<&'a [u8]>,
    destination: u16,
    json: bool,
    answers: u64,
    count: Option<u64>,
    sent: Arc<Notify>,
    names: Directory,
    /// Answers that are printed once the name of the device is known, or at this time without it.
    unnamed: VecDeque<(Instant, Origin, Vec<u8>)>,
}

impl SingleRequest<'_> {
    /// Prints the answers whose device's name is known or has not come in time.
    fn print(&mut self, now: Instant) {
        let names = &self.names;
        let json = self.json;
        self.unnamed.retain(|(at, origin, datagram)| {
            let known = names.get(*origin);
            if known.is_none() && now < *at {
                return true;
            }
            if let Ok(datagram) = Datagram::decode(datagram) {
                print(*origin, known.flatten(), &datagram, json);
            }
            false
        });
    }
}

/// The names of devices that answer, in pages as the controller gives them out. They are names of
/// one epoch: at a rekey all are forgotten.
#[derive(Default)]
struct Directory {
    pages: BTreeMap<Lookup, Option<Names>>,
    wanted: VecDeque<Lookup>,
}

impl Directory {
    /// The page that has a listener's name; none where it is known by its address.
    fn page(origin: Origin) -> Option<(Lookup, u32)> {
        match origin {
            Origin::Listener(Listener::Id(id)) => Some((Lookup::listener(id), id.get())),
            _ => None,
        }
    }

    /// Has the page asked for that has a listener's name, the first time.
    fn want(&mut self, origin: Origin) {
        let Some((page, _)) = Self::page(origin) else { return };
        if !self.pages.contains_key(&page) && self.pages.len() < MOST_PAGES {
            self.pages.insert(page, None);
            self.wanted.push_back(page);
        }
    }

    /// Forgets all names, because IDs may belong to other devices after a rekey.
    fn forget(&mut self) {
        self.pages.clear();
        self.wanted.clear();
    }

    /// A listener's name. The outer `None`: it may still come.
    fn get(&self, origin: Origin) -> Option<Option<&str>> {
        let Some((page, id)) = Self::page(origin) else { return Some(None) };
        match self.pages.get(&page) {
            Some(page) => page.as_ref().map(|names| names.get(id)),
            None => Some(None),
        }
    }
}

impl ApplicationPort for SingleRequest<'_> {
    /// The request is taken only when it can be sent, since `--wait` counts from that time.
    fn may_wait(&self) -> bool {
        false
    }

    async fn receive(&mut self, buf: &mut [u8]) -> io::Result<(Destination, usize)> {
        let Some(data) = self.message.take() else {
            while let Some((at, ..)) = self.unnamed.front() {
                tokio::time::sleep_until((*at).into()).await;
                self.print(Instant::now());
            }
            if self.count.is_some_and(|count| self.answers >= count) {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            return std::future::pending().await;
        };
        let mut w = Writer::new(buf);
        let datagram = Datagram { source: SOURCE, destination: self.destination, data };
        datagram.write(&mut w).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.sent.notify_one();
        Ok((Destination::Group, w.len()))
    }

    fn deliver(&mut self, origin: Origin, datagram: Datagram<'_>) {
        if matches!(origin, Origin::Listener(_)) && datagram.destination == SOURCE {
            self.answers += 1;
            self.names.want(origin);
            let mut whole = vec![0; HEADER + datagram.data.len()];
            datagram.write(&mut Writer::new(&mut whole)).expect("as long as it was");
            let now = Instant::now();
            self.unnamed.push_back((now + NAMING, origin, whole));
            self.print(now);
        }
    }

    fn names_wanted(&mut self) -> Option<Lookup> {
        self.names.wanted.pop_front()
    }

    fn learn_names(&mut self, names: Names) {
        // Names that were not asked for since the last rekey are not stored.
        if let Some(page) = self.names.pages.get_mut(&names.lookup) {
            *page = Some(names);
        }
        self.print(Instant::now());
    }

    /// Answers that wait for a name are printed without it: their IDs are of the epoch before.
    fn rekeyed(&mut self) {
        self.names.forget();
        self.print(Instant::now());
    }
}

/// Prints a message as text if it is text, else in hexadecimal.
pub(super) fn print(origin: Origin, name: Option<&str>, datagram: &Datagram<'_>, as_json: bool) {
    let hex = || datagram.data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = std::str::from_utf8(datagram.data).ok();
    let text = text.filter(|text| !text.chars().any(|c| c.is_control() && c != '\t'));
    let from = described(origin);
    let line = if as_json {
        let Datagram { source, destination, .. } = datagram;
        let line = json!({ "from": from, "name": name, "source": source,
                           "destination": destination, "text": text, "hex": hex() });
        escaped(&line.to_string())
    } else {
        let from = name.map_or_else(|| from.clone(), |name| format!("{} ({from})", shown(name)));
        format!("{from}: {}", text.map_or_else(hex, str::to_owned))
    };
    // If standard output is closed, nobody is there to read the line.
    let _ = writeln!(io::stdout(), "{line}");
}

/// Whether a character changes the direction or the order in which a terminal shows the text
/// around it (Unicode Standard Annex 9).
const fn is_bidirectional_control(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// A name as it is printed for people. A device could otherwise have a name that makes the rest of
/// the line look like that of another device.
fn shown(name: &str) -> String {
    name.replace(is_bidirectional_control, "\u{fffd}")
}

/// A line of JSON whose bidirectional control characters, all of them in strings, are escaped.
fn escaped(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    for c in json.chars() {
        if is_bidirectional_control(c) {
            line.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            line.push(c);
        }
    }
    line
}

fn described(origin: Origin) -> String {
    match origin {
        Origin::Sender(sender) | Origin::DirectSender(sender) => format!("sender {}", sender.0),
        Origin::Listener(Listener::Id(listener)) => format!("listener {}", listener.get()),
        Origin::Listener(Listener::Address(address)) => format!("listener {address}"),
    }
}

pub(super) async fn run(args: &SendArgs) -> Result<(), Failure> {
    let mut message = args.message.clone().into_bytes();
    if args.message == "-" {
        message.clear();
        let read = io::stdin().take(MAX_MESSAGE).read_to_end(&mut message);
        read.context("standard input")?;
    }
    let mut host = args.member.join_at_once(Role::Sender).await?;
    let mut once = SingleRequest {
        message: Some(&message),
        destination: args.port,
        json: args.json,
        answers: 0,
        count: args.count,
        sent: Arc::default(),
        names: Directory::default(),
        unnamed: VecDeque::new(),
    };
    let sent = Arc::clone(&once.sent);
    let waited = async {
        sent.notified().await;
        tokio::time::sleep(args.wait.0).await;
    };
    let mut enough = false;
    tokio::select! {
        ended = host.run(&mut once) => match ended {
            Err(lightseal_group_host::member::MemberHostError::Port(error))
                if error.kind() == io::ErrorKind::Interrupted => enough = true,
            ended => ended.map_err(Failure::new)?,
        },
        () = waited => {}
        () = stopped() => {}
    }
    // Answers whose names have not come.
    once.print(Instant::now() + NAMING);
    host.close().map_err(Failure::new)?;
    match args.count {
        Some(count) if !enough && once.answers < count => {
            let answers = once.answers;
            Err(Failure::new(format_args!("{answers} of {count} answers came in time")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_group::ListenerId;

    fn names(lookup: Lookup, epoch: u64, name: &str) -> Names {
        Names { lookup, epoch, names: vec![(17, name.to_owned())] }
    }

    /// After the rekey the ListenerID may belong to another device.
    #[test]
    fn no_name_of_before_a_rekey_is_printed_after_it() {
        let mut once = SingleRequest {
            message: None,
            destination: 5683,
            json: false,
            answers: 0,
            count: None,
            sent: Arc::default(),
            names: Directory::default(),
            unnamed: VecDeque::new(),
        };
        let id = ListenerId::new(17).unwrap();
        let (origin, page) = (Origin::Listener(Listener::Id(id)), Lookup::listener(id));
        let answer = Datagram { source: 5683, destination: SOURCE, data: b"done" };
        once.deliver(origin, answer);
        assert_eq!(once.names_wanted(), Some(page));
        once.learn_names(names(page, 1, "lamp"));
        assert_eq!(once.names.get(origin), Some(Some("lamp")));
        assert!(once.unnamed.is_empty());
        once.rekeyed();
        assert_eq!(once.names.get(origin), Some(None));
        // The page is asked for again when the ListenerID answers again.
        once.deliver(origin, answer);
        assert_eq!(once.names_wanted(), Some(page));
        // An answer that waits for its name when a rekey comes is printed without one.
        assert_eq!(once.unnamed.len(), 1);
        once.rekeyed();
        assert!(once.unnamed.is_empty());
        once.learn_names(names(page, 2, "other"));
        assert_eq!(once.names.get(origin), Some(None));
    }

    #[test]
    fn a_printed_name_cannot_turn_the_text_around_it() {
        for c in ['\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}'] {
            assert_eq!(shown(&format!("la{c}mp")), "la\u{fffd}mp");
            let line = json!({ "name": format!("la{c}mp") }).to_string();
            let escaped = escaped(&line);
            assert!(escaped.is_ascii());
            let read: serde_json::Value = serde_json::from_str(&escaped).unwrap();
            assert_eq!(read["name"], format!("la{c}mp"));
        }
        assert_eq!(shown("Türschloß שלום"), "Türschloß שלום");
    }
}
