//! DTLS 1.3 (RFC 9147) and 1.2 (RFC 6347), client and server, whose records can
//! share authentication tags in 1.3.
//!
//! A sans-I/O engine: no socket, no thread, no clock, no global. Datagrams,
//! time and randomness come in; datagrams, events and deadlines go out
//! (see [`lightseal_core::engine`], whose types this crate re-exports). It needs `alloc`, not `std`.
//!
//! # Features
//!
//! - `rustcrypto` (default): the portable provider of cryptography, [`crypto::rustcrypto`];
//! - `certificate-compression` (in `full`): compressed certificates (RFC 8879); the algorithms come from
//!   outside, as [`CertificateCompression`];
//! - `resumption`, `early-data`, `psk-importer` (in `full`): tickets of DTLS 1.3, data in the client's
//!   first flight, and external PSKs that are imported (RFC 9258);
//! - `exporter` (in `full`): keying material for the application
//!   (`Connection::export_keying_material`);
//! - `parameters` (in `full`, `server` and most others): the negotiated parameters for as long as an
//!   association lives (`Connection::negotiated`), and not only with [`Event::Connected`];
//! - `persistence` (in `full`): associations that are saved and restored;
//! - `full` (default): all parts of the engine, for hosts. A device chooses among `client`, `server`
//!   (which an [`Endpoint`] needs), `dtls12`, `liveness` (probes that show whether the peer is alive)
//!   and the next ones, and what it leaves out takes no flash;
//! - `aggregation` (in `full`): shared tags of all schemes in both directions, and code that is fast and
//!   large. Small devices choose among `agg-sender`, `agg-receiver`, `r2d2-sender` and
//!   `r2d2-receiver` instead. A scheme that a build lacks is neither offered nor accepted;
//! - `alloc` (in each of these that needs it): the engine. Without it the crate has no allocator, and
//!   contains only the cryptography and the formats of records, for engines that protect records with
//!   keys of their own;
//! - `os` (default): `Random::from_os`, a random generator that the operating system seeds;
//! - `passive`: decryption of recorded associations with secrets from a key log;
//! - `internals`: makes modules public that the crates of this repository use, such as messages and
//!   records. They are not covered by semantic versioning: any release may change them.
//!
//! Supported: external PSKs with and without (EC)DHE, X.509 certificates and raw public keys of
//! either end, application protocols, stateless retries, fragmentation, retransmission timeouts that adapt to the path, key usage limits, and fallback from 1.3 to 1.2.
//! In 1.3 also KeyUpdate and MAC aggregation, which is negotiated by an extension that other
//! implementations ignore. Sessions are resumed in both versions.
//!
//! # Many associations on one socket
//!
//! An [`Endpoint`] is a server, and with [`Endpoint::connect`] a client too: it tells its
//! associations apart by connection ID ([`Settings::connection_ids`]), and by the peer's address
//! where there is none. [`Endpoint::client`] makes an endpoint that accepts nobody. A [`Connection`]
//! is one association by itself, with a socket of its own.
//!
//! # Certificates and raw public keys
//!
//! Either end may authenticate itself by a private key with X.509 certificates, or with its raw
//! public key (RFC 7250). A server has a [`KeyStore`], such as one [`CertifiedKey`] or several
//! ([`ServerConfig::certified`], or [`ServerConfig::with_keys`] beside PSKs), and says by
//! [`ClientAuthentication`] whether it asks clients for theirs. A client has a
//! [`CertificateVerifier`] ([`ClientConfig::verifying`]), perhaps the name of the server, and perhaps
//! keys of its own. The engine does not read certificates: the verifier does, and returns the public
//! key. [`PinnedKeys`] accepts raw public keys by their hashes.
//!
//! Kinds of certificates, signature schemes and authorities are negotiated, and
//! [`KeyStore::choose`] gets what the peer accepts. A client that has both a PSK and a verifier
//! offers both: the server takes a PSK that it knows, and otherwise sends its certificate. An
//! association keeps the hash of the peer's public key and its name ([`Negotiated::peer_key`]), not
//! the certificates. [`Identity`] is the one form of identities for access lists, logs and metrics; an
//! application that does not want an authenticated peer calls [`Connection::refuse`].
//!
//! A private key may be elsewhere, in a security module or an agent: a
//! [`SigningKey`](crypto::SigningKey) that answers [`Signing::Later`](crypto::Signing::Later) is asked
//! again by [`Endpoint::lookups_answered`] or [`Connection::lookups_answered`].
//!
//! # Clients that are not welcome
//!
//! A server accepts every client that fits its configuration and has a key. An application that
//! wants to decide by address, load or identity calls [`Endpoint::hold_incoming`] once. Each new
//! client then waits as an [`Incoming`], after it has proved its address by a cookie and before the
//! endpoint keeps any state for it: [`Endpoint::next_incoming`] returns it, and the application
//! [accepts](Endpoint::accept) it, asks it for a cookie [once more](Endpoint::retry),
//! [refuses](Endpoint::refuse) it with an alert, or [ignores](Endpoint::ignore) it.
//!
//! # Coming back
//!
//! A server gives its clients tickets, and a client resumes its session with one: without
//! certificates, and with less computation. [`ClientConfig::with_session_cache`] does it for all
//! associations of a configuration, [`Connection::take_session`] and [`ClientConfig::with_session`]
//! for one. A session is offered together with the PSK or the certificates of the configuration, so
//! that a server which does not know the ticket falls back to a full handshake.
//!
//! In DTLS 1.3 a ticket serves once ([`Settings::reusable_tickets`]), for a day by default
//! ([`Settings::ticket_lifetime`]), and only at the endpoint that has sealed it: ticket keys and the
//! record of used tickets are in memory, so that both end with a restart. After a handshake with an
//! external PSK a server gives tickets only if [`Settings::psk_tickets`] says so.
//!
//! A client that resumes may send early data in its first flight ([`Connection::send_early`]), if
//! both ends allow it by [`Settings::early_data`]. Early data can be replayed and has no forward
//! secrecy: it is off by default, arrives as an event of its own ([`Event::EarlyData`]), and is not
//! for CoAP.
//!
//! # Associations that outlive their process
//!
//! With `Settings::write_ahead` an association asks its host to store it before each act that depends
//! on that ([`Event::Save`]), and goes on after `Connection::saved`. `Connection::restore`,
//! `Endpoint::restore` and `Endpoint::restore_client` go on with what the store has after the process
//! ended, however it ended: without a handshake, without a nonce used twice, and without a payload
//! delivered twice. Without it, `Connection::save` ends an association whose successor goes on with
//! it, once. Where tags are shared, messages whose tag has not come are lost with the process, and the
//! successor's data waits for its new keys.
//!
//! # Example
//!
//! A client and a server in one process that agree on one tag for eight records:
//!
//! ```
//! use lightseal_dtls::{
//!     AggregationPolicy, ClientConfig, Connection, Endpoint, Engine, Event, Instant, Output, Psk,
//!     Random, ServerConfig, Settings, crypto::rustcrypto::PROVIDER,
//! };
//! use std::sync::Arc;
//!
//! let psk = Psk::external(b"sensor 7", &[0x2a; 32])?;
//! let mut settings = Settings::new(&PROVIDER);
//! settings.aggregation = AggregationPolicy::both("agg:8".parse()?);
//! let client = ClientConfig::with(psk.clone(), settings.clone())?;
//! let server = ServerConfig::with(Arc::new(psk), settings)?;
//!
//! let (here, there) = ("[::1]:1000".parse()?, "[::1]:2000".parse()?);
//! let now = Instant::ZERO;
//! let mut client = Connection::client(Arc::new(client), there, now, Random::insecure(1));
//! let mut server = Endpoint::server(Arc::new(server), Random::insecure(2));
//! for _ in 0..8 {
//!     // Queued until the handshake is complete; then it would be sealed into the buffer.
//!     let _queued = client.send(now, b"23.5 C", &mut [])?;
//! }
//!
//! let (mut buf, mut received) = ([0; 1500], 0);
//! while received < 8 {
//!     loop {
//!         match client.poll_output(&mut buf) {
//!             Output::Datagram { payload, .. } => {
//!                 server.handle_datagram(now, here, &mut payload.to_vec());
//!             }
//!             Output::Event(_) => {}
//!             Output::BufferTooSmall { needed } => unreachable!("{needed} bytes"),
//!             Output::WakeAt(_) | Output::Idle => break,
//!         }
//!     }
//!     loop {
//!         match server.poll_output(&mut buf) {
//!             Output::Datagram { payload, .. } => {
//!                 client.handle_datagram(now, there, &mut payload.to_vec());
//!             }
//!             Output::Event(event) => received += usize::from(matches!(event.event, Event::Data(_))),
//!             Output::BufferTooSmall { needed } => unreachable!("{needed} bytes"),
//!             Output::WakeAt(_) | Output::Idle => break,
//!         }
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![allow(clippy::boxed_local, reason = "states of a handshake are not moved out of their boxes")]
#![cfg_attr(
    all(feature = "full", not(feature = "internals")),
    allow(dead_code, unreachable_pub, unused_imports, reason = "the internals are private")
)]
#![cfg_attr(
    not(feature = "full"),
    allow(
        dead_code,
        unreachable_code,
        unreachable_pub,
        unused,
        reason = "a part that is left out has no values"
    )
)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(test, feature = "os"))]
extern crate std;

