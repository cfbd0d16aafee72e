//! Sessions as bytes, with which a client resumes after it was restarted.

use super::ClientConfig;
use super::session::{OwnCredential, Owner, Session, Session12, Session13, Ticket};
use crate::crypto::{CipherSuiteId, MasterSecret12};
use crate::parts;
use crate::tuning::LONGEST_TICKET;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Instant, Reader, Writer};
use zeroize::Zeroizing;

/// The first two bytes: the format, and the version of DTLS.
const DTLS13: [u8; 2] = [2, 13];
const DTLS12: [u8; 2] = [2, 12];

/// The longest stored session in bytes: the ticket with its length, and names and secrets.
const LONGEST: usize = LONGEST_TICKET + 4096;

/// The session was made with an extended master secret (DTLS 1.2).
const EXTENDED_MASTER: u8 = 1;
/// The client had keys with which it could authenticate itself.
const OWN_KEYS: u8 = 2;

/// The owner of a client's session as it was stored, with the client's keys of now; `None` if the
/// client cannot have made the session.
fn owner(flags: u8, config: &ClientConfig, r: &mut Reader<'_>) -> Option<Owner> {
    let mut owner = Owner::read(r)?;
    if let Owner::Certificates(owner) = &mut owner {
        let keys = config.certificates.get()?.keys.as_ref();
        owner.own = OwnCredential::Client(match flags & OWN_KEYS {
            0 => None,
            _ => Some(Arc::downgrade(keys?)),
        });
    }
    Some(owner)
}

/// The flag for the client's keys; `None` for the session of a server.
fn flags(owner: &Owner) -> Option<u8> {
    match owner {
        Owner::Psk(_) => Some(0),
        Owner::Certificates(owner) => match &owner.own {
            OwnCredential::Client(keys) => Some(if keys.is_some() { OWN_KEYS } else { 0 }),
            OwnCredential::Server(_) => None,
        },
    }
}

impl Session {
    /// The session as bytes, which a client may keep until it has been restarted. Anybody who has
    /// them has the secret of the session. Times in them are those of the client's clock, which must
    /// go on at the restart, as a clock does that shows the time since 1970.
    ///
    /// ```text
    /// DTLS 1.3: | 2 | 13 | flags (1) | suite (2) | received (8) | expires (8) | age_add (4)
    ///           | early data (4) | PSK (1 + n) | ticket (2 + n) | ALPN (1 + n) | owner |
    /// DTLS 1.2: | 2 | 12 | flags (1) | suite (2) | master secret (48) | ID (1 + n)
    ///           | ticket (2 + n); an empty ticket is none | owner |
    /// owner:    the PSK, or the server and its name, as at the end of a server's ticket
    /// ```
    ///
    /// `None` for the session of a server.
    pub fn to_bytes(&self) -> Option<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(alloc::vec![0; LONGEST]);
        let mut w = Writer::new(&mut bytes);
        let flags = flags(self.owner())?;
        match (self.dtls12(), self.dtls13()) {
            (Some(session), _) => write_12(session, flags, &mut w).ok()?,
            (None, Some((_, session))) => write_13(session, flags, &mut w).ok()?,
            (None, None) => return None,
        }
        self.owner().write(&mut w).ok()?;
        let len = w.len();
        bytes.truncate(len);
        Some(bytes)
    }

    /// The session that [`to_bytes`](Self::to_bytes) has stored, for
    /// [`ClientConfig::with_session`]. `None` if these are other bytes, or if a client with this
    /// configuration cannot resume the session.
    ///
    /// If the client has keys of its own, the caller must know that they are those with which the
    /// session was made: the server takes the client for whoever made the session. As for each
    /// session, the verifier must [still accept](crate::CertificateVerifier::still_accepts) the
    /// server's key when the session is used.
    pub fn from_bytes(bytes: &[u8], config: &ClientConfig) -> Option<Self> {
        let mut r = Reader::new(bytes);
        let session = match r.array().ok()? {
            DTLS12 => Self::of_12(read_12(config, &mut r)?),
            DTLS13 => Self::of_13(parts::Resumption::INCLUDED?, read_13(config, &mut r)?),
            _ => return None,
        };
        r.finish().ok()?;
        Some(session)
    }
}

fn write_12(session: &Session12, flags: u8, w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.bytes(&DTLS12)?;
    w.u8(flags | if session.extended_master { EXTENDED_MASTER } else { 0 })?;
    w.u16(session.suite.0)?;
    w.bytes(session.master.as_bytes())?;
    w.vec8(|w| w.bytes(&session.id))?;
    w.vec16(|w| w.bytes(session.ticket.as_ref().map_or(&[][..], |ticket| &ticket.bytes)))
}

fn read_12(config: &ClientConfig, r: &mut Reader<'_>) -> Option<Session12> {
    let flags = r.u8().ok()?;
    let suite = CipherSuiteId(r.u16().ok()?);
    let hash = config.settings().provider.suite_12(suite)?.hash;
    let master = MasterSecret12::from_bytes(hash, r.array().ok()?);
    // The longest session ID has 32 bytes (RFC 5246, section 7.4.1.2).
    let id = Some(r.vec8().ok()?.to_vec()).filter(|id| id.len() <= 32)?;
    let bytes = Some(r.vec16().ok()?.to_vec()).filter(|bytes| bytes.len() <= LONGEST_TICKET)?;
    let ticket = Some(Ticket { bytes }).filter(|ticket| !ticket.bytes.is_empty());
    let owner = owner(flags, config, r)?;
    let extended_master = flags & EXTENDED_MASTER != 0;
    let part = parts::Resumption12::INCLUDED?;
    Some(Session12 { part, suite, extended_master, master, owner, id, ticket })
}

