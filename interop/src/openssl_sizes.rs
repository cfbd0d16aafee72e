//! The lengths of the datagrams of OpenSSL's DTLS 1.2 handshakes, OpenSSL against OpenSSL over two memory BIOs.

use crate::chains::{Chains, Issued, SERVER_NAME};
use crate::openssl_race::{client_key, server_key};
use crate::race::DATAGRAM_BYTES;
use openssl_sys as ffi;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uchar, c_uint};
use std::ptr::{NonNull, null_mut};

unsafe extern "C" {
    // Functions that the bindings lack.
    fn BIO_up_ref(bio: *mut ffi::BIO) -> c_int;
    fn BIO_set_callback_ex(bio: *mut ffi::BIO, callback: Option<BioCallback>);
    fn BIO_set_callback_arg(bio: *mut ffi::BIO, argument: *mut c_char);
    fn BIO_get_callback_arg(bio: *const ffi::BIO) -> *mut c_char;
    fn SSL_get1_session(ssl: *mut ffi::SSL) -> *mut ffi::SSL_SESSION;
}

type BioCallback = unsafe extern "C" fn(
    *mut ffi::BIO,
    c_int,
    *const c_char,
    usize,
    c_int,
    c_long,
    c_int,
    *mut usize,
) -> c_long;

/// `BIO_CB_WRITE | BIO_CB_RETURN`: something was written.
const WRITTEN: c_int = 0x83;

/// `SSL_MODE_NO_AUTO_CHAIN`.
const NO_AUTO_CHAIN: c_long = 8;

/// What a handshake is made of. The server always asks for a cookie, which is as long as ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// TLS_PSK_WITH_AES_128_CCM_8.
    Psk,
    /// TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 and P-256; the client has a certificate if `mutual`.
    Certificates {
        /// Whether the client has a certificate as well.
        mutual: bool,
    },
    /// A session of the latter kind that the server remembers.
    Resumed,
}

/// The lengths of a handshake's datagrams in bytes, in order.
///
/// # Panics
/// OpenSSL refuses the settings, or the handshake fails.
pub fn datagram_lengths(chains: &Chains, handshake: Handshake) -> Vec<usize> {
    let (client, server) = (Context::client(chains, handshake), Context::server(chains, handshake));
    let (lengths, session) = connect(&client, &server, None);
    if handshake != Handshake::Resumed {
        return lengths;
    }
    connect(&client, &server, Some(&session)).0
}

struct Context(NonNull<ffi::SSL_CTX>);

impl Context {
    fn new(handshake: Handshake) -> Self {
        // SAFETY: the context is made here, and the texts are C strings that are copied.
        unsafe {
            let context = ffi::SSL_CTX_new(ffi::DTLS_method());
            let this = Self(NonNull::new(context).expect("OpenSSL makes a context"));
            let suites = match handshake {
                Handshake::Psk => c"PSK-AES128-CCM8:@SECLEVEL=0",
                _ => c"ECDHE-ECDSA-AES128-GCM-SHA256",
            };
            assert_eq!(ffi::SSL_CTX_set_cipher_list(context, suites.as_ptr()), 1);
            assert_eq!(ffi::SSL_CTX_set1_groups_list(context, c"P-256".as_ptr()), 1);
            let options = ffi::SSL_OP_NO_QUERY_MTU | ffi::SSL_OP_NO_TICKET;
            ffi::SSL_CTX_set_options(context, options);
            // Otherwise an end that trusts the authority sends its certificate as well.
            ffi::SSL_CTX_ctrl(context, ffi::SSL_CTRL_MODE, NO_AUTO_CHAIN, null_mut());
            this
        }
    }

    fn client(chains: &Chains, handshake: Handshake) -> Self {
        let this = Self::new(handshake);
        if handshake == Handshake::Psk {
            // SAFETY: the context is valid.
            unsafe { ffi::SSL_CTX_set_psk_client_callback(this.0.as_ptr(), Some(client_key)) };
        } else {
            this.verify(chains, ffi::SSL_VERIFY_PEER);
        }
        if handshake == (Handshake::Certificates { mutual: true }) {
            this.present(&chains.client);
        }
        this
    }