pub mod codepoints;
#[cfg(feature = "alloc")]
pub mod config;
#[cfg(feature = "alloc")]
mod connection;
#[cfg(all(feature = "alloc", not(feature = "internals")))]
mod credential;
#[cfg(all(feature = "alloc", feature = "internals"))]
pub mod credential;
pub mod crypto;
#[cfg(feature = "server")]
mod endpoint;
#[cfg(feature = "alloc")]
pub mod error;
#[cfg(all(feature = "alloc", not(feature = "internals")))]
mod handshake;
#[cfg(all(feature = "alloc", feature = "internals"))]
pub mod handshake;
#[cfg(not(feature = "internals"))]
mod heap;
#[cfg(feature = "internals")]
pub mod heap;
#[cfg(all(feature = "alloc", not(feature = "internals")))]
mod messages;
#[cfg(all(feature = "alloc", feature = "internals"))]
pub mod messages;
mod parts;
#[cfg(feature = "passive")]
pub mod passive;
#[cfg(not(feature = "internals"))]
mod record;
#[cfg(feature = "internals")]
pub mod record;
#[cfg(feature = "alloc")]
mod seldom;
#[cfg(feature = "alloc")]
pub mod stats;
#[cfg(feature = "alloc")]
mod timer;
#[cfg(all(feature = "alloc", not(feature = "internals")))]
mod tuning;
#[cfg(all(feature = "alloc", feature = "internals"))]
pub mod tuning;

