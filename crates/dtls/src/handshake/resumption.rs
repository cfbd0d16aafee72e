//! The tickets of DTLS 1.3 (RFC 8446, section 4.6.1): what a server seals into them, and what each
//! end keeps of them.

use super::session::Sessions;
use super::ticket_keys::{TicketId, TicketKeys, TicketSealer};
use crate::codepoints::ExtensionType;
use crate::config::Settings;
use crate::config::session::{Owner, Session, Session13};
use crate::crypto::{CipherSuiteId, ResumptionSecret};
use crate::messages::ClientHello;
use crate::messages::extensions::{OfferedPsk, OfferedPsks, psk_modes};
use crate::messages::ticket::NewSessionTicket13;
use crate::parts::{self, PartState};
use crate::tuning::{LONGEST_TICKET, MAX_KEPT_TICKETS, MAX_OFFERED_TICKETS};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Encode, Instant, Random, Reader, Writer};
use zeroize::Zeroizing;

/// What the two ends of an association agreed on, as far as tickets carry it on.
#[derive(Clone, Debug)]
pub(crate) struct Agreed {
    pub(crate) suite: CipherSuiteId,
    pub(crate) owner: Owner,
    /// The application protocol; empty if none was negotiated.
    pub(crate) alpn: Vec<u8>,
}

/// The content of a ticket.
///
/// ```text
/// | 2 (1) | issued (8) | lifetime (4) | age_add (4) | early data (4) | suite (2) | PSK (1 + n)
/// | ALPN (1 + n) | owner |
/// ```
///
/// Times are in microseconds, the lifetime is in seconds. The owner is an [`Owner`].
#[derive(Clone)]
pub(crate) struct TicketContent {
    pub(crate) issued: Instant,
    /// The lifetime in seconds.
    pub(crate) lifetime: u32,
    pub(crate) age_add: u32,
    /// The largest number of bytes of early data; 0: none is accepted.
    pub(crate) max_early_data: u32,
    pub(crate) psk: Zeroizing<Vec<u8>>,
    pub(crate) agreed: Agreed,
}

/// The first byte of a ticket's content.
const FORMAT: u8 = 2;

impl TicketContent {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(FORMAT)?;
        w.u64(self.issued.as_micros())?;
        w.u32(self.lifetime)?;
        w.u32(self.age_add)?;
        w.u32(self.max_early_data)?;
        w.u16(self.agreed.suite.0)?;
        w.vec8(|w| w.bytes(&self.psk))?;
        w.vec8(|w| w.bytes(&self.agreed.alpn))?;
        self.agreed.owner.write(w)
    }

    fn read(content: &[u8]) -> Option<Self> {
        let mut r = Reader::new(content);
        if r.u8().ok()? != FORMAT {
            return None;
        }
        let issued = Instant::from_micros(r.u64().ok()?);
        let (lifetime, age_add) = (r.u32().ok()?, r.u32().ok()?);
        let max_early_data = r.u32().ok()?;
        let suite = CipherSuiteId(r.u16().ok()?);
        let psk = Zeroizing::new(r.vec8().ok()?.to_vec());
        let alpn = r.vec8().ok()?.to_vec();
        let owner = Owner::read(&mut r)?;
        r.finish().ok()?;
        let agreed = Agreed { suite, owner, alpn };
        Some(Self { issued, lifetime, age_add, max_early_data, psk, agreed })
    }

    /// The content as bytes; `None` if a name in it is too long for a ticket.
    fn to_bytes(&self) -> Option<Zeroizing<Vec<u8>>> {
        let mut content = Zeroizing::new(alloc::vec![0; 1024]);
        let mut w = Writer::new(&mut content);
        self.write(&mut w).ok()?;
        let len = w.len();
        content.truncate(len);
        Some(content)
    }

    fn expires(&self) -> Instant {
        self.issued + Duration::from_secs(self.lifetime.into())
    }
}

impl fmt::Debug for TicketContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketContent").field("agreed", &self.agreed).finish_non_exhaustive()
    }
}

