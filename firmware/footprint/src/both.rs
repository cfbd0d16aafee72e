//! Both ends in one image. Their datagrams become the transcript for images with one end.

use crate::client::Client;
use crate::meter::{measured, value};
use crate::server::Server;
use crate::settings::{self, PAYLOAD, RECORDS, SESSIONS};
use crate::solo::{End, check_received};
use crate::transcript::{Kind, LONGEST, Writer};
use crate::{heap, machine};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_dtls::Settings;

/// A datagram on its way, with its sender.
type Flying = (Kind, Vec<u8>);

struct Pair {
    client: Client,
    server: Server,
    link: VecDeque<Flying>,
    buffer: [u8; LONGEST],
    transcript: Writer,
}

impl Pair {
    fn new(client: Client, server: Server) -> Self {
        let (link, transcript) = (VecDeque::new(), Writer::new());
        Self { client, server, link, buffer: [0; LONGEST], transcript }
    }

    /// Performs the handshake in steps of this name.
    fn shake_hands(&mut self, step: &str) {
        self.settle(step);
        if !(self.client.is_connected() && self.server.is_connected()) {
            machine::fail("the handshake is not complete");
        }
    }

    /// Delivers datagrams until none is left.
    fn settle(&mut self, step: &str) {
        self.turn(Kind::FromClient, None, step);
        while let Some((from, mut datagram)) = self.link.pop_front() {
            let to = match from {
                Kind::FromClient => Kind::FromServer,
                _ => Kind::FromClient,
            };
            self.turn(to, Some(&mut datagram), step);
        }
    }

    /// Lets the end whose datagrams are of this kind act.
    fn turn(&mut self, kind: Kind, datagram: Option<&mut [u8]>, step: &str) {
        let Self { client, server, link, buffer, transcript } = self;
        let end: &mut dyn End = if kind == Kind::FromClient { client } else { server };
        let sent = measured(step, || {
            let mut sent = Vec::new();
            end.turn(datagram, buffer, &mut |payload| sent.push((kind, payload.to_vec())));
            sent
        });
        for (_, payload) in &sent {
            transcript.push(kind, payload);
        }
        link.extend(sent);
    }

    /// Seals a payload at one end, and delivers it.
    fn send(&mut self, kind: Kind) {
        let end: &mut dyn End =
            if kind == Kind::FromClient { &mut self.client } else { &mut self.server };
        let mut buffer = [0; LONGEST];
        let length = measured("record", || end.seal(&[0x55; PAYLOAD], &mut buffer));
        if let Some(datagram) = buffer.get(..length).filter(|datagram| !datagram.is_empty()) {
            self.transcript.push(kind, datagram);
            self.link.push_back((kind, datagram.to_vec()));
        }
        self.settle("record");
    }
}

/// A handshake of two ends, and records in both directions.
pub fn ends(client: fn() -> Settings, server: fn() -> Settings) -> ! {
    heap::start();
    let (client, server) = (client(), server());
    let least = [&client, &server].map(settings::least_received);
    let client = settings::client(client);
    let server = settings::server(server);
    value("configuration", heap::usage().bytes);
    let mut client = measured("handshake", || Client::new(client));
    if cfg!(not(feature = "bare")) && !client.refuses_to_wait() {
        machine::fail("a payload was taken before the handshake");
    }
    let server = measured("handshake", || Server::new(server));
    let mut pair = Pair::new(client, server);
    pair.shake_hands("handshake");
    for _ in 0..RECORDS {
        pair.transcript.push(Kind::Round, &[]);
        pair.send(Kind::FromClient);
        pair.send(Kind::FromServer);
    }
    for (end, least) in [&pair.client as &dyn End, &pair.server].into_iter().zip(least) {
        check_received(end, least);
    }
    machine::exit(0)
}

/// The handshakes of many clients with one server, each followed by a record of the client.
pub fn sessions(client: fn() -> Settings, server: fn() -> Settings) -> ! {
    heap::start();
    let client = settings::client(client());
    let server = Server::new(settings::server(server()));
    let mut pair = Pair::new(Client::new(Arc::clone(&client)), server);
    for number in 0..SESSIONS {
        pair.client = Client::new(Arc::clone(&client));
        pair.server.turn_to(number);
        pair.shake_hands("session");
        pair.transcript.push(Kind::Round, &[]);
        pair.send(Kind::FromClient);
        pair.transcript.push(Kind::Round, &[]);
    }
    machine::exit(0)
}
