//! Mbed TLS as a peer.

use super::{End, Make, Settings};
use crate::driven::Event;
use crate::peers::files::SERVER_NAME;
use crate::peers::{Credential, Group, Role, Suite};
use lightseal_core::{Engine, Instant, Output};
use mbedtls_rs_sys as sys;
use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::ffi::{CString, c_int, c_uchar, c_void};
use std::net::SocketAddr;
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

/// Whether Mbed TLS has the suite. Its ECDHE_PSK suites have only CBC and ChaCha20.
pub const fn has(suite: Suite) -> bool {
    matches!(
        suite,
        Suite::PskCcm8
            | Suite::PskCcm
            | Suite::PskGcm
            | Suite::PskChacha
            | Suite::EcdsaGcm
            | Suite::EcdsaGcm256
            | Suite::EcdsaChacha
            | Suite::EcdsaCcm
            | Suite::EcdsaCcm8
            | Suite::RsaGcm
    )
}

/// The version of Mbed TLS.
pub fn version() -> String {
    String::from_utf8_lossy(sys::MBEDTLS_VERSION_STRING).trim_end_matches('\0').to_owned()
}

/// One end of one connection.
pub struct Mbed {
    /// The parts are boxed, because Mbed TLS keeps pointers between them.
    parts: Box<Parts>,
    to: Option<SocketAddr>,
    events: VecDeque<Event>,
    state: State,
    /// Whether the other end may change its address, because it is known by a connection ID.
    follows: bool,
    /// Keeps what the C structures point to.
    _resumption: Option<Rc<Resumption>>,
}

/// What outlives the connections of one program, so that sessions can be resumed.
struct Resumption {
    /// The session of a client's last connection.
    session: UnsafeCell<sys::mbedtls_ssl_session>,
    /// The sessions of a server.
    cache: UnsafeCell<sys::mbedtls_ssl_cache_context>,
    /// Whether the client has a session.
    is_set: Cell<bool>,
}

struct Parts {
    own: sys::mbedtls_x509_crt,
    authority: sys::mbedtls_x509_crt,
    key: sys::mbedtls_pk_context,
    /// A list that ends with a zero.
    groups: [u16; 4],
    ssl: sys::mbedtls_ssl_context,
    config: sys::mbedtls_ssl_config,
    cookies: sys::mbedtls_ssl_cookie_ctx,
    suites: [c_int; 2],
    line: Line,
}

/// The data that the callbacks work with.
struct Line {
    inbound: VecDeque<Vec<u8>>,
    outbound: VecDeque<Vec<u8>>,
    now: Instant,
    /// The intermediate and the final deadline of the retransmission timer.
    timer: Option<(Instant, Instant)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Handshake,
    Connected,
    Closed,
}

/// What makes ends of connections by Mbed TLS with these settings.
///
/// # Errors
/// The settings that do not fit.
pub fn ends(role: Role, settings: &Settings) -> Result<impl Make<Mbed> + use<>, String> {
    if !has(settings.suite) {
        return Err("not a suite of this peer".into());
    }
    let settings = settings.clone();
    let resumption = settings.resumed.then(|| Rc::new(Resumption::new()));
    Ok(move |address: SocketAddr, now: Instant, before: Option<&mut Mbed>| {
        if let (Some(resumption), Some(before)) = (&resumption, before) {
            // SAFETY: the connection is valid, and the session belongs to this thread alone.
            let answer = unsafe {
                sys::mbedtls_ssl_get_session(&before.parts.ssl, resumption.session.get())
            };
            resumption.is_set.set(answer == 0);
        }
        end(role, &settings, resumption.clone(), address, now)
    })
}

impl Resumption {
    fn new() -> Self {
        // SAFETY: these C structures consist of numbers and pointers. All zeros are a valid value until
        // they are initialised.
        let (mut session, mut cache) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: both structures may be written.
        unsafe {
            sys::mbedtls_ssl_session_init(&mut session);
            sys::mbedtls_ssl_cache_init(&mut cache);
        }
        Self {
            session: UnsafeCell::new(session),
            cache: UnsafeCell::new(cache),
            is_set: Cell::new(false),
        }
    }
}

