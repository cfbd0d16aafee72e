//! The functions that wolfSSL calls: for datagrams, keys and cookies.

use super::{Queues, Secrets, sys};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The callback by which wolfSSL asks for a datagram.
pub(super) unsafe extern "C" fn receive(
    _ssl: *mut sys::WOLFSSL,
    out: *mut c_char,
    capacity: c_int,
    queues: *mut c_void,
) -> c_int {
    // SAFETY: these are the queues of the peer whose method called wolfSSL; nothing else uses them
    // now.
    let queues = unsafe { &mut *queues.cast::<Queues>() };
    let Some(datagram) = queues.inbound.pop_front() else {
        return sys::IOerrors_WOLFSSL_CBIO_ERR_WANT_READ;
    };
    let length = datagram.len().min(usize::try_from(capacity).unwrap_or(0));
    // SAFETY: `out` has room for `capacity` bytes and does not overlap with our datagram.
    unsafe { out.copy_from_nonoverlapping(datagram.as_ptr().cast(), length) };
    queues.spare.push(datagram);
    c_int::try_from(length).expect("no longer than `capacity`")
}

/// The callback by which wolfSSL sends a datagram.
pub(super) unsafe extern "C" fn transmit(
    _ssl: *mut sys::WOLFSSL,
    datagram: *mut c_char,
    length: c_int,
    queues: *mut c_void,
) -> c_int {
    // SAFETY: these are the queues of the peer whose method called wolfSSL, and nothing else uses
    // them now; the datagram has `length` bytes.
    let (queues, datagram) = unsafe {
        let bytes = usize::try_from(length).unwrap_or(0);
        (&mut *queues.cast::<Queues>(), std::slice::from_raw_parts(datagram.cast::<u8>(), bytes))
    };
    let buffer = queues.buffer(datagram);
    queues.outbound.push_back(buffer);
    length
}

/// The callback by which a DTLS 1.2 server asks for a cookie. Returns its length. By default
/// wolfSSL derives it from the socket's peer address, but there is no socket; a test can do with
/// one cookie for every client.
pub(super) unsafe extern "C" fn cookie(
    _ssl: *mut sys::WOLFSSL,
    out: *mut u8,
    capacity: c_int,
    _context: *mut c_void,
) -> c_int {
    /// As long as our cookies of DTLS 1.2.
    const LENGTH: c_int = 16;
    let length = LENGTH.min(capacity);
    // SAFETY: `out` has room for `capacity` bytes.
    unsafe { out.write_bytes(0x5c, usize::try_from(length).unwrap_or(0)) };
    length
}

/// [`client_key`] for DTLS 1.2.
pub(super) unsafe extern "C" fn client_key_12(
    ssl: *mut sys::WOLFSSL,
    hint: *const c_char,
    identity: *mut c_char,
    identity_capacity: c_uint,
    key: *mut u8,
    key_capacity: c_uint,
) -> c_uint {
    let mut suite = std::ptr::null();
    // SAFETY: wolfSSL passes valid arguments, and `suite` is a writable pointer.
    unsafe { client_key(ssl, hint, identity, identity_capacity, key, key_capacity, &mut suite) }
}

/// [`server_key`] for DTLS 1.2.
pub(super) unsafe extern "C" fn server_key_12(
    ssl: *mut sys::WOLFSSL,
    identity: *const c_char,
    key: *mut u8,
    key_capacity: c_uint,
) -> c_uint {
    let mut suite = std::ptr::null();
    // SAFETY: wolfSSL passes valid arguments, and `suite` is a writable pointer.
    unsafe { server_key(ssl, identity, key, key_capacity, &mut suite) }
}

/// The callback by which a client asks for its identity and key. Returns the key's length.
pub(super) unsafe extern "C" fn client_key(
    ssl: *mut sys::WOLFSSL,
    _hint: *const c_char,
    identity: *mut c_char,
    identity_capacity: c_uint,
    key: *mut u8,
    key_capacity: c_uint,
    suite: *mut *const c_char,
) -> c_uint {
    // SAFETY: `Context::peer` has set it to the secrets of a valid context.
    let secrets = unsafe { &*sys::wolfSSL_get_psk_callback_ctx(ssl).cast::<Secrets>() };
    let bytes = secrets.identity.as_bytes_with_nul();
    if bytes.len() > identity_capacity as usize {
        return 0;
    }
    // SAFETY: `identity` has room for `identity_capacity` bytes.
    unsafe { identity.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
    secrets.hand_out(key, key_capacity, suite)
}

/// The callback by which a server asks for the key of a client's identity. Returns the key's
/// length, 0 if the identity is unknown.
pub(super) unsafe extern "C" fn server_key(
    ssl: *mut sys::WOLFSSL,
    identity: *const c_char,
    key: *mut u8,
    key_capacity: c_uint,
    suite: *mut *const c_char,
) -> c_uint {
    // SAFETY: `Context::peer` has set it to the secrets of a valid context; the identity is a C
    // string.
    let (secrets, identity) = unsafe {
        (&*sys::wolfSSL_get_psk_callback_ctx(ssl).cast::<Secrets>(), CStr::from_ptr(identity))
    };
    if identity != secrets.identity.as_c_str() {
        return 0;
    }
    secrets.hand_out(key, key_capacity, suite)
}

impl Secrets {
    fn hand_out(&self, key: *mut u8, capacity: c_uint, suite: *mut *const c_char) -> c_uint {
        if self.key.len() > capacity as usize {
            return 0;
        }
        // SAFETY: only the key callbacks call this: `key` has room for `capacity` bytes, `suite` is
        // a writable pointer, and the name is static.
        unsafe {
            key.copy_from_nonoverlapping(self.key.as_ptr(), self.key.len());
            *suite = self.suite.name().as_ptr();
        }
        self.key.len() as c_uint
    }
}
