//! Our end of a call: an engine that answers connectivity checks, and passes everything else to our DTLS.

use super::stun;
use crate::driven::Event;
use crate::ours::Ours;
use crate::peers::Role;
use crate::peers::wire::Datagram;
use lightseal_core::{Engine, Instant, Output};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Makes the DTLS end as soon as the browser's address is known.
type Make = Box<dyn FnOnce(SocketAddr, Instant) -> Ours>;

/// The engine.
pub(super) struct Ice {
    password: String,
    make: Option<Make>,
    end: Option<Ours>,
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
    /// The role of the browser in DTLS.
    browser: Role,
    /// The datagrams of DTLS, in both directions.
    pub(super) datagrams: Vec<Datagram>,
    now: Instant,
}

impl Ice {
    pub(super) fn new(password: String, browser: Role, make: Make) -> Self {
        Self {
            password,
            make: Some(make),
            end: None,
            answers: VecDeque::new(),
            browser,
            datagrams: Vec::new(),
            now: Instant::ZERO,
        }
    }

    /// Sends a payload.
    pub(super) fn send(&mut self, now: Instant, payload: &[u8]) -> Result<(), String> {
        let end = self.end.as_mut().ok_or("there is no association")?;
        end.send(now, payload).map_err(|error| error.to_string())
    }
}

fn after(now: Instant) -> Duration {
    now - Instant::ZERO
}

impl Engine for Ice {
    type Event<'a> = Event;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.now = now;
        if stun::is_stun(datagram) {
            let Some(answer) = stun::answer(datagram, from, &self.password) else { return };
            self.answers.push_back((from, answer));
            if let Some(make) = self.make.take() {
                self.end = Some(make(from, now));
            }
        } else if let Some(end) = &mut self.end {
            let (to, bytes) = (self.browser.other(), datagram.to_vec());
            self.datagrams.push(Datagram { after: after(now), to, bytes });
            end.handle_datagram(now, from, datagram);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if let Some(end) = &mut self.end {
            end.handle_timeout(now);
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Event> {
        if let Some((to, answer)) = self.answers.pop_front() {
            buf[..answer.len()].copy_from_slice(&answer);
            return Output::Datagram { to, payload: &buf[..answer.len()] };
        }
        let Some(end) = &mut self.end else { return Output::Idle };
        let output = end.poll_output(buf);
        if let Output::Datagram { payload, .. } = &output {
            let (after, bytes) = (after(self.now), payload.to_vec());
            self.datagrams.push(Datagram { after, to: self.browser, bytes });
        }
        output
    }
}
