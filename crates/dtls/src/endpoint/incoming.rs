//! Clients about which the application decides before the endpoint keeps any state for them.

use super::hello::{MAX_HELLO_SEQUENCE, WholeHello};
use super::{Admission, Endpoint, Handle};
use crate::codepoints::{AlertDescription, ContentType, ExtensionType};
use crate::config::ProtocolVersion;
use crate::handshake::hello_context::{AddressProof, HelloContext};
use crate::handshake::hello_decision::{self, AdmittedClient, Fingerprint, HelloDecision};
use crate::messages::extensions::OfferedPsks;
use crate::messages::{Alert, ClientHello};
use crate::parts::{self, InlineState};
use crate::tuning::MAX_INCOMING;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use lightseal_core::{AddressPair, Decode, Encode, Instant};

/// A client that is about to be accepted: its hello is well-formed, has a suite and a version that
/// the endpoint speaks, and a cookie where cookies are used. Its key is not verified yet.
///
/// It owns what it needs, so that an application can keep it while it finds out what to do with the
/// client, and it keeps nothing in the endpoint. Dropping it ignores the client, but
/// only [`Endpoint::ignore`] counts that. A client repeats its hello until it is
/// answered, and comes again as another `Incoming` each time. The cookie of a hello is valid for a
/// minute or two; a client that is accepted later must prove its address anew.
#[must_use = "a client that is neither accepted nor refused is ignored"]
pub struct Incoming {
    from: AddressPair,
    hello: Box<WholeHello<'static>>,
    fingerprint: Fingerprint,
    version: ProtocolVersion,
    proved: bool,
}

impl Incoming {
    /// The client's address.
    pub const fn peer(&self) -> SocketAddr {
        self.from.peer
    }

    /// The local address at which the hello arrived, if the host reports it.
    pub const fn local(&self) -> Option<IpAddr> {
        self.from.local
    }

    /// The version that the association will have.
    pub const fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Whether the client has proved that it receives what is sent to its address: its hello has a
    /// cookie.
    pub const fn has_proved_address(&self) -> bool {
        self.proved
    }

    /// The PSK identities that the client offers, in its order of preference. It has not proved
    /// that it has any of their keys. A client that speaks only DTLS 1.2 offers none here: it names
    /// its identity later in the handshake.
    pub fn identities(&self) -> impl Iterator<Item = &[u8]> {
        let hello = ClientHello::decode(&self.hello.body).ok();
        let psks = hello
            .and_then(|hello| hello.extensions.get(ExtensionType::PRE_SHARED_KEY))
            .and_then(|content| OfferedPsks::decode(content).ok());
        psks.into_iter().flat_map(|psks| psks.iter().map(|psk| psk.identity))
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("from", &self.from)
            .field("version", &self.version)
            .field("proved", &self.proved)
            .finish_non_exhaustive()
    }
}

/// The clients about which the application has not been asked yet, oldest first; nothing if it does
/// not want to be asked.
#[derive(Debug, Default)]
pub(super) struct Waiting(InlineState<parts::Incoming, VecDeque<Incoming>>);

impl Waiting {
    pub(super) fn is_wanted(&self) -> bool {
        self.0.get().is_some()
    }

    /// Keeps a client. Each address has one place, which its newest hello takes. Beyond
    /// [`MAX_INCOMING`] clients the oldest one is dropped; it sends its hello again.
    fn push(&mut self, incoming: Incoming) {
        let Some(waiting) = self.0.get_mut() else { return };
        waiting.retain(|other| other.from.peer != incoming.from.peer);
        if waiting.len() == MAX_INCOMING {
            waiting.pop_front();
        }
        waiting.push_back(incoming);
    }
}

impl Endpoint {
    /// From now on the application decides about every new client: after the exchange of a cookie,
    /// where cookies are used, the client waits in [`Self::next_incoming`], and the endpoint has no
    /// association for it. Without this call every client is accepted that fits the configuration.
    ///
    /// At most [`MAX_INCOMING`] clients wait.
    #[cfg(feature = "incoming")]
    pub fn hold_incoming(&mut self) {
        const PART: parts::Incoming = parts::Incoming::INCLUDED.expect("the feature `incoming`");
        self.incoming.0.get_or_insert_with(PART, VecDeque::new);
    }

