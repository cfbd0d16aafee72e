//! A device's link to its controller: a DTLS association that is established when it is needed.

use super::own_key;
use crate::service::link_settings;
use crate::store::{MemberStore, StoreError};
use lightseal_core::{Decode, Encode, Instant, Random, Writer};
use lightseal_dtls::codepoints::AlertDescription;
use lightseal_dtls::{ClientConfig, CloseReason, Connection, Event, Psk, Settings};
use lightseal_group::Start;
use lightseal_group::control::{
    Answer, AnswerMessage, MAX_MESSAGE, Reason, Request, RequestMessage, VERSION,
};
use lightseal_net::address::Named;
use lightseal_net::tokio::{Driver, EngineHost};
use lightseal_net::{Clock, socket};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

/// How long an answer is awaited before the request is sent again, for each attempt. After the last
/// attempt the association counts as dead.
const PATIENCE: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// The maximum duration of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(20);
/// The maximum number of events of an association that wait to be processed. Further ones are lost,
/// and the request is repeated.
const WAITING: usize = 8;

/// Why a controller may not accept a device's key. Its alert does not say which reason it is.
const KEY_REASONS: &str = "the key was removed, replaced or revoked, or is not on the access list, or \
                           the controller was restored from an older backup";

/// Why a request was not answered.
#[derive(Debug)]
pub enum LinkError {
    /// The controller's address cannot be resolved.
    Address(String, io::Error),
    /// A socket failed.
    Socket(io::Error),
    /// The DTLS configuration is not possible.
    Config(lightseal_dtls::ConfigError),
    /// The device's credential cannot be used, for this reason.
    Credential(String),
    /// The implementation of the cryptography computes wrong results.
    SelfTest(lightseal_dtls::crypto::SelfTestFailed),
    /// The association was closed, or the handshake failed.
    Closed(CloseReason),
    /// The controller does not answer.
    Silent(SocketAddr),
    /// The controller refused to give the device a key of its own for its token.
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
            Self::Credential(reason) => f.write_str(reason),
            Self::SelfTest(failed) => failed.fmt(f),
            Self::Closed(CloseReason::PeerAlert(alert)) if is_about_credentials(*alert) => {
                write!(f, "controller: it does not accept this device's credential (alert {alert})")
            }
            Self::Closed(reason) if is_unknown(reason) => {
                write!(f, "controller: it does not accept this device's key: {KEY_REASONS}")
            }
            Self::Closed(reason) => write!(f, "controller: {reason}"),
            Self::Key(reason) => {
                write!(
                    f,
                    "controller: it does not know this device's key, and refuses its token: {reason}"
                )
            }
            Self::Store(error) => write!(f, "this device's key: {error}"),
            Self::Silent(address) => write!(f, "controller {} does not answer", Named(*address)),
        }
    }
}

impl std::error::Error for LinkError {}

type Association = Driver<Connection, LinkEvents>;

/// The credential of a device that is neither its token nor the key that it got for it, and what it
/// accepts of its controller.
pub trait ClientCredentials: Send + Sync {
    /// The configuration of a client with these settings. The controller is on this host, which is a
    /// name or an IP address. It is asked for before each association, so that files that have
    /// changed can be read again.
    ///
    /// # Errors
    /// The reason, in one line.
    fn client(&self, host: &str, settings: Settings) -> Result<ClientConfig, String>;
}

/// What a device proves its identity with to its controller.
#[derive(Clone)]
enum LinkCredential {
    Psk(Psk),
    Other(Arc<dyn ClientCredentials>),
}

/// A device's link to its controller.
pub struct Link {
    controller: String,
    credential: LinkCredential,
    clock: Clock,
    rng: Random,
    open: Option<(Arc<Association>, mpsc::Receiver<LinkEvent>, SocketAddr)>,
    number: u32,
    spare: Option<TokenFallback>,
    /// Whether the device has only its token's key, which must be exchanged for a key of its own
    /// before any other request.
    needs_key: bool,
}

/// What a device needs to ask for another key if its controller does not know the current one,
/// because the controller was restored from a backup that is older than the key.
pub(super) struct TokenFallback {
    pub(super) device: String,
    /// The key of its token.
    pub(super) token: Psk,
    pub(super) nonce: [u8; 16],
    pub(super) store: MemberStore,
}

/// An event of an association.
enum LinkEvent {
    Connected,
    Answer(Zeroizing<Vec<u8>>),
    Closed(CloseReason),
}

struct LinkEvents(mpsc::Sender<LinkEvent>);

