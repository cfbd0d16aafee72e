//! Members of a group. Their keys and the other side's records come from the transcript `members`.

#[cfg(feature = "server")]
use super::sessions::Session;
#[cfg(feature = "client")]
use super::sessions::Sessions;
use super::{Buffer, LISTENERS, REQUEST, RESPONSE, Sender, send};
use crate::group::Nowhere;
use crate::heap;
use crate::machine::{exit, fail};
use crate::meter::measured;
use crate::random;
use crate::settings::PEER;
#[cfg(feature = "client")]
use crate::settings::SESSIONS;
use crate::transcript::{LONGEST, Reader};
use alloc::boxed::Box;
use core::net::{Ipv6Addr, SocketAddr};
use lightseal_dtls::Instant;
use lightseal_dtls::crypto::Provider;
use lightseal_group::keys::{ControllerKey, Grant, KeyPath};
use lightseal_group::member::{Delivery, Membership, RequestKind, Roles};
use lightseal_group::{Decode, Identity, Member, Policy, Random, SenderId, SenderSet};

/// The name of the transcript. It has the controller's public key, the policy, the grants of the
/// sender and of the first listener, the request, and the response of each listener.
pub(crate) const TRANSCRIPT: &[u8] = b"members\0";
/// All steps happen at this time: no timer expires.
pub(crate) const NOW: Instant = Instant::ZERO;
/// The sender of the group.
pub(crate) const SENDER: SenderId = SenderId(1);
/// The role of the sender.
pub(crate) const SENDS: Roles = Roles { sender: Some(SENDER), listener: false };
/// The role of listeners.
pub(crate) const LISTENS: Roles = Roles { sender: None, listener: true };

/// The address of the listener with this number.
pub(crate) fn address(number: usize) -> SocketAddr {
    let address = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number as u16 + 1);
    SocketAddr::new(address.into(), 5684)
}

/// Messages of the controller for one member.
pub(crate) struct Admission<'a> {
    pub(crate) controller: &'a [u8],
    pub(crate) policy: &'a [u8],
    pub(crate) grant: &'a [u8],
}

/// A member with this role and address.
// Apart from what it calls and what calls it, so that the stack has only what each of them needs.
#[inline(never)]
pub(crate) fn join(
    admission: &Admission<'_>,
    provider: &Provider,
    roles: (Roles, SocketAddr),
    (identity, random): (Identity, Random),
) -> Option<Box<Member>> {
    let membership = membership(admission, roles, identity)?;
    match Member::new(membership, provider, Box::new(Nowhere), NOW, random) {
        // Moved to the heap from where it was made, without a further copy on the stack.
        Ok(member) => Some(Box::new(member)),
        Err(_) => None,
    }
}

/// What the controller's messages make of a member.
#[inline(never)]
fn membership(
    admission: &Admission<'_>,
    (roles, address): (Roles, SocketAddr),
    identity: Identity,
) -> Option<Membership> {
    let controller = ControllerKey::from_bytes(&admission.controller.try_into().ok()?)?;
    let (keys, _) = KeyPath::join(controller, Grant::decode(admission.grant).ok()?);
    let policy = Policy::decode(admission.policy).ok()?;
    let (senders, address) = (SenderSet::from([SENDER]), address.ip());
    Some(Membership { policy, roles, address, senders, keys, identity })
}

/// A member, and the other side's records.
pub(crate) struct Joined {
    member: Box<Member>,
    transcript: Reader,
}

impl Joined {
    /// Joins. The transcript then stands before the request.
    pub(crate) fn new(provider: &Provider, roles: Roles, address: SocketAddr) -> Self {
        let mut transcript = Reader::named(TRANSCRIPT);
        let [controller, policy, first, second] = [(); 4].map(|()| next(&mut transcript).to_vec());
        let grant = if roles.listener { &second } else { &first };
        let admission = Admission { controller: &controller, policy: &policy, grant };
        let member = measured("start", || {
            let mut random = random::client();
            let own = (Identity::generate(&mut random), random.fork());
            join(&admission, provider, (roles, address), own)
        });
        let Some(member) = member else { fail("no membership") };
        Self { member, transcript }
    }