impl Drop for Resumption {
    fn drop(&mut self) {
        // SAFETY: both structures were initialised.
        unsafe {
            sys::mbedtls_ssl_session_free(self.session.get());
            sys::mbedtls_ssl_cache_free(self.cache.get());
        }
    }
}

/// One end of a connection.
fn end(
    role: Role,
    settings: &Settings,
    resumption: Option<Rc<Resumption>>,
    address: SocketAddr,
    now: Instant,
) -> Result<Mbed, String> {
    // SAFETY: these C structures consist of numbers and pointers. All zeros are a valid value until
    // `set_up` fills them.
    let mut parts: Box<Parts> = Box::new(unsafe {
        Parts {
            own: std::mem::zeroed(),
            authority: std::mem::zeroed(),
            key: std::mem::zeroed(),
            groups: [0; 4],
            ssl: std::mem::zeroed(),
            config: std::mem::zeroed(),
            cookies: std::mem::zeroed(),
            suites: [c_int::from(settings.suite.code()), 0],
            line: Line { inbound: VecDeque::new(), outbound: VecDeque::new(), now, timer: None },
        }
    });
    set_up(&mut parts, role, settings, resumption.as_deref())?;
    let to = (role == Role::Client).then_some(address);
    let follows = settings.cid.is_some_and(|bytes| bytes > 0);
    let mut end = Mbed {
        parts,
        to,
        events: VecDeque::new(),
        state: State::Handshake,
        follows,
        _resumption: resumption,
    };
    if role == Role::Client {
        end.go_on();
    }
    Ok(end)
}

fn set_up(
    parts: &mut Parts,
    role: Role,
    settings: &Settings,
    resumption: Option<&Resumption>,
) -> Result<(), String> {
    let line: *mut c_void = (&raw mut parts.line).cast();
    let cookies: *mut c_void = (&raw mut parts.cookies).cast();
    let endpoint = match role {
        Role::Client => sys::MBEDTLS_SSL_IS_CLIENT,
        Role::Server => sys::MBEDTLS_SSL_IS_SERVER,
    };
    let (key, identity) = (&settings.key, &settings.identity);
    // SAFETY: all structures are in a box that lives as long as the connection; the key and the
    // identity are copied during the call.
    unsafe {
        succeed("psa_crypto_init", sys::psa_crypto_init())?;
        sys::mbedtls_ssl_config_init(&mut parts.config);
        let (datagrams, preset) =
            (sys::MBEDTLS_SSL_TRANSPORT_DATAGRAM, sys::MBEDTLS_SSL_PRESET_DEFAULT);
        let answer = sys::mbedtls_ssl_config_defaults(
            &mut parts.config,
            endpoint as c_int,
            datagrams as c_int,
            preset as c_int,
        );
        succeed("mbedtls_ssl_config_defaults", answer)?;
        sys::mbedtls_ssl_conf_rng(&mut parts.config, Some(random), ptr::null_mut());
        if settings.credential == Credential::Psk {
            let answer = sys::mbedtls_ssl_conf_psk(
                &mut parts.config,
                key.as_ptr(),
                key.len(),
                identity.as_ptr(),
                identity.len(),
            );
            succeed("mbedtls_ssl_conf_psk", answer)?;
        } else {
            set_up_certificates(parts, role, settings)?;
        }
        if let (Some(resumption), Role::Server) = (resumption, role) {
            sys::mbedtls_ssl_conf_session_cache(
                &mut parts.config,
                resumption.cache.get().cast(),
                Some(sys::mbedtls_ssl_cache_get),
                Some(sys::mbedtls_ssl_cache_set),
            );
        }
        sys::mbedtls_ssl_conf_ciphersuites(&mut parts.config, parts.suites.as_ptr());
        if role == Role::Server {
            sys::mbedtls_ssl_cookie_init(&mut parts.cookies);
            let answer =
                sys::mbedtls_ssl_cookie_setup(&mut parts.cookies, Some(random), ptr::null_mut());
            succeed("mbedtls_ssl_cookie_setup", answer)?;
            sys::mbedtls_ssl_conf_dtls_cookies(
                &mut parts.config,
                Some(sys::mbedtls_ssl_cookie_write),
                Some(sys::mbedtls_ssl_cookie_check),
                cookies,
            );
        }
        let own = settings.cid.unwrap_or(0);
        let ignore = sys::MBEDTLS_SSL_UNEXPECTED_CID_IGNORE as c_int;
        let answer = sys::mbedtls_ssl_conf_cid(&mut parts.config, own, ignore);
        succeed("mbedtls_ssl_conf_cid", answer)?;
        sys::mbedtls_ssl_init(&mut parts.ssl);
        succeed("mbedtls_ssl_setup", sys::mbedtls_ssl_setup(&mut parts.ssl, &parts.config))?;
        if settings.credential != Credential::Psk && role == Role::Client {
            let name = CString::new(SERVER_NAME).expect("no zero in a name");
            let answer = sys::mbedtls_ssl_set_hostname(&mut parts.ssl, name.as_ptr());
            succeed("mbedtls_ssl_set_hostname", answer)?;
        }
        if let Some(resumption) = resumption.filter(|resumption| resumption.is_set.get()) {
            let answer = sys::mbedtls_ssl_set_session(&mut parts.ssl, resumption.session.get());
            succeed("mbedtls_ssl_set_session", answer)?;
        }
        sys::mbedtls_ssl_set_bio(&mut parts.ssl, line, Some(transmit), Some(receive), None);
        sys::mbedtls_ssl_set_timer_cb(&mut parts.ssl, line, Some(set_timer), Some(get_timer));
    }
    if let Some(own) = settings.cid {
        let cid = vec![0xc1; own];
        let enabled = sys::MBEDTLS_SSL_CID_ENABLED as c_int;
        // SAFETY: the connection is valid, and the ID is copied during the call.
        let answer =
            unsafe { sys::mbedtls_ssl_set_cid(&mut parts.ssl, enabled, cid.as_ptr(), own) };
        succeed("mbedtls_ssl_set_cid", answer)?;
    }
    Ok(())
}

