//! wolfSSL against wolfSSL without a network: the best that it can do.

use crate::race::Contender;
use crate::wolfssl::{Context, Error, Peer, Role, Settings};
use std::rc::Rc;

/// Two contexts with the same settings.
pub struct Pair {
    client: Rc<Context>,
    server: Rc<Context>,
}

impl Pair {
    /// Both roles with the same settings.
    pub fn new(settings: &Settings) -> Self {
        Self::with_cid(settings, None)
    }

    /// Both roles with the same settings and connection IDs of this length in bytes.
    pub fn with_cid(settings: &Settings, cid: Option<usize>) -> Self {
        let [client, server] = Role::BOTH.map(|role| Context::with_cid(role, settings, cid));
        Self { client, server }
    }

    /// A client and a server that have not sent anything yet.
    pub fn peers(&self) -> (Peer, Peer) {
        (self.client.peer(), self.server.peer())
    }

    /// A client and a server with a complete handshake.
    ///
    /// # Errors
    /// The handshake fails.
    pub fn connect(&self) -> Result<(Peer, Peer), Error> {
        let (mut client, mut server) = self.peers();
        shake_hands(&mut client, &mut server)?;
        Ok((client, server))
    }

    /// The lengths of a handshake's datagrams in bytes.
    ///
    /// # Errors
    /// As for [`shake_hands`].
    pub fn datagram_lengths(&self) -> Result<Vec<usize>, Error> {
        let (mut client, mut server) = self.peers();
        let mut lengths = Vec::new();
        shake_hands_watched(&mut client, &mut server, |sender| {
            lengths.extend(sender.output_lengths());
        })?;
        Ok(lengths)
    }
}

/// Runs a handshake to its end. Returns the number of datagrams.
///
/// # Errors
/// Either end gives up.
///
/// # Panics
/// The handshake does not end although nothing is lost.
pub fn shake_hands(client: &mut Peer, server: &mut Peer) -> Result<usize, Error> {
    let mut datagrams = 0;
    shake_hands_watched(client, server, |sender| datagrams += sender.output_lengths().count())?;
    Ok(datagrams)
}

/// [`shake_hands`] that calls `watch` with each end before its datagrams are carried.
pub(crate) fn shake_hands_watched(
    client: &mut Peer,
    server: &mut Peer,
    mut watch: impl FnMut(&mut Peer),
) -> Result<(), Error> {
    for _ in 0..20 {
        let client_done = client.handshake()?;
        watch(client);
        client.carry_to(server);
        let done = server.handshake()? && client_done;
        watch(server);
        server.carry_to(client);
        if done {
            return Ok(());
        }
    }
    panic!("the handshake is not complete after 20 rounds");
}

/// Repeats whole handshakes.
pub struct Handshakes(pub Pair);

impl Contender for Handshakes {
    fn run(&mut self) {
        self.0.connect().expect("nothing is lost");
    }
}

/// Repeats sealing and opening one record.
pub struct Records {
    client: Peer,
    server: Peer,
    payload: Vec<u8>,
    out: Vec<u8>,
}

impl Records {
    /// Records of `bytes` of payload.
    ///
    /// # Panics
    /// The handshake fails.
    pub fn new(settings: &Settings, bytes: usize) -> Self {
        let (client, server) = Pair::new(settings).connect().expect("nothing is lost");
        Self { client, server, payload: vec![0x42; bytes], out: vec![0; bytes + 1] }
    }
}

impl Contender for Records {
    fn run(&mut self) {
        self.client.send(&self.payload).expect("connected");
        self.client.carry_to(&mut self.server);
        let received = self.server.recv(&mut self.out).expect("connected");
        assert_eq!(received, Some(self.payload.len()));
    }
}
