//! An association of an endpoint, awake or asleep.

use crate::connection::{Connection, SleepingConnection};
use crate::handshake::Negotiated;
use crate::parts::{self, OfPart};
use crate::stats::Stats;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;

/// An association of an endpoint.
#[derive(Debug)]
pub(super) enum Association {
    Awake(Box<Connection>),
    Asleep(OfPart<parts::Sleep, Box<SleepingConnection>>),
}

impl Association {
    /// The association, to be read. If it sleeps it is made for this, without keys, and sleeps on.
    pub(super) fn view(&self) -> ConnectionRef<'_> {
        ConnectionRef(match self {
            Self::Awake(connection) => View::Awake(connection),
            Self::Asleep(asleep) => View::Made(asleep.view()),
        })
    }

    /// The association, which wakes up if it sleeps.
    #[inline]
    pub(super) fn wake(&mut self) -> &mut Connection {
        if let Self::Asleep(asleep) = self {
            *self = Self::Awake(asleep.awaken());
        }
        match self {
            Self::Awake(connection) => connection,
            Self::Asleep(..) => unreachable!("it was woken"),
        }
    }

    /// The association, unless it sleeps.
    pub(super) fn awake(&self) -> Option<&Connection> {
        match self {
            Self::Awake(connection) => Some(connection),
            Self::Asleep(..) => None,
        }
    }

    /// Lets the association sleep, if it can.
    pub(super) fn sleep(&mut self) {
        if let (Self::Awake(connection), Some(part)) = (&mut *self, parts::Sleep::INCLUDED)
            && let Some(asleep) = connection.sleep()
        {
            *self = Self::Asleep(OfPart::new(part, Box::new(asleep)));
        }
    }

    /// Whether the association is neither ending nor ended.
    pub(super) fn is_open(&self) -> bool {
        self.awake().is_none_or(Connection::is_open)
    }

    /// Whether the handshake is complete and the association open.
    pub(super) fn is_connected(&self) -> bool {
        self.awake().is_none_or(Connection::is_connected)
    }

    /// The negotiated parameters; `None` before the handshake is complete.
    pub(super) fn negotiated(&self) -> Option<Cow<'_, Negotiated>> {
        match self {
            Self::Awake(connection) => connection.agreed().map(Cow::Borrowed),
            Self::Asleep(asleep) => Some(Cow::Owned(asleep.negotiated())),
        }
    }

    /// The counters of the association.
    pub(super) fn stats(&self) -> Stats {
        match self {
            Self::Awake(connection) => connection.stats(),
            Self::Asleep(asleep) => asleep.stats(),
        }
    }

    /// The size of received and queued payloads held in memory, in bytes with overhead.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.awake().map_or(0, Connection::buffered_bytes)
    }
}

/// One association of an [`Endpoint`](super::Endpoint), borrowed to be read.
///
/// It dereferences to the [`Connection`]. An association that sleeps is made of its bytes for this,
/// and sleeps on. Its keys are not derived: whoever reads all associations pays for none of them.
pub struct ConnectionRef<'a>(View<'a>);

enum View<'a> {
    Awake(&'a Connection),
    /// Made of one that sleeps.
    Made(Box<Connection>),
}

/// For code that reads associations of an endpoint and others alike.
impl<'a> From<&'a Connection> for ConnectionRef<'a> {
    fn from(connection: &'a Connection) -> Self {
        Self(View::Awake(connection))
    }
}

impl Deref for ConnectionRef<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match &self.0 {
            View::Awake(connection) => connection,
            View::Made(connection) => connection,
        }
    }
}

impl fmt::Debug for ConnectionRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
