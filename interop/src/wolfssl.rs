//! DTLS 1.3 and 1.2 with an external pre-shared key by wolfSSL, over byte queues.
//!
//! A [`Context`] holds the settings that many connections share, a [`Peer`] is one end of one
//! connection. Neither opens a socket or sleeps: datagrams go in by [`Peer::deliver`] and come out
//! by [`Peer::poll_transmit`], and lost ones are retransmitted when the caller calls
//! [`Peer::handle_timeout`].
//!
//! wolfSSL accepts an identity of at most 128 bytes without a zero byte, and a key of at most 64
//! bytes.

mod callbacks;
mod certified;

pub use certified::{Certified, RawKeys, Ticket};

use callbacks::{client_key, client_key_12, cookie, receive, server_key, server_key_12, transmit};

use crate::race;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int, c_long, c_uint, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Once;
use std::time::Duration;
use wolfssl_sys as sys;

/// The role of an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The client, which sends the first message.
    Client,
    /// The server.
    Server,
}

impl Role {
    /// The two roles.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];
}

/// The cipher suites that both wolfSSL and Lightseal have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// TLS_AES_128_GCM_SHA256.
    Aes128Gcm,
    /// TLS_CHACHA20_POLY1305_SHA256.
    Chacha20Poly1305,
    /// TLS_AES_128_CCM_SHA256.
    Aes128Ccm,
    /// TLS_AES_128_CCM_8_SHA256.
    Aes128Ccm8,
    /// TLS_SHA256_SHA256, which does not encrypt.
    Sha256,
    /// TLS_PSK_WITH_AES_128_GCM_SHA256, of DTLS 1.2 like the suites below.
    PskAes128Gcm,
    /// TLS_PSK_WITH_CHACHA20_POLY1305_SHA256.
    PskChacha20Poly1305,
    /// TLS_PSK_WITH_AES_128_CCM.
    PskAes128Ccm,
    /// TLS_PSK_WITH_AES_128_CCM_8.
    PskAes128Ccm8,
    /// TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256.
    EcdhePskAes128Gcm,
    /// TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256.
    EcdheEcdsaAes128Gcm,
    /// TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384.
    EcdheEcdsaAes256Gcm,
    /// TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256.
    EcdheEcdsaChacha20Poly1305,
    /// TLS_ECDHE_ECDSA_WITH_AES_128_CCM.
    EcdheEcdsaAes128Ccm,
    /// TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8.
    EcdheEcdsaAes128Ccm8,
    /// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.
    EcdheRsaAes128Gcm,
    /// TLS_AES_256_GCM_SHA384, of DTLS 1.3.
    Aes256Gcm,
}

impl Suite {
    /// The suites of DTLS 1.3.
    pub const ALL: [Self; 5] =
        [Self::Aes128Gcm, Self::Chacha20Poly1305, Self::Aes128Ccm, Self::Aes128Ccm8, Self::Sha256];

    /// The code point (RFC 8446 B.4, RFC 9150, or a registration of DTLS 1.2).
    pub const fn code(self) -> u16 {
        match self {
            Self::Aes128Gcm => 0x1301,
            Self::Chacha20Poly1305 => 0x1303,
            Self::Aes128Ccm => 0x1304,
            Self::Aes128Ccm8 => 0x1305,
            Self::Sha256 => 0xc0b4,
            Self::PskAes128Gcm => 0x00a8,
            Self::PskChacha20Poly1305 => 0xccab,
            Self::PskAes128Ccm => 0xc0a4,
            Self::PskAes128Ccm8 => 0xc0a8,
            Self::EcdhePskAes128Gcm => 0xd001,
            Self::EcdheEcdsaAes128Gcm => 0xc02b,
            Self::EcdheEcdsaAes256Gcm => 0xc02c,
            Self::EcdheEcdsaChacha20Poly1305 => 0xcca9,
            Self::EcdheEcdsaAes128Ccm => 0xc0ac,
            Self::EcdheEcdsaAes128Ccm8 => 0xc0ae,
            Self::EcdheRsaAes128Gcm => 0xc02f,
            Self::Aes256Gcm => 0x1302,
        }
    }

