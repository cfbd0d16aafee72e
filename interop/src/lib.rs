//! Lightseal with other implementations of DTLS, and compared with them.
//!
//! - [`wolfssl`]: DTLS 1.3 and 1.2 by wolfSSL, in memory, one object for each end;
//! - [`foreign`]: DTLS 1.2 by pion, Scandium and NSS, programs in Go, Java and C;
//! - [`driven`]: wolfSSL behind our engine contract;
//! - [`ours`]: Lightseal with the settings of a wolfSSL peer;
//! - [`peers`]: programs of others and of ours that meet over sockets, and the cells of the matrix;
//! - [`library`]: libraries as such programs;
//! - [`meeting`]: Lightseal and wolfSSL in virtual time;
//! - [`race`]: implementations timed in turns; [`ours_race`], [`pair`] (wolfSSL), [`dimpl_race`]
//!   and [`openssl_race`] each run an implementation against itself, with PSKs;
//! - [`certified_race`]: the same with the certificates of [`chains`];
//! - [`sizes`]: the datagrams of each kind of handshake beside those of wolfSSL and OpenSSL
//!   ([`openssl_sizes`]);
//! - [`macs`]: LightMAC and the MACs of other libraries, one message at a time;
//! - [`process`]: programs that run in the background of a test;
//! - [`tunnel`]: two of our proxies and a relay, as processes;
//! - [`coap`]: libcoap's client and server, and a forwarder that counts messages;
//! - [`coaps`]: libcoap over its own DTLS with our proxy in the place of either end;
//! - [`trial`]: CoAP through such a tunnel;
//! - [`webrtc`]: the handshakes of WebRTC data channels with browsers;
//! - [`captures`]: the lab's captures in Wireshark's tshark.
//!
//! This package serves tests and measurements and is never published, because wolfSSL is under the
//! GPL.

pub mod captures;
pub mod certified_race;
pub mod chains;
pub mod coap;
pub mod coaps;
pub mod dimpl_race;
pub mod driven;
pub mod foreign;
pub mod handshake;
pub mod library;
pub mod macs;
pub mod meeting;
pub mod openssl_race;
pub mod openssl_sizes;
pub mod ours;
pub mod ours_race;
pub mod pair;
pub mod peers;
pub mod process;
pub mod race;
pub mod sizes;
pub mod trial;
pub mod tunnel;
pub mod webrtc;
pub mod wolfssl;
