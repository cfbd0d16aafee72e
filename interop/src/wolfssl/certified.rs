//! Certificates of wolfSSL's ends, and tickets.

use super::{Peer, Role, succeed, sys};
use std::ffi::{CString, c_char, c_int, c_long, c_uint};
use std::ptr::NonNull;

/// What an end with certificates has, all in PEM.
#[derive(Clone, Debug)]
pub struct Certified {
    /// The end's own chain and key; a client may have none.
    pub own: Option<(String, String)>,
    /// The authority that the other end's certificate must come from; a server without one does not
    /// ask its client.
    pub authority: Option<String>,
    /// The name that the server's certificate must have, if this end is a client. The client sends
    /// it as well.
    pub server_name: CString,
    /// The public keys, if they take the place of certificates. The authority is not used then.
    pub raw: Option<RawKeys>,
    /// Whether sessions may be resumed.
    pub resumption: bool,
}

/// The raw public keys of both ends: SubjectPublicKeyInfo in DER.
#[derive(Clone, Debug)]
pub struct RawKeys {
    /// This end's own, used if it has a certificate.
    pub own: Vec<u8>,
    /// The only one that is accepted of the other end.
    pub other: Vec<u8>,
}

const PEM: c_int = sys::WOLFSSL_FILETYPE_PEM as c_int;
const DER: c_int = sys::WOLFSSL_FILETYPE_ASN1 as c_int;

impl Certified {
    /// Sets up a context.
    pub(super) fn configure(&self, context: NonNull<sys::WOLFSSL_CTX>, role: Role) {
        let context = context.as_ptr();
        let length = |text: &[u8]| c_long::try_from(text.len()).expect("a short text");
        // SAFETY: `context` is valid, and the texts are read during the calls.
        unsafe {
            if let Some((chain, key)) = &self.own {
                let (bytes, format) = match &self.raw {
                    Some(raw) => (&raw.own[..], DER),
                    None => (chain.as_bytes(), PEM),
                };
                let (start, all) = (bytes.as_ptr(), length(bytes));
                let answer = sys::wolfSSL_CTX_use_certificate_buffer(context, start, all, format);
                succeed("wolfSSL_CTX_use_certificate_buffer", answer);
                let (bytes, all) = (key.as_ptr(), length(key.as_bytes()));
                let answer = sys::wolfSSL_CTX_use_PrivateKey_buffer(context, bytes, all, PEM);
                succeed("wolfSSL_CTX_use_PrivateKey_buffer", answer);
            }
            if self.raw.is_some() {
                let answer = wolfSSL_CTX_set_server_cert_type(context, &RAW_PUBLIC_KEY, 1);
                succeed("wolfSSL_CTX_set_server_cert_type", answer);
                if self.own.is_some() && self.authority.is_some() {
                    let answer = wolfSSL_CTX_set_client_cert_type(context, &RAW_PUBLIC_KEY, 1);
                    succeed("wolfSSL_CTX_set_client_cert_type", answer);
                }
            }
            let Some(authority) = &self.authority else {
                sys::wolfSSL_CTX_set_verify(context, sys::WOLFSSL_VERIFY_NONE as c_int, None);
                return;
            };
            if let Some(RawKeys { other: spki, .. }) = &self.raw {
                let bytes = c_uint::try_from(spki.len()).expect("a short key");
                let answer = wolfSSL_CTX_set_expected_rpk(context, spki.as_ptr(), bytes);
                succeed("wolfSSL_CTX_set_expected_rpk", answer);
            }
            let (bytes, all) = (authority.as_ptr(), length(authority.as_bytes()));
            let answer = sys::wolfSSL_CTX_load_verify_buffer(context, bytes, all, PEM);
            succeed("wolfSSL_CTX_load_verify_buffer", answer);
            let require = match role {
                Role::Client => 0,
                Role::Server => sys::WOLFSSL_VERIFY_FAIL_IF_NO_PEER_CERT,
            };
            let mode = (sys::WOLFSSL_VERIFY_PEER | require) as c_int;
            sys::wolfSSL_CTX_set_verify(context, mode, None);
        }
    }

    /// Makes a client check the server's name.
    pub(super) fn expect_server(&self, ssl: *mut sys::WOLFSSL) {
        let name = self.server_name.as_bytes();
        let bytes = u16::try_from(name.len()).expect("a host name");
        // SAFETY: `ssl` is valid, and the name is copied.
        unsafe {
            let kind = sys::WOLFSSL_SNI_HOST_NAME as u8;
            let answer = sys::wolfSSL_UseSNI(ssl, kind, name.as_ptr().cast(), bytes);
            succeed("wolfSSL_UseSNI", answer);
            if self.raw.is_none() {
                let answer = sys::wolfSSL_check_domain_name(ssl, self.server_name.as_ptr());
                succeed("wolfSSL_check_domain_name", answer);
            }
        }
    }
}

/// wolfSSL's number of raw public keys among the kinds of certificates.
const RAW_PUBLIC_KEY: c_char = 2;

// Functions that .cargo/config.toml has compiled in. The crate's bindings lack them.
unsafe extern "C" {
    fn wolfSSL_CTX_set_client_cert_type(
        context: *mut sys::WOLFSSL_CTX,
        kinds: *const c_char,
        count: c_int,
    ) -> c_int;
    fn wolfSSL_CTX_set_server_cert_type(
        context: *mut sys::WOLFSSL_CTX,
        kinds: *const c_char,
        count: c_int,
    ) -> c_int;
    fn wolfSSL_CTX_set_expected_rpk(
        context: *mut sys::WOLFSSL_CTX,
        spki: *const u8,
        bytes: c_uint,
    ) -> c_int;
}

/// A session that a client may resume.
pub struct Ticket(NonNull<sys::WOLFSSL_SESSION>);

impl Peer {
    /// The newest session of a client; `None` if there is none.
    pub fn ticket(&mut self) -> Option<Ticket> {
        // SAFETY: `ssl` is valid; the answer is a reference of its own.
        NonNull::new(unsafe { sys::wolfSSL_get1_session(self.ssl.as_ptr()) }).map(Ticket)
    }

    /// Makes a client that has not sent anything offer a session.
    pub fn resume(&mut self, ticket: &Ticket) {
        // SAFETY: both are valid; wolfSSL copies the session.
        let answer = unsafe { sys::wolfSSL_set_session(self.ssl.as_ptr(), ticket.0.as_ptr()) };
        succeed("wolfSSL_set_session", answer);
    }

    /// Whether the handshake resumed a session.
    pub fn has_resumed(&mut self) -> bool {
        // SAFETY: `ssl` is valid.
        unsafe { sys::wolfSSL_session_reused(self.ssl.as_ptr()) == 1 }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and is given back once.
        unsafe { sys::wolfSSL_SESSION_free(self.0.as_ptr()) };
    }
}