    /// Whether the suite is one of DTLS 1.3; otherwise it is one of DTLS 1.2.
    pub const fn is_of_13(self) -> bool {
        self.code() >> 8 == 0x13 || matches!(self, Self::Sha256)
    }

    /// wolfSSL's name of the suite.
    const fn name(self) -> &'static CStr {
        match self {
            Self::Aes128Gcm => c"TLS13-AES128-GCM-SHA256",
            Self::Chacha20Poly1305 => c"TLS13-CHACHA20-POLY1305-SHA256",
            Self::Aes128Ccm => c"TLS13-AES128-CCM-SHA256",
            Self::Aes128Ccm8 => c"TLS13-AES128-CCM-8-SHA256",
            Self::Sha256 => c"TLS13-SHA256-SHA256",
            Self::PskAes128Gcm => c"PSK-AES128-GCM-SHA256",
            Self::PskChacha20Poly1305 => c"PSK-CHACHA20-POLY1305",
            Self::PskAes128Ccm => c"PSK-AES128-CCM",
            Self::PskAes128Ccm8 => c"PSK-AES128-CCM-8",
            Self::EcdhePskAes128Gcm => c"ECDHE-PSK-AES128-GCM-SHA256",
            Self::EcdheEcdsaAes128Gcm => c"ECDHE-ECDSA-AES128-GCM-SHA256",
            Self::EcdheEcdsaAes256Gcm => c"ECDHE-ECDSA-AES256-GCM-SHA384",
            Self::EcdheEcdsaChacha20Poly1305 => c"ECDHE-ECDSA-CHACHA20-POLY1305",
            Self::EcdheEcdsaAes128Ccm => c"ECDHE-ECDSA-AES128-CCM",
            Self::EcdheEcdsaAes128Ccm8 => c"ECDHE-ECDSA-AES128-CCM-8",
            Self::EcdheRsaAes128Gcm => c"ECDHE-RSA-AES128-GCM-SHA256",
            Self::Aes256Gcm => c"TLS13-AES256-GCM-SHA384",
        }
    }
}

/// How the pre-shared key is used (RFC 8446 section 4.2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `psk_ke`: the key alone.
    Psk,
    /// `psk_dhe_ke` with this group only.
    PskWith(Group),
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] =
        [Self::Psk, Self::PskWith(Group::X25519), Self::PskWith(Group::P256)];
}

/// A Diffie-Hellman group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// x25519.
    X25519,
    /// secp256r1.
    P256,
    /// secp384r1.
    P384,
    /// X25519MLKEM768.
    X25519MlKem768,
}

/// The settings that the connections of one context share.
#[derive(Clone)]
pub struct Settings {
    /// The only suite offered or accepted.
    pub suite: Suite,
    /// The only use of the key in DTLS 1.3; in DTLS 1.2 the suite determines it.
    pub mode: Mode,
    /// Whether a DTLS 1.3 server verifies the client's address by a cookie first. A DTLS 1.2 server
    /// always does.
    pub cookie: bool,
    /// The identity of the external key, at most 128 bytes, none of them zero.
    pub identity: Vec<u8>,
    /// The external key, at most 64 bytes.
    pub key: Vec<u8>,
}

/// The error of a wolfSSL call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// wolfSSL's error number.
    pub code: i32,
    /// wolfSSL's text for the error.
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wolfSSL: {} ({})", self.text, self.code)
    }
}

impl std::error::Error for Error {}

/// Settings in wolfSSL's form, from which connections are made.
pub struct Context {
    context: NonNull<sys::WOLFSSL_CTX>,
    role: Role,
    secrets: Secrets,
    mode: Mode,
    cookie: bool,
    cid: Option<usize>,
    /// What this end proves its identity with in place of the key.
    certified: Option<Certified>,
}

/// The secrets that the key callbacks return.
struct Secrets {
    identity: CString,
    key: Vec<u8>,
    suite: Suite,
}

impl Context {
    /// A context for one role.
    ///
    /// # Panics
    /// If the settings are outside wolfSSL's limits or wolfSSL refuses them.
    pub fn new(role: Role, settings: &Settings) -> Rc<Self> {
        Self::with_cid(role, settings, None)
    }

