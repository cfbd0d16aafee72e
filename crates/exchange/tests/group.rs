//! Members of a group against each other, in virtual time, on a link that carries each datagram
//! after a millisecond.

use exchange::group::{GroupMember, GroupOptions, PORT};
use exchange::{Exchange, Lossy, Options, Request};
use lightseal_core::{AddressPair, Engine, Instant, Output};
use lightseal_group::policy::Responses;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const DELAY: Duration = Duration::from_millis(1);

struct Link {
    members: Vec<Lossy<GroupMember>>,
    addresses: Vec<IpAddr>,
    now: Instant,
    over: Vec<bool>,
    /// Sender, destination and datagram.
    under_way: Vec<(usize, SocketAddr, Vec<u8>)>,
}

impl Link {
    fn new(words: &str, loss: u32) -> Self {
        let (mut options, mut group) = (Options::default(), GroupOptions::default());
        // Members of both kinds in turn.
        let is_mixed = words.contains("mixed");
        for word in words.split_whitespace().filter(|word| *word != "mixed") {
            let (name, value) = word.split_once('=').unwrap();
            let is_known = options.set(name, value).unwrap() || group.set(name, value).unwrap();
            assert!(is_known, "{word}");
        }
        let member = |number: u8| {
            let heap = if is_mixed { number % 2 == 1 } else { group.heap };
            let group = GroupOptions { member: number, heap, ..group.clone() };
            let options = Options { seed: u64::from(number) + 1, ..options.clone() };
            let member = GroupMember::new(&options, &group, Instant::ZERO).unwrap();
            Lossy::new(member, loss, u64::from(number) + 100)
        };
        let members: Vec<_> = (0..group.members).map(member).collect();
        let addresses = (0..group.members).map(|number| group.address(number).into()).collect();
        let over = vec![false; members.len()];
        Self { members, addresses, now: Instant::ZERO, over, under_way: Vec::new() }
    }

    /// Delivers what is under way, to all others if it is multicast.
    fn deliver(&mut self) {
        for (from, to, datagram) in std::mem::take(&mut self.under_way) {
            let peer = SocketAddr::new(self.addresses[from], PORT);
            for at in 0..self.members.len() {
                if at != from && (to.ip().is_multicast() || to.ip() == self.addresses[at]) {
                    let way = AddressPair { peer, local: Some(to.ip()) };
                    self.members[at].handle_datagram_on(self.now, way, &mut datagram.clone());
                }
            }
        }
    }

    fn run(&mut self) {
        while self.over.contains(&false) {
            self.now += DELAY;
            assert!(self.now < Instant::from_micros(100_000_000), "it does not end");
            self.deliver();
            for (at, member) in self.members.iter_mut().enumerate() {
                member.handle_timeout(self.now);
                let mut buf = [0; 1500];
                loop {
                    match member.poll_output(&mut buf) {
                        Output::Datagram { to, payload } => {
                            self.under_way.push((at, to, payload.to_vec()));
                        }
                        Output::Event(request) => self.over[at] |= request == Request::End,
                        _ => break,
                    }
                }
            }
        }
    }
}

/// Runs a group, in which every member must succeed.
fn succeeds(words: &str, loss: u32) -> Vec<Lossy<GroupMember>> {
    let mut link = Link::new(words, loss);
    link.run();
    for member in &link.members {
        let mut report = String::new();
        member.engine().report(&mut report).unwrap();
        assert!(member.engine().succeeded(), "{words}, {loss}: {report}",);
    }
    link.members
}

const GROUPS: [&str; 8] = [
    "profile=axiom-1.2",
    "profile=compact",
    "profile=axiom-1.2 heap=false",
    "profile=compact heap=false",
    "profile=compact mixed",
    "profile=compact responses=pairwise",
    "profile=compact authenticity=source",
    "profile=compact authenticity=source responses=pairwise",
];

#[test]
fn every_request_is_delivered_and_answered_once_in_every_form() {
    for group in GROUPS {
        let members = succeeds(&format!("{group} members=4 payloads=50 timeout=20"), 0);
        let sender = members[0].engine().counters();
        assert_eq!(sender.requests, 50);
        let mut answered = 0;
        for listener in &members[1..] {
            let listener = listener.engine().counters();
            assert_eq!(listener.delivered, 50, "{group}: {listener:?}");
            answered += listener.delivered + listener.early + listener.direct_delivered;
        }
        assert_eq!(sender.responses, answered, "{group}");
    }
}

#[test]
fn all_members_may_be_senders() {
    for group in GROUPS {
        let members = succeeds(&format!("{group} members=3 senders=3 payloads=20 timeout=20"), 0);
        for member in members {
            assert_eq!(member.engine().counters().delivered, 40, "{group}");
        }
    }
}

#[test]
fn loss_and_new_keys_change_nothing_but_the_number() {
    for group in GROUPS {
        let words = format!("{group} members=3 payloads=200 timeout=20 rekey=100");
        let members = succeeds(&words, 100);
        for listener in &members[1..] {
            let delivered = listener.engine().counters().delivered;
            assert!((120..200).contains(&delivered), "{group}: {delivered}");
        }
        assert!(members.iter().all(|member| member.engine().counters().rekeyed == 1), "{group}");
    }
}

#[test]
fn impossible_groups_are_refused() {
    let pairwise =
        GroupOptions { heap: false, responses: Responses::Pairwise, ..GroupOptions::default() };
    assert!(GroupMember::new(&Options::default(), &pairwise, Instant::ZERO).is_none());
    for (members, senders, member) in [(65, 1, 0), (2, 0, 0), (2, 3, 0), (2, 1, 2)] {
        let group = GroupOptions { members, senders, member, ..GroupOptions::default() };
        assert!(GroupMember::new(&Options::default(), &group, Instant::ZERO).is_none());
    }
}
