//! A device: its identity, its link to the controller, and how it joins a group.

use super::link::{ClientCredentials, Link, LinkError, TokenFallback};
use super::own_key;
use super::{MemberHost, MemberHostError, Options, WhenReplaced};
use crate::store::{MemberStore, StoreError};
use crate::token::Token;
use lightseal_core::Random;
use lightseal_dtls::{ConfigError, Psk};
use lightseal_group::Start;
use lightseal_group::control::{Admitted, Answer, GroupName, Reason, Request, RoleSet};
use lightseal_group::identity::Identity;
use lightseal_group::member::{Roles, Suspended};
use lightseal_net::{Clock, socket};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// The names of the device's own values in its store.
const TOKEN: &str = "token";
const IDENTITY: &str = "identity";
const CONTROLLER: &str = "controller";

/// A device with its store and its link to its controller.
pub struct Device {
    /// The device's name in its token; `None` if it authenticates with another credential. Then only
    /// its controller knows its name.
    name: Option<String>,
    /// Whether the device must exchange its token for a key of its own before it can join.
    needs_key: bool,
    pub(super) identity: Identity,
    pub(super) store: MemberStore,
    pub(super) link: Link,
    pub(super) clock: Clock,
    pub(super) rng: Random,
}

impl Device {
    /// Opens the device whose state is in `directory`. The first time, the state is created and a
    /// token is needed.
    ///
    /// # Errors
    /// See [`MemberHostError`].
    pub fn open(
        directory: &Path,
        token: Option<Token>,
        mut rng: Random,
    ) -> Result<Self, MemberHostError> {
        let store = MemberStore::open(directory)?;
        let token = match (stored_token(&store)?, token) {
            (None, None) => return Err(MemberHostError::NotEnrolled),
            (Some(known), Some(given)) if known.device != given.device => {
                return Err(MemberHostError::OtherToken(known.device));
            }
            (known, Some(given)) => {
                let text: Zeroizing<String> = given.to_text().ok_or_else(damaged)?;
                if known.is_some_and(|known| *known.key != *given.key) {
                    // The device was enrolled again: the key from its previous token is void.
                    own_key::remove(&store)?;
                }
                store.put_value(TOKEN, text.as_bytes())?;
                given
            }
            (Some(known), None) => known,
        };
        let clock = Clock::start();
        let own = own_key::stored(&store)?;
        let needs_key = own.is_none();
        let of_token = usable(Psk::external(token.device.as_bytes(), &*token.key))?;
        let spare = TokenFallback {
            device: token.device.clone(),
            token: of_token.clone(),
            nonce: own_key::nonce(&store, &mut rng)?,
            store: store.clone(),
        };
        let link = match own {
            Some(own) => {
                let own = usable(own_key::read(&token.device, &own)?)?;
                let mut link = Link::new(token.controller, own, clock, rng.fork());
                link.fall_back(spare);
                link
            }
            None => {
                let mut link = Link::new(token.controller, of_token, clock, rng.fork());
                link.ask_for_key_first(spare);
                link
            }
        };
        let identity = identity(&store, &mut rng)?;
        Ok(Self { name: Some(token.device), needs_key, identity, store, link, clock, rng })
    }

    /// Opens the device whose state is in `directory`, and which authenticates to its controller
    /// with these credentials. The controller's address (`host:port`) is needed the first time,
    /// unless the state has a token.
    ///
    /// # Errors
    /// See [`MemberHostError`].
    pub fn open_with(
        directory: &Path,
        controller: Option<String>,
        credentials: Arc<dyn ClientCredentials>,
        mut rng: Random,
    ) -> Result<Self, MemberHostError> {
        let store = MemberStore::open(directory)?;
        let known = store.value(CONTROLLER)?;
        let controller = match (controller, known) {
            (Some(given), known) => {
                if known.is_none_or(|known| *known != given.as_bytes()) {
                    store.put_value(CONTROLLER, given.as_bytes())?;
                }
                given
            }
            (None, Some(known)) => String::from_utf8(known.to_vec())
                .map_err(|_| StoreError::Damaged("its controller's address"))?,
            (None, None) => stored_token(&store)?.ok_or(MemberHostError::NoController)?.controller,
        };
        let clock = Clock::start();
        let link = Link::with_credentials(controller, credentials, clock, rng.fork());
        let identity = identity(&store, &mut rng)?;
        Ok(Self { name: None, needs_key: false, identity, store, link, clock, rng })
    }

    /// The local address from which packets to the controller are sent.
    ///
    /// # Errors
    /// The controller's address cannot be resolved, or there is no route to it.
    pub fn address(&self) -> Result<IpAddr, MemberHostError> {
        let controller = self.link.resolve()?;
        let socket = socket::connect(controller);
        let local = socket.and_then(|socket| socket.local_addr());
        Ok(local.map_err(|error| MemberHostError::Link(LinkError::Socket(error)))?.ip())
    }

    /// Joins the group, if the device is not a member yet, and opens its sockets.
    ///
    /// # Errors
    /// See [`MemberHostError`].
    pub async fn join(mut self, options: Options) -> Result<MemberHost, MemberHostError> {
        let Options { group, roles, .. } = &options;
        // A membership of version 1 has no instance: the device joins again.
        let stored = self.store.membership(group)?.filter(|stored| stored.instance > 0);
        let fits = stored.as_ref().is_some_and(|stored| is_as_wanted(&stored.roles, *roles));
        let (admitted, begun) = match stored {
            Some(admitted) if fits => {
                let instance = admitted.instance;
                let (counter, left) = self.store.begin_start(group, instance)?;
                let start = Start { instance, counter, nonce: self.rng.array() };
                (admitted, BegunStart { start, left })
            }
            _ => {
                if self.store.is_replaced(group)? && options.when_replaced == WhenReplaced::Refuse {
                    return Err(MemberHostError::Replaced(Reason::Superseded));
                }
                let controller = self.link.controller().to_owned();
                let (admitted, nonce) =
                    log_when_slow(&controller, self.ask_to_join(&options)).await?;
                let start = Start { instance: admitted.instance, counter: 0, nonce };
                (admitted, BegunStart { start, left: None })
            }
        };
        MemberHost::new(self, options, admitted, begun)
    }