#[cfg(feature = "os")]
pub use config::MemorySessions;
#[cfg(feature = "alloc")]
pub use config::{
    Adapt, AdaptRule, AggregationPolicy, CertificateCompression, CertificateVerifier, CertifiedKey,
    ClientAuthentication, ClientConfig, ConnectionIds, CookiePolicy, Delivery, KeyCheck, KeyLog,
    KeyStore, Lookup, NumberMasks, OfferedCertificates, OnForgery, Packing, PeerKey, PeerLookup,
    PinnedKeys, PresentedCertificate, ProtocolVersion, Psk, PskStore, RecordLengths, RecordNumbers,
    ServerConfig, Session, SessionCache, SessionKey, SessionSlots, Settings, WhenFull,
};
#[cfg(feature = "alloc")]
pub use connection::{
    Connection, Event, Marks, OpenSets, RestoreError, SaveError, SavedAssociation,
    SleepingConnection, Watch, WhenRejected,
};
#[cfg(feature = "alloc")]
pub use credential::{Identity, IdentityError};
pub use crypto::ExportError;
#[cfg(feature = "server")]
pub use endpoint::{
    ConnectionIdGenerator, ConnectionMut, ConnectionRef, Endpoint, EndpointEvent, EndpointStats,
    Handle, Incoming, ProcessOutOfRange, TicketSecrets,
};
#[cfg(feature = "alloc")]
pub use error::{
    AggregationError, BadCertificate, CloseReason, ConfigError, ConnectError,
    ConnectionIdLengthChanged, EarlyDataError, Fault, Incompatibility, Limit, Misbehaviour,
    ReasonClass, ReasonCounts, SendError,
};
#[cfg(feature = "alloc")]
pub use handshake::Negotiated;
pub use lightseal_aggregation::choice::Family;
pub use lightseal_aggregation::{Scheme, SchemeError};
#[cfg(feature = "os")]
pub use lightseal_core::OsRandomError;
pub use lightseal_core::{AddressPair, Engine, Instant, Output, Random, Sent};
#[cfg(feature = "alloc")]
pub use messages::extensions::MaxFragmentLength;
pub use record::ConnectionId;
#[cfg(feature = "alloc")]
pub use record::{RecordId, Resolution, SecurityLevel};
#[cfg(feature = "alloc")]
pub use stats::Stats;

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
