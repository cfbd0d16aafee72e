//! Lightseal beside other people's implementations.
//!
//! - [`trial`]: CoAP through such a tunnel;
//! - [`tunnel`]: two of our proxies and a relay, as processes;
//! - [`wolfssl`]: DTLS 1.3 by wolfSSL, in memory, one object an end.
//! - [`coap`]: libcoap's client and server, and a tap between them;
//! - [`driven`]: wolfSSL behind our engine contract;
//! - [`meeting`]: one of ours and one of theirs in virtual time;
//! - [`ours`]: Lightseal with the settings of a wolfSSL peer;
//! - [`ours_race`] and [`pair`]: each implementation against itself, to be timed;
//! - [`process`]: programs that run beside a test;
//! - [`race`]: two implementations timed in turns.
//!
//! Everything here serves tests and measurements and is never published:
//! wolfSSL is under the GPL.

pub mod coap;
pub mod driven;
pub mod meeting;
pub mod ours;
pub mod ours_race;
pub mod pair;
pub mod process;
pub mod race;
pub mod trial;
pub mod tunnel;
pub mod wolfssl;