/// Gives one end its certificate and the authority whose certificates it accepts.
fn set_up_certificates(parts: &mut Parts, role: Role, settings: &Settings) -> Result<(), String> {
    let (certificate, key) = (settings.file(role, "crt")?, settings.file(role, "der")?);
    let authority = settings.authority("crt")?;
    // The groups of DTLS 1.2 are those of certificates too (RFC 8422, section 5.1).
    let mut groups = settings.groups(role);
    groups.extend([Group::P256, Group::P384]);
    for (place, group) in parts.groups.iter_mut().zip(groups) {
        *place = group.code();
    }
    // SAFETY: all structures are in a box that lives as long as the connection, and the files are copied
    // during the calls.
    unsafe {
        sys::mbedtls_x509_crt_init(&mut parts.own);
        sys::mbedtls_x509_crt_init(&mut parts.authority);
        sys::mbedtls_pk_init(&mut parts.key);
        sys::mbedtls_ssl_conf_groups(&mut parts.config, parts.groups.as_ptr());
        if role == Role::Server || settings.mutual {
            let (start, length) = (certificate.as_ptr(), certificate.len());
            let answer = sys::mbedtls_x509_crt_parse(&mut parts.own, start, length);
            succeed("mbedtls_x509_crt_parse", answer)?;
            let (start, length) = (key.as_ptr(), key.len());
            let answer = sys::mbedtls_pk_parse_key(
                &mut parts.key,
                start,
                length,
                ptr::null(),
                0,
                Some(random),
                ptr::null_mut(),
            );
            succeed("mbedtls_pk_parse_key", answer)?;
            let answer =
                sys::mbedtls_ssl_conf_own_cert(&mut parts.config, &mut parts.own, &mut parts.key);
            succeed("mbedtls_ssl_conf_own_cert", answer)?;
        }
        let mut verifies = sys::MBEDTLS_SSL_VERIFY_NONE;
        if role == Role::Client || settings.mutual {
            verifies = sys::MBEDTLS_SSL_VERIFY_REQUIRED;
            let (start, length) = (authority.as_ptr(), authority.len());
            let answer = sys::mbedtls_x509_crt_parse(&mut parts.authority, start, length);
            succeed("mbedtls_x509_crt_parse", answer)?;
            sys::mbedtls_ssl_conf_ca_chain(
                &mut parts.config,
                &mut parts.authority,
                ptr::null_mut(),
            );
        }
        sys::mbedtls_ssl_conf_authmode(&mut parts.config, verifies as c_int);
    }
    Ok(())
}