    /// A context for one role with connection IDs. `cid` is the length in bytes of those that this
    /// end receives with; with 0 it only sends with the other end's.
    ///
    /// # Panics
    /// As for [`Context::new`].
    pub fn with_cid(role: Role, settings: &Settings, cid: Option<usize>) -> Rc<Self> {
        Self::make(role, settings, cid, None)
    }

    /// A context for one role with certificates in place of the key. The mode has the group. `cid` is
    /// as for [`Context::with_cid`].
    ///
    /// # Panics
    /// As for [`Context::new`].
    pub fn certified(
        role: Role,
        settings: &Settings,
        cid: Option<usize>,
        certified: Certified,
    ) -> Rc<Self> {
        Self::make(role, settings, cid, Some(certified))
    }

    fn make(
        role: Role,
        settings: &Settings,
        cid: Option<usize>,
        certified: Option<Certified>,
    ) -> Rc<Self> {
        static INIT: Once = Once::new();
        INIT.call_once(|| {
            // SAFETY: the function has no arguments and is called once, before all others of
            // wolfSSL.
            succeed("wolfSSL_Init", unsafe { sys::wolfSSL_Init() });
        });
        assert!(settings.identity.len() <= 128 && settings.key.len() <= 64, "wolfSSL's limits");
        let identity = CString::new(settings.identity.clone()).expect("no zero in an identity");
        // SAFETY: the methods have no arguments; the context takes ownership of the method.
        let context = unsafe {
            sys::wolfSSL_CTX_new(match (role, settings.suite.is_of_13()) {
                (Role::Client, true) => sys::wolfDTLSv1_3_client_method(),
                (Role::Server, true) => sys::wolfDTLSv1_3_server_method(),
                (Role::Client, false) => sys::wolfDTLSv1_2_client_method(),
                (Role::Server, false) => sys::wolfDTLSv1_2_server_method(),
            })
        };
        let context = NonNull::new(context).expect("wolfSSL makes a context");
        let secrets = Secrets { identity, key: settings.key.clone(), suite: settings.suite };
        let (mode, cookie) = (settings.mode, settings.cookie);
        let context = Self { context, role, secrets, mode, cookie, cid, certified };
        context.configure();
        Rc::new(context)
    }