    /// The next client about which the application has to decide: [`Self::accept`],
    /// [`Self::retry`], [`Self::refuse`] or [`Self::ignore`]. Ask whenever the endpoint has no more
    /// output, and poll the endpoint again after a decision.
    pub fn next_incoming(&mut self) -> Option<Incoming> {
        self.incoming.0.get_mut()?.pop_front()
    }

    /// Keeps a client until the application decides.
    pub(super) fn ask_about(
        &mut self,
        from: SocketAddr,
        hello: &WholeHello<'_>,
        fingerprint: Fingerprint,
        admitted: &AdmittedClient<'_>,
    ) {
        let version = match admitted {
            AdmittedClient::Dtls13(_) => ProtocolVersion::Dtls13,
            AdmittedClient::Dtls12(_) => ProtocolVersion::Dtls12,
        };
        let from = AddressPair { peer: from, local: self.local };
        let proved = admitted.cookie().is_some();
        self.incoming.push(Incoming {
            from,
            hello: Box::new(hello.to_kept()),
            fingerprint,
            version,
            proved,
        });
    }

    /// Accepts a client: its handshake begins. Returns the handle of its association; `None` if
    /// there is none yet, because the store of PSKs has not answered
    /// ([`Lookup::Later`](crate::Lookup::Later)) or the client must prove its address first, and if
    /// the client was refused after all, because its key is wrong or no session slot is free. A
    /// hello that was accepted already is ignored.
    pub fn accept(&mut self, now: Instant, incoming: Incoming) -> Option<Handle> {
        self.now = self.now.max(now);
        let Incoming { from: AddressPair { peer, local }, hello, fingerprint, .. } = incoming;
        self.local = local;
        let there = self.at(peer.into());
        let known = there.and_then(|handle| self.entries.get(&handle));
        if known.is_some_and(|entry| entry.hello == fingerprint)
            || self.is_of_older(known, &fingerprint)
            || self.past.contains(&fingerprint)
        {
            self.stats.note(|stats| stats.ignored += 1);
            return None;
        }
        self.greet(peer, there, &hello, fingerprint, Admission::Open)
    }

    /// Asks a client for a cookie (once more), without keeping anything. The client comes again
    /// with its next hello.
    ///
    /// # Errors
    /// A client of DTLS 1.3 that has proved its address cannot be asked again (RFC 8446, section
    /// 4.1.4), and one of DTLS 1.2 at most three times: it is returned, to be decided about
    /// otherwise.
    pub fn retry(&mut self, now: Instant, incoming: Incoming) -> Result<(), Incoming> {
        self.now = self.now.max(now);
        self.local = incoming.from.local;
        if incoming.hello.sequence >= MAX_HELLO_SEQUENCE {
            return Err(incoming);
        }
        let config = Arc::clone(&self.config);
        let reception = HelloContext {
            config: &config,
            jar: &mut self.jar,
            sessions: &mut self.sessions,
            rng: &mut self.rng,
            now: self.now,
            from: incoming.from.peer,
            proof: AddressProof::Renewed,
        };
        let WholeHello { record, sequence, body } = &*incoming.hello;
        match hello_decision::consider(reception, *sequence, body) {
            Ok(HelloDecision::Accept(_)) => return Err(incoming),
            Ok(HelloDecision::Ask(request)) => {
                self.request_hello(incoming.from.peer, *record, *sequence, &request);
            }
            Err(fault) => self.refuse_hello(incoming.from.peer, *record, fault),
        }
        Ok(())
    }

    /// Refuses a client: it is sent an alert, which is not protected, and nothing is kept. A client
    /// that trusts such an alert gives up, others send their hello again for a while.
    pub fn refuse(&mut self, now: Instant, incoming: Incoming, alert: AlertDescription) {
        self.now = self.now.max(now);
        self.local = incoming.from.local;
        self.stats.note(|stats| stats.refused += 1);
        let Incoming { from, hello, .. } = incoming;
        self.answer(from.peer, ContentType::ALERT, hello.record, &|w| Alert(alert).write(w));
    }

    /// Ignores a client: it gets no answer, and nothing is kept.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.stats.note(|stats| stats.ignored += 1);
        drop(incoming);
    }
}
