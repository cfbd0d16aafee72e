//! Early data: what the client sends in its first flight, under the key of a ticket (RFC 8446,
//! sections 2.3 and 4.2.10; RFC 9147, section 5.6).

use super::hello_decision::AcceptedHello;
use super::negotiated_extensions::AcceptedExtensions;
use super::{log_line, log_secret};
use crate::config::{ServerConfig, Settings};
use crate::crypto::{CipherSuite, EarlySecret, ExporterSecret, HashValue, TrafficSecret};
use crate::handshake::resumption::OpenedTicket;
use crate::parts;
use crate::tuning::EARLY_DATA_WINDOW;
use alloc::vec::Vec;

/// The keys of early data.
#[derive(Debug)]
pub(crate) struct EarlyKeys {
    pub(crate) part: parts::EarlyData,
    pub(crate) suite: &'static CipherSuite,
    pub(crate) secret: TrafficSecret,
    pub(crate) exporter: ExporterSecret,
    /// The largest number of bytes of early data.
    pub(crate) most: u32,
}

impl EarlyKeys {
    /// The keys after the ClientHello with which the transcript `hash` ends.
    pub(crate) fn new(
        part: parts::EarlyData,
        suite: &'static CipherSuite,
        early: &EarlySecret,
        hash: &HashValue,
        most: u32,
        log: (&Settings, &[u8; 32]),
    ) -> Self {
        let secret = early.client_early_traffic(hash);
        let exporter = early.early_exporter(hash);
        let (settings, client_random) = log;
        log_secret(settings, "CLIENT_EARLY_TRAFFIC_SECRET", client_random, &secret);
        log_line(settings, "EARLY_EXPORTER_SECRET", client_random, exporter.as_bytes());
        Self { part, suite, secret, exporter, most }
    }
}

/// The number of bytes of early data that a server accepts with this ticket; `None` if it accepts
/// none. The hello must be the first one and fresh, and must not be a repetition (RFC 8446, section
/// 8): a ticket that serves once sees to that in one endpoint.
pub(crate) fn accepts(
    config: &ServerConfig,
    accepted: &AcceptedHello<'_>,
    answer: &AcceptedExtensions,
    ticket: &OpenedTicket,
) -> Option<(parts::EarlyData, u32)> {
    let part = parts::EarlyData::INCLUDED?;
    let settings = &config.settings;
    let most = settings.early_data.min(ticket.content.max_early_data);
    // RFC 8446, section 4.2.10: suite and application protocol are those of the ticket.
    let protocol = answer.agreed.application_protocol(settings);
    let fits = accepted.offers_early_data
        && accepted.cookie.is_none()
        && most > 0
        && !settings.reusable_tickets
        && ticket.index == 0
        && ticket.content.agreed.suite == accepted.suite.id
        && ticket.content.agreed.alpn == protocol.get().map_or(&[][..], Vec::as_slice)
        && ticket.age_difference <= EARLY_DATA_WINDOW;
    fits.then_some((part, most))
}