    fn configure(&self) {
        let context = self.context.as_ptr();
        // SAFETY: `context` is valid; the name is a C string that is copied; the callbacks have the
        // signatures that the bindings require.
        unsafe {
            succeed(
                "wolfSSL_CTX_set_cipher_list",
                sys::wolfSSL_CTX_set_cipher_list(context, self.secrets.suite.name().as_ptr()),
            );
            match (self.role, self.secrets.suite.is_of_13()) {
                _ if self.certified.is_some() => {}
                (Role::Client, true) => {
                    sys::wolfSSL_CTX_set_psk_client_tls13_callback(context, Some(client_key));
                }
                (Role::Server, true) => {
                    sys::wolfSSL_CTX_set_psk_server_tls13_callback(context, Some(server_key));
                }
                (Role::Client, false) => {
                    sys::wolfSSL_CTX_set_psk_client_callback(context, Some(client_key_12));
                }
                (Role::Server, false) => {
                    sys::wolfSSL_CTX_set_psk_server_callback(context, Some(server_key_12));
                }
            }
            if self.role == Role::Server && !self.secrets.suite.is_of_13() {
                sys::wolfSSL_CTX_SetGenCookie(context, Some(cookie));
            }
            let datagram = race::DATAGRAM_BYTES as u16;
            succeed("wolfSSL_CTX_dtls_set_mtu", sys::wolfSSL_CTX_dtls_set_mtu(context, datagram));
            sys::wolfSSL_CTX_SetIORecv(context, Some(receive));
            sys::wolfSSL_CTX_SetIOSend(context, Some(transmit));
        }
        if let Some(certified) = &self.certified {
            certified.configure(self.context, self.role);
        }
        if !self.certified.as_ref().is_some_and(|certified| certified.resumption) {
            // No session need be cached, and no ticket sent.
            let off = c_long::from(sys::WOLFSSL_SESS_CACHE_OFF);
            // SAFETY: `context` is valid.
            let answer = unsafe { sys::wolfSSL_CTX_set_session_cache_mode(context, off) };
            assert_eq!(answer, c_long::from(sys::WOLFSSL_SUCCESS));
            if self.role == Role::Server && self.secrets.suite.is_of_13() {
                // SAFETY: `context` is valid. The answer is 0 on success here.
                assert_eq!(unsafe { wolfSSL_CTX_no_ticket_TLSv13(context) }, 0);
            }
        }
        if !self.secrets.suite.is_of_13() {
            if self.mode == Mode::PskWith(Group::P384) && self.role == Role::Server {
                // SAFETY: `context` is valid. A server's group of DTLS 1.2 follows from the key length.
                succeed("wolfSSL_CTX_SetTmpEC_DHE_Sz", unsafe {
                    sys::wolfSSL_CTX_SetTmpEC_DHE_Sz(context, 48)
                });
            }
            return;
        }
        match self.mode {
            Mode::Psk => {
                // SAFETY: `context` is valid. The answer is 0 on success here.
                assert_eq!(unsafe { sys::wolfSSL_CTX_no_dhe_psk(context) }, 0);
            }
            Mode::PskWith(group) => {
                let mut groups = [match group {
                    Group::X25519 => sys::WOLFSSL_ECC_X25519 as c_int,
                    Group::P256 => sys::WOLFSSL_ECC_SECP256R1 as c_int,
                    Group::P384 => sys::WOLFSSL_ECC_SECP384R1 as c_int,
                    Group::X25519MlKem768 => sys::WOLFSSL_X25519MLKEM768 as c_int,
                }];
                // SAFETY: `context` is valid, and the array of one is read during the call.
                unsafe {
                    if self.certified.is_none() {
                        assert_eq!(sys::wolfSSL_CTX_only_dhe_psk(context), 0);
                    }
                    succeed(
                        "wolfSSL_CTX_set_groups",
                        sys::wolfSSL_CTX_set_groups(context, groups.as_mut_ptr(), 1),
                    );
                }
            }
        }
    }

    /// One end of a new connection.
    ///
    /// # Panics
    /// If wolfSSL is out of memory.
    pub fn peer(self: &Rc<Self>) -> Peer {
        // SAFETY: the context is valid and outlives the connection, because the peer holds it.
        let ssl = unsafe { sys::wolfSSL_new(self.context.as_ptr()) };
        let ssl = NonNull::new(ssl).expect("wolfSSL makes a connection");
        let queues = NonNull::from(Box::leak(Box::<Queues>::default()));
        let secrets = (&raw const self.secrets).cast_mut().cast::<c_void>();
        // SAFETY: `ssl` is valid. `queues` is freed after `ssl`, and only the callbacks and the
        // methods that borrow the peer exclusively use it. The key callbacks only read the secrets,
        // which belong to the context.
        unsafe {
            let ssl = ssl.as_ptr();
            sys::wolfSSL_SetIOReadCtx(ssl, queues.as_ptr().cast());
            sys::wolfSSL_SetIOWriteCtx(ssl, queues.as_ptr().cast());
            succeed(
                "wolfSSL_set_psk_callback_ctx",
                sys::wolfSSL_set_psk_callback_ctx(ssl, secrets),
            );
            sys::wolfSSL_dtls_set_using_nonblock(ssl, 1);
            if !self.secrets.suite.is_of_13() {
                // The calls below are for DTLS 1.3 alone.
            } else if self.role == Role::Server && !self.cookie {
                succeed("wolfSSL_disable_hrr_cookie", sys::wolfSSL_disable_hrr_cookie(ssl));
            }
            if self.role == Role::Client && self.mode == Mode::Psk {
                // Without this call it makes a Diffie-Hellman key that is not used.
                succeed("wolfSSL_NoKeyShares", sys::wolfSSL_NoKeyShares(ssl));
            }
        }
        if let (Some(certified), Role::Client) = (&self.certified, self.role) {
            certified.expect_server(ssl.as_ptr());
        }
        if let Some(bytes) = self.cid {
            let mut cid = vec![0xc1; bytes];
            // SAFETY: `ssl` is valid, and the ID is copied during the call.
            unsafe {
                let ssl = ssl.as_ptr();
                succeed("wolfSSL_dtls_cid_use", wolfSSL_dtls_cid_use(ssl));
                let answer = wolfSSL_dtls_cid_set(ssl, cid.as_mut_ptr(), bytes as c_uint);
                succeed("wolfSSL_dtls_cid_set", answer);
            }
        }
        Peer { ssl, queues, context: Rc::clone(self) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: every peer holds the context, so no connection exists any more.
        unsafe { sys::wolfSSL_CTX_free(self.context.as_ptr()) };
    }
}

/// Datagrams that are under way. Buffers of those that arrived are kept for later ones.
#[derive(Default)]
struct Queues {
    inbound: VecDeque<Vec<u8>>,
    outbound: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Queues {
    fn buffer(&mut self, content: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(content);
        buffer
    }
}

/// One end of a connection.
pub struct Peer {
    ssl: NonNull<sys::WOLFSSL>,
    queues: NonNull<Queues>,
    context: Rc<Context>,
}

impl Peer {
    /// Continues the handshake as far as possible. Returns whether it is complete.
    ///
    /// # Errors
    /// The handshake has failed for good.
    pub fn handshake(&mut self) -> Result<bool, Error> {
        // SAFETY: `ssl` is valid.
        let answer = unsafe {
            match self.context.role {
                Role::Client => sys::wolfSSL_connect(self.ssl.as_ptr()),
                Role::Server => sys::wolfSSL_accept(self.ssl.as_ptr()),
            }
        };
        Ok(self.progress(answer)?.is_some())
    }