fn write_13(session: &Session13, flags: u8, w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.bytes(&DTLS13)?;
    w.u8(flags)?;
    w.u16(session.suite.0)?;
    w.u64(session.received.as_micros())?;
    w.u64(session.expires.as_micros())?;
    w.u32(session.age_add)?;
    w.u32(session.max_early_data)?;
    w.vec8(|w| w.bytes(&session.psk))?;
    w.vec16(|w| w.bytes(&session.ticket))?;
    w.vec8(|w| w.bytes(&session.alpn))
}

fn read_13(config: &ClientConfig, r: &mut Reader<'_>) -> Option<Session13> {
    let flags = r.u8().ok()?;
    let suite = CipherSuiteId(r.u16().ok()?);
    let received = Instant::from_micros(r.u64().ok()?);
    let expires = Instant::from_micros(r.u64().ok()?);
    let (age_add, max_early_data) = (r.u32().ok()?, r.u32().ok()?);
    let psk = Zeroizing::new(r.vec8().ok()?.to_vec());
    let ticket = Some(r.vec16().ok()?.to_vec()).filter(|ticket| ticket.len() <= LONGEST_TICKET)?;
    let alpn = r.vec8().ok()?.to_vec();
    let owner = owner(flags, config, r)?;
    Some(Session13 { suite, psk, ticket, age_add, received, expires, max_early_data, owner, alpn })
}

#[cfg(all(test, feature = "rustcrypto"))]
mod tests {
    use super::*;
    use crate::config::{PinnedKeys, Psk, Settings};
    use crate::credential::PeerKey;
    use crate::crypto::rustcrypto::PROVIDER;
    use std::format;

    fn config() -> ClientConfig {
        let psk = Psk::external(b"sensor", &[7; 32]).unwrap();
        let verifying = ClientConfig::new(psk).with_verifier(Arc::new(PinnedKeys::default()));
        verifying.unwrap().with_server_name("hub.example").unwrap()
    }

    fn sessions() -> Vec<Session> {
        let part = parts::Resumption::INCLUDED.unwrap();
        let config = config();
        let owner = Owner::of(config.psk().unwrap());
        let key = PeerKey::new([9; 32], Some("hub.example".into()));
        let certified = Owner::of_client(config.certificates.get().unwrap(), Some(key));
        let new = |owner| {
            let session = Session13 {
                suite: CipherSuiteId::AES_128_CCM_SHA256,
                psk: Zeroizing::new(alloc::vec![3; 32]),
                ticket: alloc::vec![4; 100],
                age_add: u32::MAX,
                received: Instant::from_micros(5),
                expires: Instant::from_micros(7_200_000_000),
                max_early_data: 100,
                owner,
                alpn: b"co".to_vec(),
            };
            Session::of_13(part, session)
        };
        let old = |owner, id: &[u8], ticket: Option<Ticket>| {
            let suite = PROVIDER.suites_12[0];
            let part = parts::Resumption12::INCLUDED.unwrap();
            let session = Session12 {
                part,
                suite: suite.id,
                extended_master: true,
                master: MasterSecret12::from_bytes(suite.hash, [8; 48]),
                owner,
                id: id.to_vec(),
                ticket,
            };
            Session::of_12(session)
        };
        [
            new(owner.clone()),
            new(certified.clone()),
            old(owner, &[1; 32], None),
            old(certified, &[], Some(Ticket { bytes: alloc::vec![2; 200] })),
        ]
        .into()
    }

    #[test]
    fn sessions_come_back_whole_and_other_bytes_are_refused() {
        for session in sessions() {
            let bytes = session.to_bytes().unwrap();
            let read = Session::from_bytes(&bytes, &config()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{session:?}"));
            assert_eq!(read.to_bytes(), Some(bytes.clone()));
            for cut in 0..bytes.len() {
                assert!(Session::from_bytes(&bytes[..cut], &config()).is_none(), "cut at {cut}");
            }
            assert!(Session::from_bytes(&[&bytes[..], &[0]].concat(), &config()).is_none());
            for at in 0..2 {
                let mut other = bytes.to_vec();
                other[at] ^= 0x40;
                assert!(Session::from_bytes(&other, &config()).is_none(), "byte {at}");
            }
        }
    }

    /// A session that was made with keys of the client's own is of no use to a client without keys.
    #[test]
    fn keys_that_are_missing_now_are_missed() {
        for (number, session) in sessions().iter().enumerate() {
            let mut bytes = session.to_bytes().unwrap();
            bytes[2] |= OWN_KEYS;
            let with_psk = number % 2 == 0;
            assert_eq!(Session::from_bytes(&bytes, &config()).is_some(), with_psk);
        }
        let alone =
            ClientConfig::with(Psk::external(b"a", &[1; 32]).unwrap(), Settings::new(&PROVIDER));
        let certified = sessions()[3].to_bytes().unwrap();
        assert!(Session::from_bytes(&certified, &alone.unwrap()).is_none());
    }
}