/// A ticket in a ClientHello that this server has issued and that has not expired. Its binder is not
/// verified yet.
#[derive(Debug)]
pub(crate) struct OpenedTicket {
    pub(crate) part: parts::Resumption,
    /// Its place among the offered PSKs.
    pub(crate) index: u16,
    pub(crate) id: TicketId,
    pub(crate) content: TicketContent,
    /// The difference between the age that the client states and the one that the server measures.
    pub(crate) age_difference: Duration,
}

/// Opens the ticket `offered`, which is at place `index` of a ClientHello; `None` if this server has
/// not issued it, or it has expired.
pub(crate) fn open(
    part: parts::Resumption,
    keys: &TicketKeys,
    now: Instant,
    index: u16,
    offered: &OfferedPsk<'_>,
) -> Option<OpenedTicket> {
    let (id, content) = keys.open(offered.identity)?;
    let content = TicketContent::read(&content)?;
    if now >= content.expires() || now < content.issued {
        return None;
    }
    let stated = offered.obfuscated_ticket_age.wrapping_sub(content.age_add);
    let measured = (now - content.issued).as_millis() as u64;
    let age_difference = Duration::from_millis(u64::from(stated).abs_diff(measured));
    Some(OpenedTicket { part, index, id, content, age_difference })
}

/// What a server of DTLS 1.3 does about the tickets of a client before it keeps any state.
#[derive(Debug, Default)]
pub(crate) struct HelloTickets {
    /// The first ticket of the client that this server has issued and that was not used.
    pub(crate) opened: PartState<parts::Resumption, OpenedTicket>,
    /// The tickets that the client is to get.
    pub(crate) issuer: PartState<parts::Resumption, TicketIssuer>,
}

impl HelloTickets {
    /// Opens the tickets among `offered`, and reserves the numbers of at most `count` tickets for the
    /// client: none if it cannot use any of this server's PSK key exchange modes (RFC 8446, section 4.2.9).
    pub(crate) fn new(
        settings: &Settings,
        sessions: &mut Sessions,
        rng: &mut Random,
        now: Instant,
        count: u8,
        hello: &ClientHello<'_>,
        offered: Option<&OfferedPsks<'_>>,
    ) -> Result<Self, DecodeError> {
        let mut tickets = Self::default();
        let Some(part) = parts::Resumption::INCLUDED.filter(|_| settings.resumption) else {
            return Ok(tickets);
        };
        let Some(modes) = hello.extensions.get(ExtensionType::PSK_KEY_EXCHANGE_MODES) else {
            return Ok(tickets);
        };
        if !psk_modes(modes)?.any(|mode| settings.psk_modes.contains(&mode)) {
            return Ok(tickets);
        }
        if count == 0 {
            return Ok(tickets);
        }
        let Some(keys) = sessions.tickets(now, rng, settings) else { return Ok(tickets) };
        let offered = offered.into_iter().flat_map(OfferedPsks::iter).take(MAX_OFFERED_TICKETS);
        let mut opened = (0..).zip(offered).filter_map(|(index, offered)| {
            open(part, &keys, now, index, &offered)
                .filter(|ticket| settings.reusable_tickets || !sessions.is_used(ticket.id))
        });
        if let Some(ticket) = opened.next() {
            tickets.opened.set(part, ticket);
        }
        drop(opened);
        let sealers = (0..count).filter_map(|_| sessions.sealer()).collect();
        let lifetime = settings.ticket_lifetime.as_secs() as u32;
        let max_early_data =
            if parts::EarlyData::INCLUDED.is_some() { settings.early_data } else { 0 };
        tickets.issuer.set(part, TicketIssuer { sealers, lifetime, max_early_data });
        Ok(tickets)
    }
}

/// The tickets that a server gives to a client once the handshake is complete.
#[derive(Debug)]
pub(crate) struct TicketIssuer {
    pub(crate) sealers: Vec<TicketSealer>,
    /// The lifetime in seconds.
    pub(crate) lifetime: u32,
    pub(crate) max_early_data: u32,
}