    async fn ask_to_join(
        &mut self,
        options: &Options,
    ) -> Result<(Admitted, [u8; 8]), MemberHostError> {
        let Options { group, roles, address, .. } = options;
        self.ask_for_key().await?;
        // The nonce is kept in memory only, so two copies of a device's state make two separate
        // joins.
        let nonce = self.rng.array();
        let request = Request::Join {
            nonce,
            name: group.clone(),
            roles: *roles,
            address: *address,
            keys: self.identity.public(),
        };
        loop {
            match self.link.ask(None, request.clone()).await? {
                Answer::Admitted(admitted) => return Ok((*admitted, nonce)),
                // The device has joined a short time ago and lost its membership since. Requests
                // with the same nonce are one join.
                Answer::Refused(Reason::NotNow) => {
                    tracing::warn!(
                        "the controller makes this device wait, because it joins too often"
                    );
                    tokio::time::sleep(REJOIN).await;
                }
                Answer::Refused(reason) => return Err(MemberHostError::Refused(reason)),
                _ => return Err(MemberHostError::Answer),
            }
        }
    }

    /// Asks for a key of the device's own for its token, unless the device has one.
    async fn ask_for_key(&mut self) -> Result<(), MemberHostError> {
        let Some(name) = self.name.as_ref().filter(|_| self.needs_key) else { return Ok(()) };
        let nonce = own_key::nonce(&self.store, &mut self.rng)?;
        let own = match self.link.ask(None, Request::Key { nonce }).await? {
            Answer::Key(own) => own,
            Answer::Refused(reason) => return Err(MemberHostError::Refused(reason)),
            _ => return Err(MemberHostError::Answer),
        };
        let key = own_key::keep(&self.store, name, &own)?;
        self.link.set_key(usable(key)?);
        self.needs_key = false;
        Ok(())
    }

    /// Leaves a group and removes its membership from the store.
    ///
    /// # Errors
    /// See [`MemberHostError`].
    pub async fn leave(&mut self, group: &GroupName) -> Result<(), MemberHostError> {
        let Some(stored) = self.store.membership(group)? else { return Ok(()) };
        let instance = stored.instance;
        if instance > 0 {
            let (counter, _) = self.store.begin_start(group, instance)?;
            let start = Start { instance, counter, nonce: self.rng.array() };
            match self.link.ask(Some(start), Request::Leave(stored.policy.group)).await? {
                Answer::Noted | Answer::Refused(Reason::NotAMember | Reason::NoSuchGroup) => {}
                Answer::Refused(Reason::Evicted | Reason::Superseded) => {}
                Answer::Refused(reason) => return Err(MemberHostError::Refused(reason)),
                _ => return Err(MemberHostError::Answer),
            }
            self.link.close();
        }
        Ok(self.store.remove_membership(group)?)
    }
}

/// The interval at which a device that must wait repeats its join.
const REJOIN: Duration = Duration::from_secs(10);
/// How long a join may take before the log says what the device waits for.
const SILENCE: Duration = Duration::from_secs(2);

async fn log_when_slow<T>(controller: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SILENCE) => {}
    }
    tracing::info!("waits for controller {controller} to answer its join");
    work.await
}

const fn damaged() -> MemberHostError {
    MemberHostError::Store(StoreError::Damaged("its token"))
}

/// The token in the device's store.
fn stored_token(store: &MemberStore) -> Result<Option<Token>, MemberHostError> {
    let Some(text) = store.value(TOKEN)? else { return Ok(None) };
    let text = std::str::from_utf8(&text).map_err(|_| damaged())?;
    Token::parse(text).map(Some).map_err(|_| damaged())
}

/// A key, unless no association can be configured with it.
fn usable(key: Result<Psk, ConfigError>) -> Result<Psk, MemberHostError> {
    key.map_err(|error| MemberHostError::Link(LinkError::Config(error)))
}

/// A start of the member's program, and the suspended state of the previous run.
pub(super) struct BegunStart {
    pub(super) start: Start,
    pub(super) left: Option<Suspended>,
}

impl BegunStart {
    /// Whether this is the run that joined.
    pub(super) const fn is_fresh(&self) -> bool {
        self.start.counter == 0
    }
}

/// The device's identity keys, which are generated and stored the first time.
fn identity(store: &MemberStore, rng: &mut Random) -> Result<Identity, StoreError> {
    if let Some(bytes) = store.value(IDENTITY)? {
        let bytes = <&[u8; Identity::BYTES]>::try_from(&bytes[..]);
        return Ok(Identity::from_bytes(bytes.map_err(|_| StoreError::Damaged("its keys"))?));
    }
    let identity = Identity::generate(rng);
    store.put_value(IDENTITY, &*identity.to_bytes())?;
    Ok(identity)
}

fn is_as_wanted(roles: &Roles, wanted: RoleSet) -> bool {
    (roles.sender.is_some(), roles.listener) == (wanted.sender, wanted.listener)
}
