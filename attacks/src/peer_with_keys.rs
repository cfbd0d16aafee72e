//! A malicious peer that seals arbitrary records with the genuine keys.

use crate::setup::Setup;
use lightseal_dtls::Scheme;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::CipherSuite;
use lightseal_dtls::record::epochs::HANDSHAKE_EPOCH;
use lightseal_dtls::record::seal::HeaderFormat;
use lightseal_dtls::record::{NumberLength, SendEpoch};
use testkit::pair::{Direction, LoggedSecrets};

/// The suite of a setup.
///
/// # Panics
/// If its provider does not have the suite.
pub fn suite(setup: &Setup) -> &'static CipherSuite {
    setup.provider.suite(setup.suite).expect("the provider has the suite")
}

/// The scheme of an epoch. The handshake epoch always has plain tags.
pub fn scheme(setup: &Setup, epoch: u64) -> Scheme {
    if epoch == HANDSHAKE_EPOCH { Scheme::Plain } else { setup.scheme }
}

/// A peer that seals any content with the genuine keys, from record 0 on.
#[derive(Debug)]
pub struct PeerWithKeys(SendEpoch);

impl PeerWithKeys {
    /// An impostor that sends in `direction`; `None` while the epoch has no keys.
    pub fn new(
        setup: &Setup,
        secrets: &LoggedSecrets,
        direction: Direction,
        epoch: u64,
    ) -> Option<Self> {
        let secret = secrets.traffic(direction, epoch)?;
        Some(Self(SendEpoch::new(epoch, suite(setup), scheme(setup, epoch), &secret)))
    }

    /// A datagram with one record.
    ///
    /// # Panics
    /// If no record can have this content.
    pub fn seal(&mut self, kind: ContentType, content: &[u8]) -> Vec<u8> {
        let mut buf = vec![0; content.len() + 64];
        let shape = HeaderFormat { number: NumberLength::Two, last: true };
        let sealed = self
            .0
            .seal(&mut buf, kind, shape, |w| w.bytes(content))
            .expect("the key is fresh and the buffer large enough");
        buf.truncate(sealed.len);
        buf
    }
}