impl TicketIssuer {
    /// Issues as many tickets as the settings say for a session of this owner, which a ticket
    /// resumed or a full handshake made. `None` if that is none.
    pub(crate) fn limited(
        mut self,
        settings: &Settings,
        owner: &Owner,
        resumed: bool,
    ) -> Option<Self> {
        let full = match owner {
            Owner::Psk(_) => settings.psk_tickets,
            Owner::Certificates(..) => settings.tickets,
        };
        self.sealers.truncate(if resumed { full.min(1) } else { full }.into());
        Some(self).filter(|issuer| !issuer.sealers.is_empty())
    }

    /// The bodies of NewSessionTicket messages.
    fn issue(
        self,
        secret: &ResumptionSecret,
        agreed: &Agreed,
        now: Instant,
        rng: &mut Random,
    ) -> Vec<Vec<u8>> {
        let Self { sealers, lifetime, max_early_data } = self;
        let tickets = (0..=u8::MAX).zip(sealers).filter_map(|(nonce, sealer)| {
            let age_add = u32::from_be_bytes(rng.array());
            let psk = Zeroizing::new(secret.psk(&[nonce]).to_vec());
            let (issued, agreed) = (now, agreed.clone());
            let content = TicketContent { issued, lifetime, age_add, max_early_data, psk, agreed };
            let ticket = sealer.seal(&content.to_bytes()?);
            let message = NewSessionTicket13 {
                lifetime,
                age_add,
                nonce: &[nonce],
                ticket: &ticket,
                max_early_data: Some(max_early_data).filter(|most| *most > 0),
            };
            super::message_body(32 + ticket.len(), |w| message.write(w)).ok()
        });
        tickets.collect()
    }
}

/// What an association keeps for resumption.
#[derive(Debug)]
pub(crate) struct Resumption {
    pub(crate) part: parts::Resumption,
    pub(crate) secret: ResumptionSecret,
    pub(crate) agreed: Agreed,
    pub(crate) tickets: Tickets,
}

/// The tickets of one end.
#[derive(Debug)]
pub(crate) enum Tickets {
    /// Tickets that a server is to send.
    ToSend(TicketIssuer),
    /// Tickets that a client has received and not handed out, newest last.
    Received(Vec<Session13>),
}

impl Resumption {
    /// What a client keeps for the tickets that it may receive.
    pub(crate) fn receiver(
        part: parts::Resumption,
        secret: ResumptionSecret,
        agreed: Agreed,
    ) -> PartState<parts::Resumption, Self> {
        let mut state = PartState::EMPTY;
        state.set(part, Self { part, secret, agreed, tickets: Tickets::Received(Vec::new()) });
        state
    }

    /// The bodies of the messages in which a server sends its tickets.
    pub(crate) fn issue(self, now: Instant, rng: &mut Random) -> Vec<Vec<u8>> {
        match self.tickets {
            Tickets::ToSend(issuer) => issuer.issue(&self.secret, &self.agreed, now, rng),
            Tickets::Received(_) => Vec::new(),
        }
    }

    /// A client has received a ticket. Returns it, unless it is of no use.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        message: &NewSessionTicket13<'_>,
    ) -> Option<Session> {
        let Tickets::Received(kept) = &mut self.tickets else { return None };
        // RFC 8446, section 4.6.1: no ticket is kept for longer than seven days.
        let lifetime = message.lifetime.min(NewSessionTicket13::MOST_LIFETIME);
        if lifetime == 0 || message.ticket.len() > LONGEST_TICKET {
            return None;
        }
        let session = Session13 {
            suite: self.agreed.suite,
            psk: Zeroizing::new(self.secret.psk(message.nonce).to_vec()),
            ticket: message.ticket.to_vec(),
            age_add: message.age_add,
            received: now,
            expires: now + Duration::from_secs(lifetime.into()),
            max_early_data: message.max_early_data.unwrap_or(0),
            owner: self.agreed.owner.clone(),
            alpn: self.agreed.alpn.clone(),
        };
        if kept.len() == MAX_KEPT_TICKETS {
            kept.remove(0);
        }
        kept.push(session.clone());
        Some(Session::of_13(self.part, session))
    }

    /// The newest ticket of a client.
    pub(crate) fn newest(&self) -> Option<Session> {
        let Tickets::Received(kept) = &self.tickets else { return None };
        kept.last().map(|session| Session::of_13(self.part, session.clone()))
    }

    /// As [`newest`](Self::newest); the ticket is forgotten.
    pub(crate) fn take(&mut self) -> Option<Session> {
        let Tickets::Received(kept) = &mut self.tickets else { return None };
        kept.pop().map(|session| Session::of_13(self.part, session))
    }
}

