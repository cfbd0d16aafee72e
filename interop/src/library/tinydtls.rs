//! tinydtls as a peer.

use super::{End, Settings};
use crate::driven::Event;
use crate::peers::Role;
use lightseal_core::{Engine, Instant, Output};
use std::collections::VecDeque;
use std::ffi::{c_int, c_uchar, c_ushort};
use std::mem::transmute;
use std::net::SocketAddr;
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::time::Duration;
use tinydtls_sys as sys;

/// How often tinydtls checks whether it must retransmit. It reads a clock of its own.
const LOOK: Duration = Duration::from_millis(50);
/// The event code that tinydtls reports when the handshake is complete.
const EVENT_CONNECTED: c_ushort = 0x01de;

/// The version of tinydtls.
pub fn version() -> String {
    String::from_utf8_lossy(sys::PACKAGE_VERSION).trim_end_matches('\0').to_owned()
}

/// One end of one connection.
pub struct Tiny {
    context: NonNull<sys::dtls_context_t>,
    /// The data that the callbacks work with. It is freed after the context.
    line: NonNull<Line>,
    session: Box<sys::session_t>,
    role: Role,
    to: Option<SocketAddr>,
    wake: Option<Instant>,
}

struct Line {
    outbound: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    identity: Vec<u8>,
    key: Vec<u8>,
}

/// The table of callbacks, which all connections share and which never changes.
static HANDLER: Handler = Handler(sys::dtls_handler_t {
    write: Some(transmit),
    read: Some(receive),
    // SAFETY: only the type of the level differs. tinydtls also passes 0, which is no value of the
    // enumeration in the bindings.
    event: Some(unsafe { transmute::<EventHandler, EnumEventHandler>(event) }),
    get_user_parameters: None,
    get_psk_info: Some(psk),
    get_ecdsa_key: None,
    verify_ecdsa_key: None,
});

type EventHandler =
    unsafe extern "C" fn(*mut sys::dtls_context_t, *mut sys::session_t, u32, c_ushort) -> c_int;
type EnumEventHandler = unsafe extern "C" fn(
    *mut sys::dtls_context_t,
    *mut sys::session_t,
    sys::dtls_alert_level_t,
    c_ushort,
) -> c_int;

struct Handler(sys::dtls_handler_t);

// SAFETY: the handler consists of function pointers and is never written.
unsafe impl Sync for Handler {}

/// One end of a connection by tinydtls.
///
/// # Errors
/// tinydtls cannot connect.
pub fn end(role: Role, settings: &Settings, address: SocketAddr) -> Result<Tiny, String> {
    static INIT: Once = Once::new();
    // SAFETY: the function has no arguments and is called once, before all others of tinydtls.
    INIT.call_once(|| unsafe { sys::dtls_init() });
    let line = NonNull::from(Box::leak(Box::new(Line {
        outbound: VecDeque::new(),
        events: VecDeque::new(),
        identity: settings.identity.clone(),
        key: settings.key.clone(),
    })));
    // SAFETY: the line stays valid until the context is freed.
    let context = NonNull::new(unsafe { sys::dtls_new_context(line.as_ptr().cast()) })
        .ok_or("tinydtls makes no context")?;
    // SAFETY: the context is valid; the handler is static and only ever read.
    unsafe { (*context.as_ptr()).h = (&raw const HANDLER.0).cast_mut() };
    let mut end = Tiny { context, line, session: session(), role, to: None, wake: None };
    if role == Role::Client {
        end.to = Some(address);
        end.wake = Some(Instant::ZERO + LOOK);
        // SAFETY: context and session are valid.
        if unsafe { sys::dtls_connect(end.context.as_ptr(), &*end.session) } < 0 {
            return Err("tinydtls does not connect".into());
        }
    }
    Ok(end)
}

/// The session, by which tinydtls names the other end. It is never used to send, so any name will
/// do.
fn session() -> Box<sys::session_t> {
    // SAFETY: a session consists of numbers and addresses, for which all zeros are a valid value.
    let mut session: Box<sys::session_t> = Box::new(unsafe { std::mem::zeroed() });
    // SAFETY: the session is writable.
    unsafe { sys::dtls_session_init(&mut *session) };
    // tinydtls compares sessions by their address: AF_INET and a port.
    // SAFETY: the address is a union of socket addresses, one of which is IPv4.
    unsafe {
        let address = session.addr.sin.as_mut();
        address.sin_family = 2;
        address.sin_port = 1;
    }
    session.size = 16;
    session
}

impl Tiny {
    fn line(&mut self) -> &mut Line {
        // SAFETY: the line is freed only in `drop`; no callback runs while `self` is borrowed here.
        unsafe { self.line.as_mut() }
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        // SAFETY: the context is freed first, which sends alerts to its peers by a callback; the
        // line came from a box.
        unsafe {
            sys::dtls_free_context(self.context.as_ptr());
            drop(Box::from_raw(self.line.as_ptr()));
        }
    }
}

