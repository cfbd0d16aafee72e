//! A web server for the one page that a browser opens. The page asks for calls and offers them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// The page.
const PAGE: &str = include_str!("page.html");
/// The longest request body that is read, in bytes.
const MAX_BODY: usize = 1 << 16;
/// How long one request may take to arrive once its connection is there.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The server.
pub(super) struct Signalling(TcpListener);

/// A request of the page that waits for its answer.
pub(super) struct Request {
    /// The path.
    pub(super) path: String,
    /// The body.
    pub(super) body: String,
    stream: TcpStream,
}

impl Signalling {
    pub(super) fn start(at: IpAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((at, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next request of the page that is neither for the page itself nor for what browsers ask for
    /// on their own.
    pub(super) fn next(&self, deadline: Instant) -> Result<Request, String> {
        loop {
            match self.0.accept() {
                Ok((stream, _)) => match read(stream) {
                    Ok(request) if request.path == "/" => {
                        request.answer("200 OK", "text/html", PAGE)?;
                    }
                    Ok(request) if ["/next", "/offer"].contains(&request.path.as_str()) => {
                        return Ok(request);
                    }
                    Ok(request) => request.answer("404 Not Found", "text/plain", "")?,
                    // A browser opens connections that it does not use.
                    Err(_) => {}
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() > deadline {
                        return Err("the page does not ask for anything".into());
                    }
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Request {
    /// Answers with a text.
    pub(super) fn text(self, body: &str) -> Result<(), String> {
        self.answer("200 OK", "text/plain", body)
    }

    fn answer(mut self, status: &str, kind: &str, body: &str) -> Result<(), String> {
        write!(
            self.stream,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
        .map_err(|error| format!("the browser does not read its answer: {error}"))
    }
}

fn read(stream: TcpStream) -> io::Result<Request> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let path = line.split_whitespace().nth(1).ok_or_else(malformed)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        lines.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| malformed())?;
        }
    }
    if length > MAX_BODY {
        return Err(malformed());
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body)?;
    let body = String::from_utf8(body).map_err(|_| malformed())?;
    Ok(Request { path, body, stream })
}