    /// Seals the request to the group.
    pub(crate) fn request(&mut self, buffer: &mut Buffer) {
        let sealed = measured("request", || self.member.request(NOW, &REQUEST, buffer).is_ok());
        if !sealed {
            fail("no request");
        }
        next(&mut self.transcript);
    }

    /// Opens the response of the listener with this number.
    fn response(&mut self, number: usize) {
        let Self { member, transcript } = self;
        let record = next(transcript);
        let mut is_response = false;
        measured("peer", || {
            member.receive_unicast(NOW, address(number), record, |delivery| {
                is_response |= matches!(delivery, Delivery::Response { content, .. } if *content == RESPONSE);
            });
        });
        if !is_response {
            fail("no response");
        }
    }

    /// Opens the request to the group.
    fn requested(&mut self) {
        let Self { member, transcript } = self;
        let record = next(transcript);
        let mut is_request = false;
        measured("request", || {
            member.receive_multicast(NOW, PEER, record, |delivery| {
                is_request |= matches!(delivery, Delivery::Request { content, .. } if *content == REQUEST);
            });
        });
        if !is_request {
            fail("no request");
        }
    }

    /// Seals the response.
    fn respond(&mut self, buffer: &mut Buffer) {
        let member = &mut self.member;
        let group = RequestKind::Group;
        let sealed =
            measured("peer", || member.respond(NOW, SENDER, group, &RESPONSE, buffer).is_ok());
        if !sealed {
            fail("no response");
        }
    }
}

/// The next message of the transcript.
fn next(transcript: &mut Reader) -> &mut [u8] {
    match transcript.next_entry() {
        Some((_, bytes)) => bytes,
        None => fail("a message is missing"),
    }
}

impl Sender for Joined {
    fn request(&mut self, buffer: &mut Buffer) {
        Self::request(self, buffer);
    }

    fn peer(&mut self, number: usize, _: &mut Buffer) {
        self.response(number);
    }
}

/// A sender whose listeners respond under the group's keys.
pub fn sender(provider: &Provider) -> ! {
    heap::start();
    send(Joined::new(provider, SENDS, PEER), LISTENERS)
}

/// A listener that responds under the group's keys.
pub fn listener(provider: &Provider) -> ! {
    heap::start();
    let mut joined = Joined::new(provider, LISTENS, address(0));
    joined.requested();
    joined.respond(&mut [0; LONGEST]);
    exit(0)
}

/// A sender of a group request, whose listeners respond in sessions.
#[cfg(feature = "client")]
struct WithSessions {
    member: Joined,
    sessions: Sessions,
}

#[cfg(feature = "client")]
impl Sender for WithSessions {
    fn request(&mut self, buffer: &mut Buffer) {
        self.member.request(buffer);
    }

    fn peer(&mut self, number: usize, buffer: &mut Buffer) {
        measured("session", || self.member.member.open_session(address(number)));
        self.sessions.add(None, buffer);
    }
}

/// A sender of a group request, whose listeners respond in sessions.
#[cfg(feature = "client")]
pub fn sender_with_sessions(provider: &Provider, settings: fn() -> lightseal_dtls::Settings) -> ! {
    heap::start();
    let member = Joined::new(provider, SENDS, PEER);
    send(WithSessions { member, sessions: Sessions::new(settings) }, usize::from(SESSIONS))
}

/// A listener that responds in a session to the request to the group.
#[cfg(feature = "server")]
pub fn listener_with_session(provider: &Provider, settings: fn() -> lightseal_dtls::Settings) -> ! {
    heap::start();
    let mut buffer = [0; LONGEST];
    let mut joined = Joined::new(provider, LISTENS, address(0));
    let mut session = Session::new(settings, &mut buffer);
    joined.requested();
    session.respond(&mut buffer);
    exit(0)
}