impl Session13 {
    /// `obfuscated_ticket_age` (RFC 8446, section 4.2.11.1).
    pub(crate) fn obfuscated_age(&self, now: Instant) -> u32 {
        let age = (now - self.received).as_millis() as u32;
        age.wrapping_add(self.age_add)
    }
}

#[cfg(all(test, feature = "rustcrypto"))]
mod tests {
    use super::*;
    use crate::config::{PeerKey, Psk};
    use crate::crypto::rustcrypto::PROVIDER;
    use alloc::string::String;
    use std::format;

    fn contents() -> Vec<TicketContent> {
        let part = parts::Certificates::INCLUDED.unwrap();
        let certified = |peer| {
            let mut owner = Owner::of_server(part, None, Some("hub.example".into()));
            if let Some(name) = peer {
                let name: Option<&str> = name;
                owner.set_peer(PeerKey { spki_sha256: [9; 32], name: name.map(String::from) });
            }
            owner
        };
        let owners = [
            Owner::of(&Psk::external(b"sensor", &[7; 32]).unwrap()),
            Owner::of_server(part, None, None),
            certified(None),
            certified(Some(None)),
            certified(Some(Some("device.example"))),
        ];
        let content = |owner| TicketContent {
            issued: Instant::from_micros(5_000_000),
            lifetime: 7200,
            age_add: u32::MAX,
            max_early_data: 100,
            psk: Zeroizing::new(alloc::vec![3; 32]),
            agreed: Agreed { suite: CipherSuiteId::AES_128_CCM_SHA256, owner, alpn: b"co".into() },
        };
        let mut contents: Vec<_> = owners.into_iter().map(content).collect();
        contents[0].agreed.alpn.clear();
        contents
    }

    #[test]
    fn contents_come_back_whole_and_unchanged() {
        for content in contents() {
            let bytes = content.to_bytes().unwrap();
            let read = TicketContent::read(&bytes).unwrap();
            assert_eq!(read.to_bytes().unwrap(), bytes);
            assert_eq!(format!("{read:?}"), format!("{content:?}"));
            for cut in 0..bytes.len() {
                assert!(TicketContent::read(&bytes[..cut]).is_none());
            }
            assert!(TicketContent::read(&[&bytes[..], &[0]].concat()).is_none());
        }
        let mut other = contents()[0].to_bytes().unwrap();
        other[0] = 1;
        assert!(TicketContent::read(&other).is_none(), "a ticket of DTLS 1.2");
    }

    #[test]
    fn a_ticket_lives_from_its_issue_to_its_expiry() {
        let part = parts::Resumption::INCLUDED.unwrap();
        let keys = TicketKeys::rotated(None, &mut Random::insecure(1), &PROVIDER).unwrap();
        let content = contents().remove(0);
        let ticket = TicketSealer::new(&keys, 1).seal(&content.to_bytes().unwrap());
        let opened = |at: Instant, age: u32| {
            let offered = OfferedPsk {
                identity: &ticket,
                obfuscated_ticket_age: age.wrapping_add(content.age_add),
                binder: &[],
            };
            open(part, &keys, at, 0, &offered)
        };
        let issued = content.issued;
        assert!(opened(Instant::ZERO, 0).is_none());
        assert_eq!(opened(issued, 0).unwrap().age_difference, Duration::ZERO);
        let last = issued + Duration::from_millis(7_199_999);
        assert_eq!(opened(last, 7_199_000).unwrap().age_difference, Duration::from_millis(999));
        let behind = opened(issued, 7000).unwrap().age_difference;
        assert_eq!(behind, Duration::from_secs(7));
        assert!(opened(issued + Duration::from_secs(7200), 0).is_none());
    }
}