    fn server(chains: &Chains, handshake: Handshake) -> Self {
        let this = Self::new(handshake);
        let context = this.0.as_ptr();
        // SAFETY: the context is valid, and the session's context is copied.
        unsafe {
            ffi::SSL_CTX_set_options(context, ffi::SSL_OP_COOKIE_EXCHANGE);
            ffi::SSL_CTX_set_cookie_generate_cb(context, Some(make_cookie));
            ffi::SSL_CTX_set_cookie_verify_cb(context, Some(check_cookie));
            assert_eq!(ffi::SSL_CTX_set_session_id_context(context, [1].as_ptr(), 1), 1);
            if handshake == Handshake::Psk {
                ffi::SSL_CTX_set_psk_server_callback(context, Some(server_key));
            }
        }
        if handshake != Handshake::Psk {
            this.present(&chains.server);
        }
        if handshake == (Handshake::Certificates { mutual: true }) {
            this.verify(chains, ffi::SSL_VERIFY_PEER | ffi::SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
        }
        this
    }

    fn present(&self, own: &Issued) {
        let length = c_long::try_from(own.key.len()).expect("a short key");
        let mut key = own.key.as_ptr();
        // SAFETY: the context is valid and takes references of its own; the key is read only.
        unsafe {
            let context = self.0.as_ptr();
            let certificate = certificate(&own.certificate);
            assert_eq!(ffi::SSL_CTX_use_certificate(context, certificate), 1);
            ffi::X509_free(certificate);
            let key = ffi::d2i_AutoPrivateKey(null_mut(), &raw mut key, length);
            assert_eq!(ffi::SSL_CTX_use_PrivateKey(context, key), 1);
            ffi::EVP_PKEY_free(key);
        }
    }

    fn verify(&self, chains: &Chains, mode: c_int) {
        // SAFETY: the context is valid, and its store takes a reference of its own.
        unsafe {
            let authority = certificate(&chains.authority);
            let store = ffi::SSL_CTX_get_cert_store(self.0.as_ptr());
            assert_eq!(ffi::X509_STORE_add_cert(store, authority), 1);
            ffi::X509_free(authority);
            ffi::SSL_CTX_set_verify(self.0.as_ptr(), mode, None);
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is valid until this call; connections hold references of their own.
        unsafe { ffi::SSL_CTX_free(self.0.as_ptr()) };
    }
}

fn certificate(der: &[u8]) -> *mut ffi::X509 {
    let (mut bytes, length) = (der.as_ptr(), c_long::try_from(der.len()).expect("short"));
    // SAFETY: at most `length` bytes are read.
    let certificate = unsafe { ffi::d2i_X509(null_mut(), &raw mut bytes, length) };
    assert!(!certificate.is_null(), "OpenSSL reads the certificate");
    certificate
}

struct End(NonNull<ffi::SSL>);

impl End {
    /// An end that reads from `input` and writes to `output`.
    ///
    /// # Safety
    /// Both BIOs are valid.
    unsafe fn new(context: &Context, input: *mut ffi::BIO, output: *mut ffi::BIO) -> Self {
        let mtu = c_long::try_from(DATAGRAM_BYTES).expect("a datagram's length");
        // SAFETY: the context is valid. The connection takes over one reference to each BIO, which
        // is made for it here.
        unsafe {
            let ssl = ffi::SSL_new(context.0.as_ptr());
            let this = Self(NonNull::new(ssl).expect("OpenSSL makes a connection"));
            ffi::SSL_ctrl(ssl, ffi::SSL_CTRL_SET_MTU, mtu, null_mut());
            assert_eq!((BIO_up_ref(input), BIO_up_ref(output)), (1, 1));
            ffi::SSL_set_bio(ssl, input, output);
            this
        }
    }

    fn ask_for_server(&self, session: Option<&Session>) {
        let name = CString::new(SERVER_NAME).expect("no zero in a name");
        // SAFETY: the connection and the session are valid; the name is copied.
        unsafe {
            let ssl = self.0.as_ptr();
            assert_eq!(ffi::SSL_set_tlsext_host_name(ssl, name.as_ptr().cast_mut()), 1);
            let length = SERVER_NAME.len();
            let parameters = ffi::SSL_get0_param(ssl);
            assert_eq!(ffi::X509_VERIFY_PARAM_set1_host(parameters, name.as_ptr(), length), 1);
            if let Some(session) = session {
                assert_eq!(ffi::SSL_set_session(ssl, session.0), 1);
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: the connection is valid until this call. A connection that is freed without a
        // shutdown takes its session out of the server's memory, so it is marked as closed.
        unsafe {
            ffi::SSL_set_shutdown(self.0.as_ptr(), 3);
            ffi::SSL_free(self.0.as_ptr());
        }
    }
}

struct Session(*mut ffi::SSL_SESSION);

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and is given back once.
        unsafe { ffi::SSL_SESSION_free(self.0) };
    }
}

/// Runs a handshake to its end. Returns the lengths of its datagrams, and the client's session.
fn connect(client: &Context, server: &Context, resumed: Option<&Session>) -> (Vec<usize>, Session) {
    let mut lengths: Vec<usize> = Vec::new();
    // SAFETY: the BIOs are made here and released once both ends have references of their own; their
    // callback uses `lengths`, which lives longer than both ends and is not touched before they are
    // dropped.
    let session = unsafe {
        let bios = [(); 2].map(|()| ffi::BIO_new(ffi::BIO_s_mem()));
        for bio in bios {
            assert!(!bio.is_null(), "OpenSSL makes BIOs");
            BIO_set_callback_arg(bio, (&raw mut lengths).cast());
            BIO_set_callback_ex(bio, Some(count));
        }
        let client = End::new(client, bios[0], bios[1]);
        let server = End::new(server, bios[1], bios[0]);
        bios.into_iter().for_each(|bio| ffi::BIO_free_all(bio));
        client.ask_for_server(resumed);
        let connected = (0..20).any(|_| {
            let client_done = ffi::SSL_connect(client.0.as_ptr()) == 1;
            let server_done = ffi::SSL_accept(server.0.as_ptr()) == 1;
            client_done && server_done
        });
        let error = ffi::ERR_reason_error_string(ffi::ERR_get_error());
        assert!(
            connected,
            "the handshake is not complete after 20 rounds: {:?}",
            (!error.is_null()).then(|| CStr::from_ptr(error)),
        );
        let reused = ffi::SSL_session_reused(client.0.as_ptr()) == 1;
        assert_eq!(reused, resumed.is_some(), "the session is resumed");
        Session(SSL_get1_session(client.0.as_ptr()))
    };
    (lengths, session)
}

/// The callback of a BIO: adds the length of each datagram that was written.
unsafe extern "C" fn count(
    bio: *mut ffi::BIO,
    operation: c_int,
    _: *const c_char,
    _: usize,
    _: c_int,
    _: c_long,
    answer: c_int,
    written: *mut usize,
) -> c_long {
    if operation == WRITTEN && answer > 0 {
        // SAFETY: `connect` has set the argument to its list, which nothing else uses now; OpenSSL
        // passes the number of bytes after each write that succeeded.
        unsafe { (*BIO_get_callback_arg(bio).cast::<Vec<usize>>()).push(*written) };
    }
    c_long::from(answer)
}

/// As long as our cookies of DTLS 1.2.
const COOKIE: [u8; 16] = [0x5c; 16];

/// The callback by which a server asks for a cookie. A test can do with one for every client.
extern "C" fn make_cookie(_: *mut ffi::SSL, cookie: *mut c_uchar, length: *mut c_uint) -> c_int {
    // SAFETY: `cookie` has room for `DTLS1_COOKIE_LENGTH` bytes, which is 255.
    unsafe {
        cookie.copy_from_nonoverlapping(COOKIE.as_ptr(), COOKIE.len());
        *length = COOKIE.len() as c_uint;
    }
    1
}

extern "C" fn check_cookie(_: *mut ffi::SSL, cookie: *const c_uchar, length: c_uint) -> c_int {
    // SAFETY: `cookie` has `length` bytes.
    let cookie = unsafe { std::slice::from_raw_parts(cookie, length as usize) };
    c_int::from(cookie == COOKIE)
}