impl EngineHost<Connection> for LinkEvents {
    fn event(&mut self, _: Instant, event: Event<'_>) {
        let said = match event {
            Event::Connected(_) => LinkEvent::Connected,
            Event::Data(answer) => LinkEvent::Answer(Zeroizing::new(answer.to_vec())),
            Event::Closed(reason) => LinkEvent::Closed(reason),
            _ => return,
        };
        // If there is no room, the event is lost and the request is repeated.
        let _ = self.0.try_send(said);
    }

    fn is_finished(&self, engine: &Connection) -> bool {
        engine.is_closed()
    }
}

impl Link {
    /// A link to the controller at `controller` (`host:port`), for the device with this key.
    pub fn new(controller: String, psk: Psk, clock: Clock, rng: Random) -> Self {
        Self::with(controller, LinkCredential::Psk(psk), clock, rng)
    }

    /// A link to the controller at `controller` (`host:port`), for a device with these credentials.
    pub fn with_credentials(
        controller: String,
        credentials: Arc<dyn ClientCredentials>,
        clock: Clock,
        rng: Random,
    ) -> Self {
        Self::with(controller, LinkCredential::Other(credentials), clock, rng)
    }

    fn with(controller: String, credential: LinkCredential, clock: Clock, mut rng: Random) -> Self {
        // A random first number, so that an answer to a request of an earlier run does not match.
        let number = u32::from_be_bytes(rng.array());
        let (open, spare, needs_key) = (None, None, false);
        Self { controller, credential, clock, rng, open, number, spare, needs_key }
    }

    /// Authenticates the device with its own key from now on.
    pub fn set_key(&mut self, psk: Psk) {
        self.set_credential(LinkCredential::Psk(psk));
        self.needs_key = false;
    }

    fn set_credential(&mut self, credential: LinkCredential) {
        self.close();
        self.credential = credential;
    }

    /// Makes the device ask for another key with its token, once, if the controller does not know
    /// the current key.
    pub(super) fn fall_back(&mut self, spare: TokenFallback) {
        self.spare = Some(spare);
    }

    /// Makes the device, which has only the key of its token, ask for a key of its own before its
    /// first request.
    pub(super) fn ask_for_key_first(&mut self, spare: TokenFallback) {
        self.spare = Some(spare);
        self.needs_key = true;
    }

    /// The controller's address as given in the token.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// The controller's address, resolved now.
    ///
    /// # Errors
    /// The address cannot be resolved.
    pub fn resolve(&self) -> Result<SocketAddr, LinkError> {
        let wrong = |error| LinkError::Address(self.controller.clone(), error);
        let found = lightseal_net::address::resolve(&self.controller).map_err(wrong)?;
        found.first().copied().ok_or_else(|| wrong(io::Error::other("no address")))
    }

