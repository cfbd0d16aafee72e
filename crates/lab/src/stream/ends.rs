//! The two ends of an association.

use super::{Direction, Link, Stream};
use crate::Error;
use core::net::SocketAddr;
use core::time::Duration;
use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::crypto::rustcrypto;
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, Connection, Endpoint, Event, Psk, RecordNumbers, Scheme,
    ServerConfig, Settings,
};
use std::sync::Arc;

/// Something that an end did.
pub(super) enum EndEvent<'a> {
    /// An end sent a datagram.
    Sent(Direction, &'a [u8]),
    /// The receiver's application got a payload, verified or not.
    Delivered(&'a [u8]),
    /// The tags of the sender's records changed to another scheme.
    Changed(Scheme),
}

/// A client that sends messages and a server that receives them.
pub(super) struct Ends {
    sender: Connection,
    receiver: Endpoint,
    /// When the first message was sent.
    start: Instant,
    now: Instant,
    connected: bool,
    buf: Vec<u8>,
}

/// A duration longer than any experiment. Incomplete sets of records are completed by further
/// records, and never by a timeout.
const NEVER: Duration = Duration::from_secs(100 * 86_400);

pub(super) fn address(direction: Direction) -> SocketAddr {
    match direction {
        Direction::ToReceiver => ([192, 0, 2, 1], 40_000).into(),
        Direction::ToSender => ([192, 0, 2, 2], 5684).into(),
    }
}

impl Ends {
    /// Connects the ends over the link, before it loses anything.
    pub(super) fn connect(stream: &Stream, link: &mut dyn Link) -> Result<Self, Error> {
        let psk = Psk::external(b"lab", &[0x1a; 32]).expect("valid lengths");
        let settings = settings(stream);
        let client = ClientConfig::with(psk.clone(), settings.clone()).map_err(Error::Engine)?;
        let server = ServerConfig::with(Arc::new(psk), settings).map_err(Error::Engine)?;
        let mut random = Random::insecure(stream.seed);
        let start = Instant::from_micros(1_000_000);
        let sender = Connection::client(
            Arc::new(client),
            address(Direction::ToSender),
            start,
            random.fork(),
        );
        let receiver = Endpoint::server(Arc::new(server), random.fork());
        let mut ends =
            Self { sender, receiver, start, now: start, connected: false, buf: vec![0; 2048] };
        ends.settle(link, true, |_, _| {})?;
        if !ends.connected {
            return Err(Error::Stream("the ends did not connect"));
        }
        link.begin();
        Ok(ends)
    }

    /// The two engines, and the current time.
    pub(super) fn into_parts(self) -> (Connection, Endpoint, Instant) {
        (self.sender, self.receiver, self.now)
    }

    /// The scheme of the sender's records.
    pub(super) fn scheme(&self) -> Scheme {
        self.sender.negotiated().map_or(Scheme::Plain, |negotiated| negotiated.send)
    }

    /// Gives a payload to the sender.
    pub(super) fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        let sent = self.sender.send(self.now, payload, &mut []);
        sent.map(drop).map_err(|_| Error::Stream("the association ended early"))
    }

    /// Lets virtual time pass until `until` after the first message, and handles the timers that
    /// expire.
    pub(super) fn pass_time(
        &mut self,
        link: &mut dyn Link,
        until: Duration,
        mut report: impl FnMut(EndEvent<'_>, Duration),
    ) -> Result<(), Error> {
        let until = self.start + until;
        // Asking the engines for their wake-up times is enough, because events between two messages
        // are rare.
        while let Some(wake) = self.settle(link, true, &mut report)?.filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            self.sender.handle_timeout(self.now);
            self.receiver.handle_timeout(self.now);
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// Carries datagrams until no end has output. The ends receive datagrams only if `receive` is
    /// set. Returns the earlier of their wake-up times.
    pub(super) fn settle(
        &mut self,
        link: &mut dyn Link,
        receive: bool,
        mut report: impl FnMut(EndEvent<'_>, Duration),
    ) -> Result<Option<Instant>, Error> {
        loop {
            let at = self.now.saturating_since(self.start);
            let there = loop {
                match self.sender.poll_output(&mut self.buf) {
                    Output::Datagram { payload, .. } => {
                        report(EndEvent::Sent(Direction::ToReceiver, payload), at);
                        link.send(at, Direction::ToReceiver, payload)?;
                    }
                    Output::Event(Event::AggregationChanged { send, .. }) => {
                        report(EndEvent::Changed(send), at);
                    }
                    Output::Event(_) => {}
                    Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                    Output::WakeAt(wake) => break Some(wake),
                    Output::Idle => break None,
                }
            };
            let back = loop {
                match self.receiver.poll_output(&mut self.buf) {
                    Output::Datagram { payload, .. } => {
                        report(EndEvent::Sent(Direction::ToSender, payload), at);
                        link.send(at, Direction::ToSender, payload)?;
                    }
                    Output::Event(event) => match event.event {
                        Event::Connected(_) => self.connected = true,
                        Event::Data(data) | Event::Provisional { data, .. } => {
                            report(EndEvent::Delivered(data), at);
                        }
                        _ => {}
                    },
                    Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                    Output::WakeAt(wake) => break Some(wake),
                    Output::Idle => break None,
                }
            };
            if !receive {
                return Ok(None);
            }
            // One datagram at a time: its payloads are taken at once, so that no buffer fills up.
            let Some((direction, len)) = link.receive(&mut self.buf)? else {
                return Ok(there.into_iter().chain(back).min());
            };
            let datagram = &mut self.buf[..len];
            match direction {
                Direction::ToReceiver => {
                    self.receiver.handle_datagram(self.now, address(direction), datagram);
                }
                Direction::ToSender => {
                    self.sender.handle_datagram(self.now, address(direction), datagram);
                }
            }
        }
    }

    /// Ends the association. Records whose tags are not complete get a closing tag.
    pub(super) fn close(
        &mut self,
        link: &mut dyn Link,
        report: impl FnMut(EndEvent<'_>, Duration),
    ) -> Result<(), Error> {
        self.sender.close(self.now);
        self.settle(link, true, report).map(drop)
    }
}

fn settings(stream: &Stream) -> Settings {
    let mut settings = Settings::new(&rustcrypto::PROVIDER);
    settings.suites = vec![CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256];
    settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
    if let Some(adapt) = stream.adapt {
        settings.aggregation = AggregationPolicy::family(adapt.family);
        settings.adapt = stream.adapt;
    } else if stream.scheme.aggregates() {
        settings.aggregation = AggregationPolicy::both(stream.scheme);
    }
    settings.delivery = stream.delivery;
    settings.record_numbers = RecordNumbers::Short;
    settings.max_wait = Some(NEVER);
    settings
}