impl End for Tiny {
    fn send(&mut self, _: Instant, payload: &[u8]) -> Result<(), String> {
        let mut payload = payload.to_vec();
        // SAFETY: context and session are valid, and the payload has the given length.
        let answer = unsafe {
            sys::dtls_write(
                self.context.as_ptr(),
                &mut *self.session,
                payload.as_mut_ptr(),
                payload.len(),
            )
        };
        if answer < 0 { Err(format!("dtls_write: {answer}")) } else { Ok(()) }
    }
}

impl Engine for Tiny {
    type Event<'a> = Event;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        if *self.to.get_or_insert(from) != from {
            return;
        }
        let length = c_int::try_from(datagram.len()).expect("a datagram's length");
        // SAFETY: context and session are valid, and the datagram has the given length.
        let answer = unsafe {
            sys::dtls_handle_message(
                self.context.as_ptr(),
                &mut *self.session,
                datagram.as_mut_ptr(),
                length,
            )
        };
        self.wake = Some(now + LOOK);
        // tinydtls returns an error for junk as well, after which a server continues.
        if answer < 0 && self.role == Role::Client {
            eprintln!("dtls_handle_message: {answer}");
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.wake.is_some_and(|wake| now >= wake) {
            let mut next = 0;
            // SAFETY: the context is valid, and `next` is a writable number.
            unsafe { sys::dtls_check_retransmit(self.context.as_ptr(), &mut next) };
            self.wake = Some(now + LOOK);
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Event> {
        let (to, wake) = (self.to, self.wake);
        let line = self.line();
        if let Some(to) = to
            && let Some(datagram) = line.outbound.pop_front()
        {
            buf[..datagram.len()].copy_from_slice(&datagram);
            return Output::Datagram { to, payload: &buf[..datagram.len()] };
        }
        if let Some(event) = line.events.pop_front() {
            return Output::Event(event);
        }
        wake.map_or(Output::Idle, Output::WakeAt)
    }
}

/// The data of the connection whose method called tinydtls.
///
/// # Safety
/// `context` was made by [`end`] and is still valid.
unsafe fn line<'a>(context: *mut sys::dtls_context_t) -> &'a mut Line {
    // SAFETY: `app` was set when the context was made, and nothing else uses the line now.
    unsafe { &mut *(*context).app.cast::<Line>() }
}

/// The callback by which tinydtls sends a datagram.
unsafe extern "C" fn transmit(
    context: *mut sys::dtls_context_t,
    _session: *mut sys::session_t,
    datagram: *mut u8,
    length: usize,
) -> c_int {
    // SAFETY: the caller is a context made by `end`; the datagram has `length` bytes.
    let (line, datagram) = unsafe { (line(context), std::slice::from_raw_parts(datagram, length)) };
    line.outbound.push_back(datagram.to_vec());
    c_int::try_from(length).expect("a datagram's length")
}

/// The callback by which tinydtls delivers a payload.
unsafe extern "C" fn receive(
    context: *mut sys::dtls_context_t,
    _session: *mut sys::session_t,
    payload: *mut u8,
    length: usize,
) -> c_int {
    // SAFETY: the argument is valid for the same reason as in `transmit`.
    let (line, payload) = unsafe { (line(context), std::slice::from_raw_parts(payload, length)) };
    line.events.push_back(Event::Data(payload.to_vec()));
    0
}

/// The callback by which tinydtls reports an event: an alert, or with level 0 an event of its own.
unsafe extern "C" fn event(
    context: *mut sys::dtls_context_t,
    _session: *mut sys::session_t,
    level: u32,
    code: c_ushort,
) -> c_int {
    const FATAL: u32 = 2;
    // SAFETY: the argument is valid for the same reason as in `transmit`.
    let line = unsafe { line(context) };
    if code == EVENT_CONNECTED {
        line.events.push_back(Event::Connected);
    } else if level == FATAL || level > 0 && code == 0 {
        line.events.push_back(Event::Closed(format!("alert {code}")));
    }
    0
}

/// The callback by which tinydtls asks for the hint, the identity or the key. Returns its length,
/// or an alert as a negative number.
unsafe extern "C" fn psk(
    context: *mut sys::dtls_context_t,
    _session: *const sys::session_t,
    what: sys::dtls_credentials_type_t,
    description: *const c_uchar,
    description_length: usize,
    out: *mut c_uchar,
    capacity: usize,
) -> c_int {
    const INTERNAL_ERROR: c_int = -((2 << 8) | 80);
    // SAFETY: the argument is valid for the same reason as in `transmit`.
    let line = unsafe { line(context) };
    let bytes: &[u8] = match what {
        sys::dtls_credentials_type_t::DTLS_PSK_IDENTITY => &line.identity,
        sys::dtls_credentials_type_t::DTLS_PSK_KEY => {
            // SAFETY: `description` has this length. It is the client's identity for a server; a
            // client does not need it.
            let asked = (!description.is_null())
                .then(|| unsafe { std::slice::from_raw_parts(description, description_length) });
            if asked.is_some_and(|asked| !asked.is_empty() && asked != line.identity) {
                return INTERNAL_ERROR;
            }
            &line.key
        }
        _ => return 0,
    };
    if bytes.len() > capacity {
        return INTERNAL_ERROR;
    }
    // SAFETY: `out` has room for `capacity` bytes.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), out, bytes.len()) };
    c_int::try_from(bytes.len()).expect("it is short")
}