fn succeed(call: &str, answer: c_int) -> Result<(), String> {
    if answer == 0 { Ok(()) } else { Err(format!("{call}: {answer:#x}")) }
}

impl Mbed {
    /// Lets Mbed TLS process the datagrams that arrived and its timer.
    fn go_on(&mut self) {
        while self.state == State::Handshake {
            // SAFETY: the connection is valid.
            let answer = unsafe { sys::mbedtls_ssl_handshake(&mut self.parts.ssl) };
            match answer {
                0 => {
                    self.state = State::Connected;
                    self.events.push_back(Event::Connected);
                }
                sys::MBEDTLS_ERR_SSL_HELLO_VERIFY_REQUIRED => {
                    // The HelloVerifyRequest is queued; the next ClientHello starts again.
                    // SAFETY: the connection is valid.
                    unsafe { sys::mbedtls_ssl_session_reset(&mut self.parts.ssl) };
                    self.name_client();
                }
                sys::MBEDTLS_ERR_SSL_WANT_READ | sys::MBEDTLS_ERR_SSL_WANT_WRITE => break,
                error => self.close(error),
            }
        }
        let mut buffer = [0; 1 << 14];
        while self.state == State::Connected {
            // SAFETY: the connection is valid, and the buffer has the given length.
            let answer = unsafe {
                sys::mbedtls_ssl_read(&mut self.parts.ssl, buffer.as_mut_ptr(), buffer.len())
            };
            match answer {
                sys::MBEDTLS_ERR_SSL_WANT_READ | sys::MBEDTLS_ERR_SSL_WANT_WRITE => break,
                length @ 1.. => {
                    let payload = buffer[..length as usize].to_vec();
                    self.events.push_back(Event::Data(payload));
                }
                error => self.close(error),
            }
        }
    }

    /// Tells a server the client's address, which goes into the cookie.
    fn name_client(&mut self) {
        let Some(client) = self.to else { return };
        let name = client.to_string();
        // SAFETY: the connection is valid, and the name is copied during the call.
        unsafe {
            sys::mbedtls_ssl_set_client_transport_id(
                &mut self.parts.ssl,
                name.as_ptr(),
                name.len(),
            );
        }
    }

    fn close(&mut self, error: c_int) {
        self.state = State::Closed;
        self.events.push_back(Event::Closed(format!("Mbed TLS: -{:#06x}", -i64::from(error))));
    }
}

impl Drop for Mbed {
    fn drop(&mut self) {
        // SAFETY: each structure was initialised, except a client's cookies, which are zeros; the
        // connection is freed before the structures that it points to.
        unsafe {
            sys::mbedtls_ssl_free(&mut self.parts.ssl);
            sys::mbedtls_ssl_config_free(&mut self.parts.config);
            sys::mbedtls_ssl_cookie_free(&mut self.parts.cookies);
            sys::mbedtls_x509_crt_free(&mut self.parts.own);
            sys::mbedtls_x509_crt_free(&mut self.parts.authority);
            sys::mbedtls_pk_free(&mut self.parts.key);
        }
    }
}

impl End for Mbed {
    fn send(&mut self, now: Instant, payload: &[u8]) -> Result<(), String> {
        self.parts.line.now = now;
        // SAFETY: the connection is valid, and the payload is read during the call.
        let answer =
            unsafe { sys::mbedtls_ssl_write(&mut self.parts.ssl, payload.as_ptr(), payload.len()) };
        if usize::try_from(answer) == Ok(payload.len()) {
            return Ok(());
        }
        Err(format!("mbedtls_ssl_write: {answer}"))
    }

    fn close(&mut self, now: Instant) {
        self.parts.line.now = now;
        // SAFETY: the connection is valid. An error means that the other end has closed before.
        let _ = unsafe { sys::mbedtls_ssl_close_notify(&mut self.parts.ssl) };
        self.state = State::Closed;
    }
}

