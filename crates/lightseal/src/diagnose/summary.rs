//! What two ends negotiated, for people and for scripts.

use lightseal_core::Instant;
use lightseal_dtls::{Negotiated, ProtocolVersion, Stats};
use lightseal_net::address::Named;
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

/// What two ends negotiated, and what the handshake took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// Address and port of the peer.
    pub(super) peer: String,
    pub(super) version: String,
    /// The name of the cipher suite in the registry of TLS.
    pub(super) cipher_suite: &'static str,
    /// The key exchange group; `None` with a PSK alone.
    pub(super) group: Option<String>,
    /// How the PSK is used. The names of DTLS 1.2 suites already say it.
    pub(super) psk_mode: Option<String>,
    pub(super) psk_identity: Option<String>,
    /// The peer in the form of access lists; `None` if it did not authenticate itself.
    pub(super) peer_identity: Option<String>,
    /// The name of the server that the client asked for.
    pub(super) server_name: Option<String>,
    pub(super) application_protocol: Option<String>,
    pub(super) resumed: bool,
    /// Whether the server accepted early data.
    pub(super) early_data: bool,
    pub(super) extended_master_secret: bool,
    /// The longest content of a record that this end may send, in bytes.
    pub(super) record_limit: usize,
    pub(super) connection_ids: Directions<String>,
    /// Whether the peer's address can be validated when it changes (RFC 9853).
    pub(super) return_routability_check: bool,
    /// The schemes of shared tags.
    pub(super) tags: Directions<String>,
    pub(super) handshake: HandshakeCost,
}

/// Something of each direction, as seen from this end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Directions<T> {
    pub(super) outward: T,
    pub(super) inward: T,
}

/// What a handshake took until this end had completed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct HandshakeCost {
    pub(super) microseconds: u64,
    pub(super) sent: Traffic,
    pub(super) received: Traffic,
}

/// Datagrams with the bytes of their UDP payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Traffic {
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
}

impl HandshakeCost {
    /// What a handshake took that began at `began` and was complete at `now`.
    pub(super) fn new(began: Instant, now: Instant, stats: &Stats) -> Self {
        let time = now.saturating_since(began);
        Self {
            microseconds: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
            sent: Traffic { datagrams: stats.sent.datagrams, bytes: stats.sent.bytes },
            received: Traffic { datagrams: stats.received.datagrams, bytes: stats.received.bytes },
        }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.datagrams == 1 { "" } else { "s" };
        write!(f, "{} bytes in {} datagram{plural}", self.bytes, self.datagrams)
    }
}

impl fmt::Display for HandshakeCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = Duration::from_micros(self.microseconds);
        write!(f, "{:.1} ms", time.as_secs_f64() * 1e3)
    }
}

impl Summary {
    pub(super) fn new(peer: SocketAddr, agreed: &Negotiated, handshake: HandshakeCost) -> Self {
        let is_new = agreed.version == ProtocolVersion::Dtls13;
        let identity = Some(&agreed.psk_identity).filter(|identity| !identity.is_empty());
        Self {
            peer: Named(peer).to_string(),
            version: agreed.version.to_string(),
            cipher_suite: agreed.suite_name,
            group: agreed.group.map(|group| group.to_string()),
            psk_mode: (is_new && identity.is_some())
                .then(|| agreed.psk_mode().to_string().to_lowercase()),
            psk_identity: identity.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            peer_identity: agreed.peer_identity().map(|identity| identity.to_string()),
            server_name: agreed.server_name().map(str::to_owned),
            application_protocol: agreed
                .application_protocol()
                .map(|name| String::from_utf8_lossy(name).escape_debug().to_string()),
            resumed: agreed.resumed,
            early_data: agreed.early_data,
            extended_master_secret: agreed.extended_master,
            record_limit: agreed.record_limit,
            connection_ids: Directions {
                outward: agreed.send_cid.to_string(),
                inward: agreed.receive_cid.to_string(),
            },
            return_routability_check: agreed.return_routability,
            tags: Directions {
                outward: agreed.send.to_string(),
                inward: agreed.receive.to_string(),
            },
            handshake,
        }
    }

    /// The facts in one line.
    pub(super) fn brief(&self) -> String {
        let mut line = format!("{}: {}, {}", self.peer, self.version, self.cipher_suite);
        let resumed = self.resumed.then_some("resumed");
        let early = self.early_data.then_some("early data");
        let parts = [self.group.as_deref(), self.psk_mode.as_deref(), resumed, early];
        for part in parts.into_iter().flatten() {
            line += ", ";
            line += part;
        }
        if let Some(identity) = &self.psk_identity {
            let _ = write!(line, ", identity {identity:?}");
        } else {
            let _ = write!(line, ", {}", self.peer_identity.as_deref().unwrap_or(ANONYMOUS));
        }
        let _ = write!(line, ", {}", self.handshake);
        line + "\n"
    }

    /// The facts, one in each line.
    pub(super) fn full(&self) -> String {
        let mut text = format!("connected to {}\n", self.peer);
        let mut fact = |name: &str, value: &dyn fmt::Display| {
            let value = value.to_string();
            // The hash of a key has a line of less than 80 columns only without the padding.
            let width = if value.len() > 60 { 0 } else { 17 };
            let _ = writeln!(text, "  {name:<width$} {value}");
        };
        fact("version", &self.version);
        fact("cipher suite", &self.cipher_suite);
        fact("group", &self.group.as_deref().unwrap_or("none"));
        if let Some(mode) = &self.psk_mode {
            fact("PSK mode", mode);
        }
        if let Some(identity) = &self.psk_identity {
            fact("PSK identity", &format_args!("{identity:?}"));
        } else {
            fact("peer", &self.peer_identity.as_deref().unwrap_or(ANONYMOUS));
        }
        if let Some(name) = &self.server_name {
            fact("server name", name);
        }
        if let Some(protocol) = &self.application_protocol {
            fact("ALPN", protocol);
        }
        fact("resumed", &yes(self.resumed));
        if self.early_data {
            fact("early data", &"accepted");
        }
        if self.version != "DTLS 1.3" {
            fact("extended master", &yes(self.extended_master_secret));
        }
        let ids = &self.connection_ids;
        let shown = |id: &String| if id.is_empty() { "none".to_owned() } else { id.clone() };
        fact(
            "connection IDs",
            &format_args!("{} out, {} in", shown(&ids.outward), shown(&ids.inward)),
        );
        if self.return_routability_check {
            fact("address changes", &"checked (RFC 9853)");
        }
        fact("record limit", &format_args!("{} bytes", self.record_limit));
        if self.tags.outward != "off" || self.tags.inward != "off" {
            fact(
                "shared tags",
                &format_args!("{} out, {} in", self.tags.outward, self.tags.inward),
            );
        }
        fact("handshake", &self.handshake);
        fact("  sent", &self.handshake.sent);
        fact("  received", &self.handshake.received);
        text
    }
}

/// A peer that did not authenticate itself.
const ANONYMOUS: &str = "anonymous";

const fn yes(fact: bool) -> &'static str {
    if fact { "yes" } else { "no" }
}
