//! The kinds of handshakes with certificates and raw public keys.

use crate::wolfssl::{Group, Mode, Settings, Suite};

/// What kind of handshake both ends carry out.
#[derive(Clone, Copy, Debug)]
pub struct Handshake {
    /// The cipher suite; its version is the handshake's.
    pub suite: Suite,
    /// The group of the key exchange.
    pub group: Group,
    /// Whether the client has a certificate as well.
    pub mutual: bool,
    /// Whether each handshake resumes the session of the one before, in DTLS 1.3 with a key
    /// exchange.
    pub resumed: bool,
    /// Whether the server asks for a cookie first. A DTLS 1.2 server of other implementations always
    /// does.
    pub cookie: bool,
    /// Whether raw public keys take the place of certificates.
    pub raw: bool,
    /// The length of the connection IDs in bytes, in both directions.
    pub cid: Option<u8>,
}

impl Handshake {
    /// DTLS 1.3 over AES-128-GCM, where only the server has a certificate.
    pub const SERVER_ONLY: Self = Self {
        suite: Suite::Aes128Gcm,
        group: Group::P256,
        mutual: false,
        resumed: false,
        cookie: false,
        raw: false,
        cid: None,
    };

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            suite: self.suite,
            mode: Mode::PskWith(self.group),
            cookie: self.cookie,
            identity: Vec::new(),
            key: Vec::new(),
        }
    }
}
