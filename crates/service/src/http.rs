//! Metrics and health over the part of HTTP that they need.
//!
//! - `GET /metrics`: the metrics, in OpenMetrics for who accepts that and else in the text format of
//!   Prometheus;
//! - `GET /health`: 200 while the loop that does the service's work runs, else 503;
//! - `GET /ready`: 200 while the service takes new clients, else 503.
//!
//! The answers about health are one line that says why. Nothing is authenticated here: metrics name
//! no peers, and the address should be reached by administrators alone.

use crate::accept;
use crate::lifecycle::Lifecycle;
use crate::metrics::{Format, Snapshot};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The longest request head in bytes.
const MAX_REQUEST: usize = 8 << 10;
/// Most clients that are served at a time; others wait.
const CLIENTS: usize = 8;
/// How long a request and its answer may take together.
const PATIENCE: Duration = Duration::from_secs(5);
/// The media type of answers without metrics.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers requests on `listener` until the future is dropped.
pub async fn serve<S>(listener: TcpListener, lifecycle: Arc<Lifecycle>, snapshot: S) -> Infallible
where
    S: Fn() -> Snapshot + Send + Sync + 'static,
{
    let shared = Arc::new((lifecycle, snapshot));
    let poll_accept =
        |context: &mut Context<'_>| listener.poll_accept(context).map_ok(|(stream, _)| stream);
    accept::serve_connections("metrics", CLIENTS, poll_accept, |stream| {
        let shared = Arc::clone(&shared);
        async move {
            let (lifecycle, snapshot) = &*shared;
            let _ = tokio::time::timeout(PATIENCE, attend(stream, lifecycle, snapshot)).await;
        }
    })
    .await
}

/// An answer, without its head.
struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Answer {
    fn new(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, content_type: PLAIN, body: body.into() }
    }
}

async fn attend(
    mut stream: TcpStream,
    lifecycle: &Lifecycle,
    snapshot: &impl Fn() -> Snapshot,
) -> io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    let ends = |head: &[u8]| {
        head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
    };
    while !ends(&head) {
        if head.len() >= MAX_REQUEST {
            let too_large = Answer::new("431 Request Header Fields Too Large", "");
            return write(&mut stream, too_large, false).await;
        }
        if (&mut stream).take((MAX_REQUEST - head.len()) as u64).read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next().unwrap_or_default().split_whitespace();
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    if !matches!(method, Some("GET" | "HEAD")) {
        return write(&mut stream, Answer::new("405 Method Not Allowed", ""), true).await;
    }
    let about_health = |good: bool, why: String| {
        let status = if good { "200 OK" } else { "503 Service Unavailable" };
        Answer::new(status, why + "\n")
    };
    let answer = match target.split('?').next().unwrap_or_default() {
        "/metrics" => {
            let format = accepted(&head);
            let (content_type, body) = (format.content_type(), snapshot().text(format));
            Answer { status: "200 OK", content_type, body }
        }
        "/health" => {
            let health = lifecycle.health();
            // A service that drains is alive, although it is not ready.
            about_health(health.alive, health.why)
        }
        "/ready" => {
            let health = lifecycle.health();
            about_health(health.ready, health.why)
        }
        _ => Answer::new("404 Not Found", ""),
    };
    write(&mut stream, answer, method == Some("GET")).await
}

/// The format that a client accepts (RFC 9110, section 12.5.1). Prometheus names OpenMetrics first if
/// it reads it; weights are not compared.
fn accepted(head: &str) -> Format {
    let accepts = head.lines().skip(1).any(|line| {
        line.split_once(':').is_some_and(|(name, value)| {
            name.trim().eq_ignore_ascii_case("accept")
                && value.split(',').any(|kind| {
                    let kind = kind.split(';').next().unwrap_or_default().trim();
                    kind.eq_ignore_ascii_case("application/openmetrics-text")
                })
        })
    });
    if accepts { Format::OpenMetrics } else { Format::Prometheus }
}

async fn write(stream: &mut TcpStream, answer: Answer, with_body: bool) -> io::Result<()> {
    let Answer { status, content_type, body } = answer;
    let mut text = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    if with_body {
        text.push_str(&body);
    }
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Kind;
    use std::net::SocketAddr;

    fn snapshot() -> Snapshot {
        let mut all = Snapshot::new("lightseal_test_");
        all.one("drops_total", "Drops.", Kind::Counter, 5);
        all
    }

    async fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        // The server may close the connection with a reset, if it did not read the whole request.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn as_much_http_as_prometheus_speaks() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let lifecycle = Arc::new(Lifecycle::start());
        lifecycle.ready();
        let server = tokio::spawn(serve(listener, Arc::clone(&lifecycle), snapshot));
        let answer = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200 OK"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        assert!(body.ends_with("lightseal_test_drops_total 5\n"), "{body}");
        let open = b"GET /metrics?x HTTP/1.1\r\naccept: text/html, \
                     application/openmetrics-text;version=1.0.0;q=0.5\r\n\r\n";
        let answer = ask(address, open).await;
        assert!(answer.contains("Content-Type: application/openmetrics-text;"), "{answer}");
        assert!(answer.ends_with("lightseal_test_drops_total 5\n# EOF\n"), "{answer}");
        for (request, status) in [
            (&b"HEAD /metrics HTTP/1.0\r\n\r\n"[..], "200"),
            (b"GET / HTTP/1.0\n\n", "404"),
            (b"POST /metrics HTTP/1.0\r\n\r\n", "405"),
            (b"\xff\xfe\r\n\r\n", "405"),
        ] {
            let answer = ask(address, request).await;
            assert!(answer.starts_with(&format!("HTTP/1.0 {status}")), "{answer}");
            assert!(answer.ends_with("\r\n\r\n"), "no body: {answer}");
        }
        assert!(ask(address, &[b'x'; MAX_REQUEST]).await.starts_with("HTTP/1.0 431"));
        server.abort();
    }

    #[tokio::test]
    async fn a_service_that_drains_is_healthy_and_not_ready() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let lifecycle = Arc::new(Lifecycle::start());
        let server = tokio::spawn(serve(listener, Arc::clone(&lifecycle), snapshot));
        let both = async || {
            let ask = async |path: &str| {
                let answer = ask(address, format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await;
                let (head, body) = answer.split_once("\r\n\r\n").unwrap();
                (head[9..12].to_owned(), body.to_owned())
            };
            (ask("/health").await, ask("/ready").await)
        };
        let answers = |health: &str, ready: &str, why: &str| {
            ((health.to_owned(), why.to_owned()), (ready.to_owned(), why.to_owned()))
        };
        assert_eq!(both().await, answers("200", "503", "starting\n"));
        lifecycle.ready();
        assert_eq!(both().await, answers("200", "200", "ready\n"));
        lifecycle.drain("nothing new");
        assert_eq!(both().await, answers("200", "503", "draining\n"));
        server.abort();
    }
}
