//! A device's way to its controller: a DTLS association that is there when it is needed.

use crate::service::harden;
use dtls::{ClientConfig, CloseReason, Connection, Event, Psk};
use group::Start;
use group::control::{Answer, Asked, MAX_MESSAGE, Numbered, Request, VERSION};
use net::address::Named;
use net::tokio::{Driver, Host};
use net::{Clock, socket};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use vocabulary::{Decode, Encode, Instant, Random, Writer};
use zeroize::Zeroizing;

/// How long an answer may take before the request is sent again: twice as long each time. After
/// the last one the association is taken for dead.
const PATIENCE: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(20);
/// Answers that wait to be taken; others are lost, and asked for again.
const WAITING: usize = 8;

/// Why there is no answer.
#[derive(Debug)]
pub enum LinkError {
    /// The controller's address means nothing.
    Address(String, io::Error),
    /// A socket.
    Socket(io::Error),
    /// Cryptography.
    Config(dtls::ConfigError),
    /// The association ended, or did not come about.
    Closed(CloseReason),
    /// Nobody answers.
    Silent(SocketAddr),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text, error) => write!(f, "controller {text:?}: {error}"),
            Self::Socket(error) => write!(f, "controller: {error}"),
            Self::Config(error) => error.fmt(f),
            Self::Closed(reason) => write!(f, "controller: {reason}"),
            Self::Silent(address) => write!(f, "controller {} does not answer", Named(*address)),
        }
    }
}

impl std::error::Error for LinkError {}

type Association = Driver<Connection, Mailbox>;

/// A device's way to its controller.
pub struct Link {
    controller: String,
    psk: Psk,
    clock: Clock,
    rng: Random,
    open: Option<(Arc<Association>, mpsc::Receiver<Said>, SocketAddr)>,
    number: u32,
}

/// What an association says.
enum Said {
    Connected,
    Answer(Zeroizing<Vec<u8>>),
    Closed(CloseReason),
}

struct Mailbox(mpsc::Sender<Said>);

impl Host<Connection> for Mailbox {
    fn event(&mut self, _: Instant, event: Event<'_>) {
        let said = match event {
            Event::Connected(_) => Said::Connected,
            Event::Data(answer) => Said::Answer(Zeroizing::new(answer.to_vec())),
            Event::Closed(reason) => Said::Closed(reason),
            _ => return,
        };
        // One that finds no room is asked for again.
        let _ = self.0.try_send(said);
    }

    fn is_finished(&self, engine: &Connection) -> bool {
        engine.is_closed()
    }
}

impl Link {
    /// The way to a controller (`host:port`), for the device with this key.
    pub fn new(controller: String, psk: Psk, clock: Clock, mut rng: Random) -> Self {
        // Not that of an answer to an earlier run.
        let number = u32::from_be_bytes(rng.array());
        Self { controller, psk, clock, rng, open: None, number }
    }

    /// Proves itself with another key from now on.
    pub fn set_key(&mut self, psk: Psk) {
        self.close();
        self.psk = psk;
    }

    /// Where its controller is, as its token says.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Where the controller is, as it is found now.
    ///
    /// # Errors
    /// The address means nothing.
    pub fn resolve(&self) -> Result<SocketAddr, LinkError> {
        let wrong = |error| LinkError::Address(self.controller.clone(), error);
        let found = net::address::resolve(&self.controller).map_err(wrong)?;
        found.first().copied().ok_or_else(|| wrong(io::Error::other("no address")))
    }

    /// Asks, and asks again until there is an answer or no hope.
    ///
    /// # Errors
    /// See [`LinkError`].
    ///
    /// `start` is that of the member's program; a device that is no member yet has none.
    pub async fn ask(
        &mut self,
        start: Option<Start>,
        request: Request,
    ) -> Result<Answer, LinkError> {
        self.number = self.number.wrapping_add(1);
        let message = Asked { version: VERSION, number: self.number, start, said: request };
        let mut buf = Zeroizing::new([0; MAX_MESSAGE]);
        let mut w = Writer::new(&mut *buf);
        let written = message.write(&mut w);
        written.map_err(|_| LinkError::Socket(io::Error::other("a request too long")))?;
        // An association that was left alone may be dead: then once more with a new one.
        let is_old = self.open.is_some();
        match self.try_ask(w.written()).await {
            Err(_) if is_old => self.try_ask(w.written()).await,
            done => done,
        }
    }

    async fn try_ask(&mut self, message: &[u8]) -> Result<Answer, LinkError> {
        let number = self.number;
        let mut is_connected = self.open.is_some();
        let (association, mut said, controller) = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        let talk = async {
            let mut patience = PATIENCE.iter();
            loop {
                let wait = if is_connected {
                    let Some(wait) = patience.next() else {
                        return Err(LinkError::Silent(controller));
                    };
                    // It fails only if the association has ended, which is said as well.
                    let _ = association.call(|connection, _, now| connection.send(now, message));
                    *wait
                } else {
                    HANDSHAKE
                };
                let until = tokio::time::Instant::now() + wait;
                loop {
                    match tokio::time::timeout_at(until, said.recv()).await {
                        Ok(Some(Said::Connected)) => {
                            is_connected = true;
                            break;
                        }
                        Ok(Some(Said::Answer(answer))) => {
                            if let Ok(answer) = Numbered::<Answer>::decode(&answer)
                                && answer.number == number
                            {
                                return Ok(answer.said);
                            }
                        }
                        Ok(Some(Said::Closed(reason))) => return Err(LinkError::Closed(reason)),
                        Ok(None) => return Err(LinkError::Silent(controller)),
                        Err(_) if !is_connected => return Err(LinkError::Silent(controller)),
                        Err(_) => break,
                    }
                }
            }
        };
        let answer = tokio::select! {
            answer = talk => answer?,
            ended = association.run() => return Err(match ended {
                Err(error) => LinkError::Socket(error),
                Ok(()) => LinkError::Closed(closing(&mut said)),
            }),
        };
        self.open = Some((association, said, controller));
        Ok(answer)
    }

    fn begin(&mut self) -> Result<(Arc<Association>, mpsc::Receiver<Said>, SocketAddr), LinkError> {
        let controller = self.resolve()?;
        let socket = socket::connect(controller).map_err(LinkError::Socket)?;
        group::self_test().map_err(|failed| LinkError::Config(failed.into()))?;
        let mut config = ClientConfig::new(self.psk.clone()).map_err(LinkError::Config)?;
        harden(&mut config.settings);
        let (config, now) = (Arc::new(config), self.clock.now());
        let connection = Connection::client(config, controller, now, self.rng.fork());
        let connection = connection.map_err(LinkError::Config)?;
        let (tell, said) = mpsc::channel(WAITING);
        let driver = Driver::new(socket, self.clock, connection, Mailbox(tell));
        Ok((Arc::new(driver), said, controller))
    }

    /// Ends the association in good order.
    pub fn close(&mut self) {
        if let Some((association, ..)) = self.open.take() {
            association.call(|connection, _, now| connection.close(now));
        }
    }
}

fn closing(said: &mut mpsc::Receiver<Said>) -> CloseReason {
    while let Ok(said) = said.try_recv() {
        if let Said::Closed(reason) = said {
            return reason;
        }
    }
    CloseReason::Peer
}