    /// Seals `payload` into one record and queues its datagram.
    ///
    /// # Errors
    /// The connection is closed, or the payload is too long for a datagram.
    pub fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        let length = c_int::try_from(payload.len()).expect("a datagram's payload");
        // SAFETY: `ssl` is valid, and `payload` is read during the call.
        let answer =
            unsafe { sys::wolfSSL_write(self.ssl.as_ptr(), payload.as_ptr().cast(), length) };
        self.progress(answer).map(|_| ())
    }

    /// Copies the payload of the next record that arrived into `out`. Returns its length.
    ///
    /// # Errors
    /// The connection was closed by either end.
    pub fn recv(&mut self, out: &mut [u8]) -> Result<Option<usize>, Error> {
        let length = c_int::try_from(out.len()).expect("a datagram's payload");
        // SAFETY: `ssl` is valid, and at most `length` bytes of `out` are written.
        let answer =
            unsafe { sys::wolfSSL_read(self.ssl.as_ptr(), out.as_mut_ptr().cast(), length) };
        self.progress(answer)
    }

    /// Sends a close_notify.
    pub fn close(&mut self) {
        // SAFETY: `ssl` is valid. The result, whether the other end has closed as well, is ignored.
        unsafe { sys::wolfSSL_shutdown(self.ssl.as_ptr()) };
    }

    /// Queues a datagram that arrived; [`Peer::handshake`] or [`Peer::recv`] processes it.
    pub fn deliver(&mut self, datagram: &[u8]) {
        let queues = self.queues();
        let buffer = queues.buffer(datagram);
        queues.inbound.push_back(buffer);
    }

    /// Moves every outgoing datagram to `other`, in order. Returns their number.
    pub fn carry_to(&mut self, other: &mut Self) -> usize {
        let (queues, theirs) = (self.queues(), other.queues());
        let count = queues.outbound.len();
        theirs.inbound.extend(queues.outbound.drain(..));
        // The spare buffers of the other end came from here, so they return, and neither end runs
        // out of them.
        queues.spare.append(&mut theirs.spare);
        count
    }

    /// The lengths of the outgoing datagrams in bytes.
    pub fn output_lengths(&mut self) -> impl Iterator<Item = usize> {
        self.queues().outbound.iter().map(Vec::len)
    }