impl Engine for Mbed {
    type Event<'a> = Event;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        if self.to.is_none() {
            self.to = Some(from);
            self.name_client();
        }
        if (self.to == Some(from) || self.follows) && self.state != State::Closed {
            let before = self.events.len();
            self.parts.line.now = now;
            self.parts.line.inbound.push_back(datagram.to_vec());
            self.go_on();
            // An authentic record shows where the other end is now.
            if self.events.len() > before {
                self.to = Some(from);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.parts.line.now = now;
        if self.state != State::Closed && self.to.is_some() {
            self.go_on();
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Event> {
        if let Some(to) = self.to
            && let Some(datagram) = self.parts.line.outbound.pop_front()
        {
            buf[..datagram.len()].copy_from_slice(&datagram);
            return Output::Datagram { to, payload: &buf[..datagram.len()] };
        }
        if let Some(event) = self.events.pop_front() {
            return Output::Event(event);
        }
        match self.parts.line.timer {
            Some((_, at)) if self.state == State::Handshake => Output::WakeAt(at),
            _ => Output::Idle,
        }
    }
}

/// The callback by which Mbed TLS sends a datagram.
unsafe extern "C" fn transmit(line: *mut c_void, datagram: *const c_uchar, length: usize) -> c_int {
    // SAFETY: `set_up` has set `line` to that of the valid connection whose method called Mbed TLS;
    // the datagram has `length` bytes.
    let (line, datagram) =
        unsafe { (&mut *line.cast::<Line>(), std::slice::from_raw_parts(datagram, length)) };
    line.outbound.push_back(datagram.to_vec());
    c_int::try_from(length).expect("a datagram's length")
}

/// The callback by which Mbed TLS asks for a datagram.
unsafe extern "C" fn receive(line: *mut c_void, out: *mut c_uchar, capacity: usize) -> c_int {
    // SAFETY: the argument is valid for the same reason as in `transmit`.
    let line = unsafe { &mut *line.cast::<Line>() };
    let Some(datagram) = line.inbound.pop_front() else {
        return sys::MBEDTLS_ERR_SSL_WANT_READ;
    };
    let length = datagram.len().min(capacity);
    // SAFETY: `out` has room for `capacity` bytes and does not overlap with our datagram.
    unsafe { out.copy_from_nonoverlapping(datagram.as_ptr(), length) };
    c_int::try_from(length).expect("a datagram's length")
}

/// The callback by which Mbed TLS sets its timer; a zero stops it.
unsafe extern "C" fn set_timer(line: *mut c_void, look_ms: u32, again_ms: u32) {
    // SAFETY: the argument is valid for the same reason as in `transmit`.
    let line = unsafe { &mut *line.cast::<Line>() };
    let after = |ms: u32| line.now + Duration::from_millis(u64::from(ms));
    line.timer = (again_ms > 0).then(|| (after(look_ms), after(again_ms)));
}

/// The callback by which Mbed TLS asks for its timer's state: stopped (-1), running (0), past the
/// intermediate deadline (1), or past the final one (2).
unsafe extern "C" fn get_timer(line: *mut c_void) -> c_int {
    // SAFETY: the argument is valid for the same reason as in `transmit`.
    let line = unsafe { &mut *line.cast::<Line>() };
    match line.timer {
        None => -1,
        Some((_, again)) if line.now >= again => 2,
        Some((look, _)) if line.now >= look => 1,
        Some(_) => 0,
    }
}

/// The callback by which Mbed TLS asks for random bytes.
unsafe extern "C" fn random(_: *mut c_void, out: *mut c_uchar, length: usize) -> c_int {
    // SAFETY: `out` has room for `length` bytes.
    let out = unsafe { std::slice::from_raw_parts_mut(out, length) };
    if aws_lc_rs::rand::fill(out).is_ok() { 0 } else { -1 }
}

/// The function by which the PSA half of Mbed TLS asks for random bytes. This build has no entropy
/// source of its own.
///
/// # Safety
/// `out` has room for `capacity` bytes, and `length` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mbedtls_psa_external_get_random(
    _context: *mut c_void,
    out: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> i32 {
    // SAFETY: the caller promises that `out` and `length` are valid.
    unsafe {
        *length = capacity;
        random(ptr::null_mut(), out, capacity)
    }
}
