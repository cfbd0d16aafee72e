//! OpenSSL against OpenSSL: DTLS 1.2 with `TLS_PSK_WITH_AES_128_CCM_8` over two memory BIOs. Each
//! end reads from the BIO that the other one writes to.

use crate::race::Contender;
use openssl_sys as ffi;
use std::ffi::{CStr, c_char, c_int, c_long, c_uchar, c_uint};
use std::ptr::NonNull;

/// The identity and the key are constants, because OpenSSL's callbacks take no context.
const IDENTITY: &CStr = c"sensor-7";
const KEY: [u8; 32] = [0x5a; 32];
/// The largest datagram in bytes, the same as for the other contenders.
const DATAGRAM_BYTES: c_long = 1400;

unsafe extern "C" {
    /// A function that the bindings lack.
    fn BIO_up_ref(bio: *mut ffi::BIO) -> c_int;
}

struct End(NonNull<ffi::SSL>);

impl End {
    /// An end that reads from `input` and writes to `output`.
    fn new(is_client: bool, input: *mut ffi::BIO, output: *mut ffi::BIO) -> Self {
        // SAFETY: every pointer is made here or is valid in the caller. The connection holds its
        // context and takes over one reference to each BIO, which is made for it here.
        unsafe {
            let context = ffi::SSL_CTX_new(ffi::DTLS_method());
            assert!(!context.is_null(), "OpenSSL makes a context");
            // The suite's short tag is below OpenSSL's default security level.
            let list = c"PSK-AES128-CCM8:@SECLEVEL=0";
            assert_eq!(ffi::SSL_CTX_set_cipher_list(context, list.as_ptr()), 1);
            if is_client {
                ffi::SSL_CTX_set_psk_client_callback(context, Some(client_key));
            } else {
                ffi::SSL_CTX_set_psk_server_callback(context, Some(server_key));
            }
            // There is no socket that could be asked for its MTU.
            ffi::SSL_CTX_set_options(context, ffi::SSL_OP_NO_QUERY_MTU);
            let ssl = ffi::SSL_new(context);
            ffi::SSL_CTX_free(context);
            let ssl = NonNull::new(ssl).expect("OpenSSL makes a connection");
            ffi::SSL_ctrl(
                ssl.as_ptr(),
                ffi::SSL_CTRL_SET_MTU,
                DATAGRAM_BYTES,
                std::ptr::null_mut(),
            );
            assert_eq!((BIO_up_ref(input), BIO_up_ref(output)), (1, 1));
            ffi::SSL_set_bio(ssl.as_ptr(), input, output);
            Self(ssl)
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: the connection is valid until this call.
        unsafe { ffi::SSL_free(self.0.as_ptr()) };
    }
}

/// Repeats sealing and opening one record.
pub struct Records {
    client: End,
    server: End,
    payload: Vec<u8>,
    out: Vec<u8>,
}

impl Records {
    /// Records of `bytes` of payload.
    ///
    /// # Panics
    /// The handshake fails.
    pub fn new(bytes: usize) -> Self {
        // SAFETY: the BIOs are made here and released once both ends have their own references;
        // both ends are valid.
        unsafe {
            let bios = [(); 2].map(|()| ffi::BIO_new(ffi::BIO_s_mem()));
            assert!(bios.iter().all(|bio| !bio.is_null()), "OpenSSL makes BIOs");
            let client = End::new(true, bios[0], bios[1]);
            let server = End::new(false, bios[1], bios[0]);
            bios.into_iter().for_each(|bio| ffi::BIO_free_all(bio));
            let connected = (0..20).any(|_| {
                let client_done = ffi::SSL_connect(client.0.as_ptr()) == 1;
                let server_done = ffi::SSL_accept(server.0.as_ptr()) == 1;
                client_done && server_done
            });
            assert!(connected, "the handshake is not complete after 20 rounds");
            Self { client, server, payload: vec![0x42; bytes], out: vec![0; bytes + 1] }
        }
    }
}

impl Contender for Records {
    fn run(&mut self) {
        let length = c_int::try_from(self.payload.len()).expect("a datagram's payload");
        // SAFETY: both ends are valid, `payload` is only read, and at most `length + 1` bytes are
        // written to `out`, which is its length.
        unsafe {
            let sent = ffi::SSL_write(self.client.0.as_ptr(), self.payload.as_ptr().cast(), length);
            assert_eq!(sent, length);
            let out = self.out.as_mut_ptr().cast();
            let received = ffi::SSL_read(self.server.0.as_ptr(), out, length + 1);
            assert_eq!(received, length);
        }
    }
}

/// The callback by which a client asks for its identity and key. Returns the key's length.
pub(crate) extern "C" fn client_key(
    _ssl: *mut ffi::SSL,
    _hint: *const c_char,
    identity: *mut c_char,
    identity_capacity: c_uint,
    key: *mut c_uchar,
    key_capacity: c_uint,
) -> c_uint {
    let bytes = IDENTITY.to_bytes_with_nul();
    if bytes.len() > identity_capacity as usize || KEY.len() > key_capacity as usize {
        return 0;
    }
    // SAFETY: each buffer of OpenSSL has room for its stated capacity.
    unsafe {
        identity.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        key.copy_from_nonoverlapping(KEY.as_ptr(), KEY.len());
    }
    KEY.len() as c_uint
}

/// The callback by which a server asks for the key of the client's identity. Returns its length.
pub(crate) extern "C" fn server_key(
    _ssl: *mut ffi::SSL,
    _identity: *const c_char,
    key: *mut c_uchar,
    key_capacity: c_uint,
) -> c_uint {
    if KEY.len() > key_capacity as usize {
        return 0;
    }
    // SAFETY: each buffer of OpenSSL has room for its stated capacity.
    unsafe { key.copy_from_nonoverlapping(KEY.as_ptr(), KEY.len()) };
    KEY.len() as c_uint
}

/// OpenSSL's version.
///
/// # Panics
/// Never: OpenSSL's version is ASCII.
pub fn version() -> &'static str {
    // SAFETY: 0 asks for the version, which is a static C string.
    unsafe { CStr::from_ptr(ffi::OpenSSL_version(0)) }.to_str().expect("ASCII")
}