    /// Copies the next outgoing datagram into `out`. Returns its length.
    ///
    /// # Panics
    /// `out` is shorter than the datagram.
    pub fn poll_transmit(&mut self, out: &mut [u8]) -> Option<usize> {
        let queues = self.queues();
        let datagram = queues.outbound.pop_front()?;
        let length = datagram.len();
        out[..length].copy_from_slice(&datagram);
        queues.spare.push(datagram);
        Some(length)
    }

    /// Whether this end receives with a connection ID.
    pub fn has_cid(&self) -> bool {
        self.context.cid.is_some_and(|bytes| bytes > 0)
    }

    /// Whether there is an outgoing datagram.
    pub fn has_output(&mut self) -> bool {
        !self.queues().outbound.is_empty()
    }

    /// Replaces the keys with which this end sends.
    ///
    /// # Errors
    /// The handshake is not complete.
    pub fn update_keys(&mut self) -> Result<(), Error> {
        // SAFETY: `ssl` is valid.
        let answer = unsafe { sys::wolfSSL_update_keys(self.ssl.as_ptr()) };
        self.progress(answer).map(|_| ())
    }

    /// How long to wait for an answer before [`Peer::handle_timeout`], in whole seconds.
    pub fn timeout(&self) -> Duration {
        // SAFETY: `ssl` is valid.
        let seconds = unsafe { sys::wolfSSL_dtls_get_current_timeout(self.ssl.as_ptr()) };
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// Retransmits the flight that was not answered.
    ///
    /// # Errors
    /// wolfSSL gives up.
    pub fn handle_timeout(&mut self) -> Result<(), Error> {
        // SAFETY: `ssl` is valid. The answer is 0 when the flight was sent.
        match unsafe { sys::wolfSSL_dtls_got_timeout(self.ssl.as_ptr()) } {
            0 | 1 => Ok(()),
            answer => self.progress(answer).map(|_| ()),
        }
    }

    fn queues(&mut self) -> &mut Queues {
        // SAFETY: the queues are freed only in `drop`; no callback runs while `self` is borrowed
        // here.
        unsafe { self.queues.as_mut() }
    }

    /// Interprets an answer: a count, nothing for now, or an error that ends the connection.
    fn progress(&self, answer: c_int) -> Result<Option<usize>, Error> {
        if let Ok(count @ 1..) = usize::try_from(answer) {
            return Ok(Some(count));
        }
        // SAFETY: `ssl` is valid, and `answer` is the result of its last call.
        let code = unsafe { sys::wolfSSL_get_error(self.ssl.as_ptr(), answer) };
        if code == sys::WOLFSSL_ERROR_WANT_READ as c_int {
            return Ok(None);
        }
        Err(error(code))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: `ssl` is freed first, so that no callback uses freed queues; the queues came from
        // a box.
        unsafe {
            sys::wolfSSL_free(self.ssl.as_ptr());
            drop(Box::from_raw(self.queues.as_ptr()));
        }
    }
}

/// wolfSSL's version.
pub fn version() -> &'static str {
    sys::get_wolfssl_version_string()
}

fn error(code: c_int) -> Error {
    let mut text = [0; 80];
    // SAFETY: wolfSSL writes at most 80 bytes here and ends them with a zero.
    let text = unsafe {
        sys::wolfSSL_ERR_error_string_n(code as _, text.as_mut_ptr(), text.len() as _);
        CStr::from_ptr(text.as_ptr())
    };
    Error { code, text: text.to_string_lossy().into_owned() }
}

#[track_caller]
fn succeed(call: &str, answer: c_int) {
    assert_eq!(answer, sys::WOLFSSL_SUCCESS as c_int, "{call}");
}

// Functions that .cargo/config.toml has compiled in. The crate's bindings lack them.
unsafe extern "C" {
    fn wolfSSL_CTX_no_ticket_TLSv13(context: *mut sys::WOLFSSL_CTX) -> c_int;
    fn wolfSSL_dtls_cid_use(ssl: *mut sys::WOLFSSL) -> c_int;
    fn wolfSSL_dtls_cid_set(ssl: *mut sys::WOLFSSL, cid: *mut u8, size: c_uint) -> c_int;
}
