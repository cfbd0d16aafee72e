//! Records and keys of profile `axiom-1.2`.
//!
//! Section numbers refer to the paper *Axiom – DTLS-based secure IoT group communication*. Details
//! that the paper leaves open are specified in docs/spec/group.md.
//!
//! - [`suite`]: cipher suites; [`keys`]: security parameters, the group's keys and the individual
//!   keys of listeners; [`record`]: sealing and opening of records in place.
//!
//! To receive a record, a member
//! 1. splits it off the datagram: [`Ciphertext::split_first`];
//! 2. selects the keys and the replay window by its header and, for a response, by its source
//!    address, and checks the number against the window;
//! 3. opens it: [`Opener::open`];
//! 4. commits the number to the window.
//!
//! # Example
//!
//! A request and the response to it:
//!
//! ```
//! use lightseal_dtls::codepoints::ContentType;
//! use lightseal_dtls::crypto::{Sha256, CipherSuiteId, PremasterSecret, rustcrypto::PROVIDER};
//! use lightseal_group::axiom::{Ciphertext, ConnectionEnd, SecurityParameters, Suite};
//! use lightseal_group::{GroupId, SenderId};
//! use lightseal_core::ReplayWindow;
//!
//! let (client_random, server_random) = ([1; 32], [2; 32]);
//! let premaster = PremasterSecret::from_bytes(&Sha256, &[3; 48]);
//! let parameters = SecurityParameters {
//!     entity: ConnectionEnd::Client,
//!     suite: Suite::new(&PROVIDER, CipherSuiteId::PSK_WITH_AES_128_CCM_8).ok_or("no such suite")?,
//!     master_secret: premaster.into_master(&client_random, &server_random),
//!     client_random,
//!     server_random,
//! };
//! let keys = parameters.group_keys();
//! let (epoch, group, sender) = (1, GroupId([0x47; 16]), SenderId(9));
//! let (data, mut datagram) = (ContentType::APPLICATION_DATA, [0; 64]);
//!
//! // The sender multicasts.
//! let requests = keys.request_sealer(epoch, sender);
//! let len = requests.seal(&mut datagram, 0, data, |w| w.bytes(b"on"))?;
//! assert_eq!(len, 29 + 2);
//!
//! // A listener knows this sender and has not seen the number.
//! let (opener, mut window) = (keys.request_opener(epoch), ReplayWindow::new());
//! let (request, _) = Ciphertext::split_first(&mut datagram[..len])?;
//! assert!(request.header().sender() == sender && window.check(request.header().number));
//! let request = opener.open(request)?;
//! window.commit(request.header.number);
//! assert_eq!(request.content, b"on");
//!
//! // It answers under a key of its own, which the sender derives from the address it sees.
//! let key = keys.individual("2001:db8::7".parse()?, sender);
//! let responses = keys.response_sealer(&key, epoch, group);
//! let len = responses.seal(&mut datagram, 0, data, |w| w.bytes(b"done"))?;
//! let (response, _) = Ciphertext::split_first(&mut datagram[..len])?;
//! assert_eq!(keys.response_opener(&key, epoch, group).open(response)?.content, b"done");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod keys;
mod null;
pub mod record;
pub mod suite;
#[cfg(test)]
mod vectors;

pub use keys::{ConnectionEnd, GroupKeys, IndividualKey, SecurityParameters};
pub use lightseal_dtls::record::SealError;
pub use record::{Ciphertext, Header, OpenError, Opener, Plaintext, Sealer};
pub use suite::{HEADER_LEN, RecordSuite, Suite};
