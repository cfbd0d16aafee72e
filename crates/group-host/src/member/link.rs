//! A device's way to its controller: a DTLS association that is there when it is needed.

use super::device;
use crate::service::harden;
use crate::store::{MemberStore, StoreError};
use dtls::codepoints::AlertDescription;
use dtls::{ClientConfig, CloseReason, Connection, Event, Psk};
use group::Start;
use group::control::{Answer, Asked, MAX_MESSAGE, Numbered, Reason, Request, VERSION};
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
    /// The controller does not know the device's own key, and its token gives no other.
    Key(Reason),
    /// The device's own key cannot be stored.
    Store(StoreError),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text, error) => write!(f, "controller {text:?}: {error}"),
            Self::Socket(error) => write!(f, "controller: {error}"),
            Self::Config(error) => error.fmt(f),
            Self::Closed(reason) => write!(f, "controller: {reason}"),
            Self::Key(reason) => {
                write!(
                    f,
                    "controller: it does not know this device's key, and of its token: {reason}"
                )
            }
            Self::Store(error) => write!(f, "this device's key: {error}"),
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
    spare: Option<Spare>,
}

/// What a device asks for another key with when its controller does not know the one it has: it was
/// restored from a backup that is older than the key.
pub(super) struct Spare {
    pub(super) device: String,
    /// The key of its token.
    pub(super) token: Psk,
    pub(super) nonce: [u8; 16],
    pub(super) store: MemberStore,
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
        Self { controller, psk, clock, rng, open: None, number, spare: None }
    }

    /// Proves itself with another key from now on.
    pub fn set_key(&mut self, psk: Psk) {
        self.close();
        self.psk = psk;
    }

    /// Has the device ask for another key with its token, once, if the controller does not know this
    /// one.
    pub(super) fn fall_back(&mut self, spare: Spare) {
        self.spare = Some(spare);
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
        let message = encoded(self.number, start, request)?;
        // An association that was left alone may be dead: then once more with a new one.
        let is_old = self.open.is_some();
        let done = match self.try_ask(&message).await {
            Err(_) if is_old => self.try_ask(&message).await,
            done => done,
        };
        match (done, self.spare.take()) {
            (Err(LinkError::Closed(reason)), Some(spare)) if is_unknown(&reason) => {
                let number = self.number;
                self.ask_for_key(spare).await?;
                self.number = number;
                self.try_ask(&message).await
            }
            (done, spare) => {
                self.spare = spare;
                done
            }
        }
    }

    /// Has the token give the device another key. The nonce is that of the key that it has: a
    /// controller that knows that one says it again.
    async fn ask_for_key(&mut self, spare: Spare) -> Result<(), LinkError> {
        tracing::warn!(
            "the controller does not know this device's key, as one that was restored from an older \
             backup: the device's token is asked for another"
        );
        let Spare { device, token, nonce, store } = spare;
        let own = self.psk.clone();
        self.set_key(token);
        self.number = self.number.wrapping_add(1);
        let message = encoded(self.number, None, Request::Key { nonce })?;
        match self.try_ask(&message).await {
            Ok(Answer::Key(own)) => {
                let key = device::keep_key(&store, &device, &own).map_err(LinkError::Store)?;
                self.set_key(key.map_err(LinkError::Config)?);
                Ok(())
            }
            Ok(answer) => {
                self.set_key(own);
                match answer {
                    Answer::Refused(reason) => Err(LinkError::Key(reason)),
                    _ => Err(LinkError::Key(Reason::NotUnderstood)),
                }
            }
            Err(error) => {
                self.set_key(own);
                Err(error)
            }
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

/// Whether an association ended because the controller does not know the device's key. Anybody on the
/// way can say so: it costs a request by the token, which is answered with the key that is known.
const fn is_unknown(reason: &CloseReason) -> bool {
    matches!(reason, CloseReason::PeerAlert(AlertDescription::UNKNOWN_PSK_IDENTITY))
}

fn encoded(
    number: u32,
    start: Option<Start>,
    said: Request,
) -> Result<Zeroizing<Vec<u8>>, LinkError> {
    let mut buf = Zeroizing::new(vec![0; MAX_MESSAGE]);
    let mut w = Writer::new(&mut buf);
    let written = Asked { version: VERSION, number, start, said }.write(&mut w);
    written.map_err(|_| LinkError::Socket(io::Error::other("a request too long")))?;
    let len = w.len();
    buf.truncate(len);
    Ok(buf)
}

fn closing(said: &mut mpsc::Receiver<Said>) -> CloseReason {
    while let Ok(said) = said.try_recv() {
        if let Said::Closed(reason) = said {
            return reason;
        }
    }
    CloseReason::Peer
}