    /// Sends a request, and repeats it until there is an answer or all attempts have failed.
    /// `start` is the start of the member's program, or `None` for a device that is not a member
    /// yet.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub async fn ask(
        &mut self,
        start: Option<Start>,
        request: Request,
    ) -> Result<Answer, LinkError> {
        if self.needs_key
            && !matches!(request, Request::Key { .. })
            && let Some(spare) = self.spare.take()
        {
            let got = self.ask_for_key(&spare).await;
            self.spare = Some(spare);
            got?;
        }
        self.number = self.number.wrapping_add(1);
        let message = encoded(self.number, start, request)?;
        // An association from an earlier request may be dead: then the request is tried again with
        // a new one.
        let is_old = self.open.is_some();
        let done = match self.try_ask(&message).await {
            Err(_) if is_old => self.try_ask(&message).await,
            done => done,
        };
        match (done, self.spare.take()) {
            (Err(LinkError::Closed(reason)), Some(spare))
                if is_unknown(&reason) && !self.needs_key =>
            {
                tracing::warn!(
                    "the controller no longer accepts this device's key: {KEY_REASONS}. The device \
                     asks for another key with its token"
                );
                let number = self.number;
                self.ask_for_key(&spare).await?;
                self.number = number;
                self.try_ask(&message).await
            }
            (done, spare) => {
                self.spare = spare;
                done
            }
        }
    }

    /// Asks for another key for the device's token. The request has the nonce of the current key,
    /// so a controller that does know the current key answers with that key again.
    async fn ask_for_key(&mut self, spare: &TokenFallback) -> Result<(), LinkError> {
        let TokenFallback { device, token, nonce, store } = spare;
        let own = self.credential.clone();
        self.set_credential(LinkCredential::Psk(token.clone()));
        self.number = self.number.wrapping_add(1);
        let message = encoded(self.number, None, Request::Key { nonce: *nonce })?;
        match self.try_ask(&message).await {
            Ok(Answer::Key(own)) => {
                let key = own_key::keep(store, device, &own).map_err(LinkError::Store)?;
                self.set_key(key.map_err(LinkError::Config)?);
                Ok(())
            }
            Ok(answer) => {
                self.set_credential(own);
                match answer {
                    Answer::Refused(reason) => Err(LinkError::Key(reason)),
                    _ => Err(LinkError::Key(Reason::NotUnderstood)),
                }
            }
            Err(error) => {
                self.set_credential(own);
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
                    // This fails only if the association has ended, which is also reported as an
                    // event.
                    let _ = association.send(|connection, _, now, datagram| {
                        connection.send(now, message, datagram)
                    });
                    *wait
                } else {
                    HANDSHAKE
                };
                let until = tokio::time::Instant::now() + wait;
                loop {
                    match tokio::time::timeout_at(until, said.recv()).await {
                        Ok(Some(LinkEvent::Connected)) => {
                            is_connected = true;
                            break;
                        }
                        Ok(Some(LinkEvent::Answer(answer))) => {
                            if let Ok(answer) = AnswerMessage::decode(&answer)
                                && answer.number == number
                            {
                                return Ok(answer.answer);
                            }
                        }
                        Ok(Some(LinkEvent::Closed(reason))) => {
                            return Err(LinkError::Closed(reason));
                        }
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

    fn begin(
        &mut self,
    ) -> Result<(Arc<Association>, mpsc::Receiver<LinkEvent>, SocketAddr), LinkError> {
        let controller = self.resolve()?;
        let socket = socket::connect(controller).map_err(LinkError::Socket)?;
        crate::provider::self_test().map_err(LinkError::SelfTest)?;
        let config = match &self.credential {
            LinkCredential::Psk(psk) => {
                ClientConfig::with(psk.clone(), link_settings()).map_err(LinkError::Config)?
            }
            LinkCredential::Other(credentials) => {
                let host = self.controller.rsplit_once(':').map_or("", |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                // An interface after a link-local address is no part of a name.
                let host = host.split('%').next().unwrap_or_default();
                credentials.client(host, link_settings()).map_err(LinkError::Credential)?
            }
        };
        let (config, now) = (Arc::new(config), self.clock.now());
        let connection = Connection::client(config, controller, now, self.rng.fork());
        let (tell, said) = mpsc::channel(WAITING);
        let driver = Driver::new(socket, self.clock, connection, LinkEvents(tell));
        Ok((Arc::new(driver), said, controller))
    }

    /// Closes the association with a `close_notify` alert.
    pub fn close(&mut self) {
        if let Some((association, ..)) = self.open.take() {
            association.call(|connection, _, now| connection.close(now));
        }
    }
}

/// Whether an association ended because the controller does not know the device's key. An attacker
/// on the path can forge this alert. That costs only one request with the token, which the
/// controller answers with the key that it knows.
const fn is_unknown(reason: &CloseReason) -> bool {
    matches!(reason, CloseReason::PeerAlert(AlertDescription::UNKNOWN_PSK_IDENTITY))
}

/// Whether an alert says that the controller refuses the device's certificate or key. It does not
/// say which reason it has.
const fn is_about_credentials(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BAD_CERTIFICATE
            | AlertDescription::CERTIFICATE_UNKNOWN
            | AlertDescription::CERTIFICATE_EXPIRED
            | AlertDescription::CERTIFICATE_REVOKED
            | AlertDescription::UNKNOWN_CA
            | AlertDescription::UNSUPPORTED_CERTIFICATE
            | AlertDescription::ACCESS_DENIED
    )
}

fn encoded(
    number: u32,
    start: Option<Start>,
    said: Request,
) -> Result<Zeroizing<Vec<u8>>, LinkError> {
    let mut buf = Zeroizing::new(vec![0; MAX_MESSAGE]);
    let mut w = Writer::new(&mut buf);
    let written = RequestMessage { version: VERSION, number, start, request: said }.write(&mut w);
    written.map_err(|_| LinkError::Socket(io::Error::other("the request is too long")))?;
    let len = w.len();
    buf.truncate(len);
    Ok(buf)
}

fn closing(said: &mut mpsc::Receiver<LinkEvent>) -> CloseReason {
    while let Ok(said) = said.try_recv() {
        if let LinkEvent::Closed(reason) = said {
            return reason;
        }
    }
    CloseReason::Peer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_whose_key_is_void_is_told_what_may_have_happened_to_it() {
        let alert = CloseReason::PeerAlert(AlertDescription::UNKNOWN_PSK_IDENTITY);
        let said = LinkError::Closed(alert).to_string();
        for part in ["this device's key", "removed, replaced or revoked", "older backup"] {
            assert!(said.contains(part), "{said}");
        }
        let said = LinkError::Closed(CloseReason::Peer).to_string();
        assert!(!said.contains("key"), "{said}");
    }
}
