//! Where clients keep their sessions.

use super::{Psk, Session};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use lightseal_core::Instant;

/// Under what a session is cached: the server, and what the client authenticates itself with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    address: SocketAddr,
    server_name: Option<String>,
    identity: Vec<u8>,
}

impl SessionKey {
    pub(crate) fn new(address: SocketAddr, server_name: Option<&str>, psk: Option<&Psk>) -> Self {
        let identity = psk.map(|psk| psk.identity().to_vec()).unwrap_or_default();
        Self { address, server_name: server_name.map(String::from), identity }
    }

    /// The server's address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The name of the server that the client asks for.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The client's PSK identity; empty if it has no PSK.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }
}

/// A cache of sessions, which the associations of one or several configurations share.
///
/// The engine checks each session that it gets from a cache: one that has expired, or was made with
/// other keys, is not offered to the server.
pub trait SessionCache: Send + Sync {
    /// Keeps a session. A server of DTLS 1.3 may give several, each of which serves once. One of
    /// DTLS 1.2 comes back when an association that resumed it has completed its handshake.
    fn put(&self, key: &SessionKey, session: Session, now: Instant);

    /// Hands out a session for a new association, the newest first, and forgets it.
    fn take(&self, key: &SessionKey, now: Instant) -> Option<Session>;
}

#[cfg(feature = "os")]
pub use memory::MemorySessions;

#[cfg(feature = "os")]
mod memory {
    use super::{Session, SessionCache, SessionKey};
    use crate::tuning::{MAX_CACHED_SESSIONS, SESSION_LIFETIME};
    use alloc::collections::{BTreeMap, VecDeque};
    use core::fmt;
    use core::num::NonZeroUsize;
    use lightseal_core::Instant;
    use std::sync::{Mutex, PoisonError};

    /// A cache of sessions in memory, for a bounded number of servers.
    ///
    /// It keeps up to four sessions of each server, or another number that it is told, and drops them
    /// when they expire. When there are too many servers, it forgets the one whose last session came
    /// first.
    pub struct MemorySessions {
        servers: NonZeroUsize,
        each: NonZeroUsize,
        kept: Mutex<Kept>,
    }

    #[derive(Default)]
    struct Kept {
        /// Each with the time at which it is forgotten.
        sessions: BTreeMap<SessionKey, VecDeque<(Instant, Session)>>,
        /// The servers, in the order in which their last sessions came.
        order: VecDeque<SessionKey>,
    }

    impl MemorySessions {
        /// A cache for at most this many servers.
        pub fn new(servers: NonZeroUsize) -> Self {
            const EACH: NonZeroUsize = NonZeroUsize::new(MAX_CACHED_SESSIONS).expect("not 0");
            Self { servers, each: EACH, kept: Mutex::default() }
        }

        /// The cache with at most this many sessions of each server: as many associations can resume
        /// before new sessions come.
        #[must_use]
        pub fn with_sessions(self, each: NonZeroUsize) -> Self {
            Self { each, ..self }
        }

        /// The number of sessions in the cache.
        pub fn len(&self) -> usize {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.sessions.values().map(VecDeque::len).sum()
        }

        /// Whether the cache has no session.
        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }

    impl Kept {
        fn drop_expired(&mut self, key: &SessionKey, now: Instant) {
            let Some(sessions) = self.sessions.get_mut(key) else { return };
            sessions.retain(|(expires, _)| now < *expires);
            if sessions.is_empty() {
                self.forget(key);
            }
        }

        fn forget(&mut self, key: &SessionKey) {
            self.sessions.remove(key);
            self.order.retain(|other| other != key);
        }
    }

    impl SessionCache for MemorySessions {
        fn put(&self, key: &SessionKey, session: Session, now: Instant) {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.drop_expired(key, now);
            let sessions = kept.sessions.entry(key.clone()).or_default();
            while sessions.len() >= self.each.get() {
                sessions.pop_front();
            }
            // RFC 5246, appendix F.1.4, suggests at most a day.
            let expires = session.expires().unwrap_or(now + SESSION_LIFETIME);
            sessions.push_back((expires, session));
            kept.order.retain(|other| other != key);
            kept.order.push_back(key.clone());
            while kept.order.len() > self.servers.get() {
                let Some(oldest) = kept.order.front().cloned() else { return };
                kept.forget(&oldest);
            }
        }

        fn take(&self, key: &SessionKey, now: Instant) -> Option<Session> {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.drop_expired(key, now);
            let sessions = kept.sessions.get_mut(key)?;
            let newest = sessions.pop_back().map(|(_, session)| session);
            if sessions.is_empty() {
                kept.forget(key);
            }
            newest
        }
    }

    impl fmt::Debug for MemorySessions {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("MemorySessions").field("sessions", &self.len()).finish()
        }
    }
}
