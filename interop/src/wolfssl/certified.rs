//! Certificates of wolfSSL's ends, and tickets.

use super::{Peer, Role, succeed, sys};
use std::ffi::{CString, c_int, c_long};
use std::ptr::NonNull;

/// What an end with certificates has, all in PEM.
#[derive(Clone, Debug)]
pub struct Certified {
    /// The end's own chain and key; a client may have none.
    pub own: Option<(String, String)>,
    /// The authority that the other end's certificate must come from; a server without one does not
    /// ask its client.
    pub authority: Option<String>,
    /// The name that the server's certificate must have, if this end is a client.
    pub server_name: CString,
}

const PEM: c_int = sys::WOLFSSL_FILETYPE_PEM as c_int;

impl Certified {
    /// Sets up a context.
    pub(super) fn configure(&self, context: NonNull<sys::WOLFSSL_CTX>, role: Role) {
        let context = context.as_ptr();
        let length = |text: &String| c_long::try_from(text.len()).expect("a short text");
        // SAFETY: `context` is valid, and the texts are read during the calls.
        unsafe {
            if let Some((chain, key)) = &self.own {
                let (bytes, all) = (chain.as_ptr(), length(chain));
                let answer =
                    sys::wolfSSL_CTX_use_certificate_chain_buffer_format(context, bytes, all, PEM);
                succeed("wolfSSL_CTX_use_certificate_chain_buffer_format", answer);
                let (bytes, all) = (key.as_ptr(), length(key));
                let answer = sys::wolfSSL_CTX_use_PrivateKey_buffer(context, bytes, all, PEM);
                succeed("wolfSSL_CTX_use_PrivateKey_buffer", answer);
            }
            let Some(authority) = &self.authority else {
                sys::wolfSSL_CTX_set_verify(context, sys::WOLFSSL_VERIFY_NONE as c_int, None);
                return;
            };
            let (bytes, all) = (authority.as_ptr(), length(authority));
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
        // SAFETY: `ssl` is valid, and the name is a C string that is copied.
        let answer = unsafe { sys::wolfSSL_check_domain_name(ssl, self.server_name.as_ptr()) };
        succeed("wolfSSL_check_domain_name", answer);
    }
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
