//! Two engines that write ahead, whose processes end at any point, over a network that loses
//! datagrams and stores whose writes take time.
//!
//! A point at which a process may end comes before and after each datagram sent or received, each
//! payload delivered, and each write that begins, lands or is confirmed. A world counts its points, so
//! that a run is repeated with an end at each of them. Virtual time, one seed and the list of ends
//! determine everything. The judge fails when
//! - an end seals two records under one number of one epoch;
//! - a payload is delivered twice, or one that nobody sent;
//! - a genuine record counts as a forgery of shared tags;
//! - the ends need another handshake although both had saved the association;
//! - they do not exchange payloads in the end.

mod observer;
mod observer12;
mod outcome;

pub use outcome::{Fault, Plan, Report, Wrong};

use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::{
    ClientConfig, Endpoint, Event, Handle, Marks, SaveError, SavedAssociation, Scheme,
    ServerConfig, Settings,
};
use lightseal_net::delay_line::DelayLine;
use observer::Observer;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::pair::{Configs, client_address, server_address};
use observer::Secrets;

/// The client and the server.
pub const ENDS: [usize; 2] = [0, 1];
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Reads the key logs of both ends, so that an observer can read their datagrams.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Secrets>);

impl Watch {
    /// The settings of an end that writes ahead and is watched.
    pub fn watch(&self, settings: &mut Settings) {
        settings.write_ahead = true;
        settings.key_log = Some(self.0.clone());
    }
}

/// A write on its way to the store.
struct Write {
    saved: SavedAssociation,
    handle: Handle,
    lands: Instant,
    answered: Instant,
    landed: bool,
}

/// One end: its process, if it runs, and its store.
struct End {
    engine: Option<Endpoint>,
    handle: Option<Handle>,
    /// The association that the store has, or is about to have.
    row: Option<Handle>,
    durable: Option<(Marks, Vec<u8>)>,
    writes: VecDeque<Write>,
    starts_at: Option<Instant>,
    received: BTreeSet<u64>,
    sent: BTreeSet<u64>,
    /// Whether the process has ever ended with nothing saved.
    was_bare: bool,
    /// Whether the process has asked for another aggregation scheme that the peer does not use yet.
    asks: bool,
}

struct Packet {
    to: SocketAddr,
    from: SocketAddr,
    datagram: Vec<u8>,
}

/// What an engine has given out.
enum Given {
    Datagram(SocketAddr, Vec<u8>),
    Save(Handle, SavedAssociation),
    Data(Vec<u8>),
    Connected(Handle),
    Closed,
    Changed,
    Other,
    Rests(Option<Instant>),
}

/// Two ends, their stores and the network.
pub struct World {
    plan: Plan,
    now: Instant,
    rng: Random,
    configs: (Arc<ClientConfig>, Arc<ServerConfig>),
    /// Where the client is reached.
    client_at: SocketAddr,
    ends: [End; 2],
    network: DelayLine<Packet>,
    observer: Observer,
    report: Report,
    next_payload: u64,
    calm: bool,
    /// The first record that counted as forged at an end whose process has ended.
    forged: Option<Wrong>,
}

impl World {
    /// A world whose client has begun to connect.
    pub fn new(mut configs: Configs, plan: Plan) -> Self {
        let watch = Watch::default();
        for settings in [&mut configs.client.settings, &mut configs.server.settings] {
            watch.watch(settings);
        }
        Self::between(&watch, configs.client.config(), configs.server.config(), plan)
    }

    /// As [`Self::new`], with configurations that `watch` has made ready. They choose one version and
    /// one cipher suite with SHA-256.
    pub fn between(
        watch: &Watch,
        client: Arc<ClientConfig>,
        server: Arc<ServerConfig>,
        plan: Plan,
    ) -> Self {
        let cid_len = match server.settings().connection_ids {
            lightseal_dtls::ConnectionIds::Bytes(len) => len.into(),
            _ => 0,
        };
        let observer = Observer::new(&watch.0, client.settings(), cid_len);
        let end = || End {
            engine: None,
            handle: None,
            row: None,
            durable: None,
            writes: VecDeque::new(),
            starts_at: Some(Instant::from_micros(1_000_000)),
            received: BTreeSet::new(),
            sent: BTreeSet::new(),
            was_bare: false,
            asks: false,
        };
        Self {
            now: Instant::from_micros(1_000_000),
            rng: Random::insecure(plan.seed),
            plan,
            client_at: client_address(),
            configs: (client, server),
            ends: [end(), end()],
            network: DelayLine::new(),
            observer,
            report: Report::default(),
            next_payload: 0,
            calm: false,
            forged: None,
        }
    }

    /// Runs the plan to its end.
    ///
    /// # Errors
    /// Returns what the judge found wrong.
    pub fn run(mut self) -> Result<Report, Wrong> {
        self.play().map_err(|Wrong { fault, what }| {
            let Self { now, report, plan, .. } = &self;
            Wrong::new(fault, format!("{what}\nat {now:?} after {report:?}\nin {plan:?}"))
        })?;
        self.report.records = self.observer.records;
        Ok(self.report)
    }

    fn play(&mut self) -> Result<(), Wrong> {
        self.run_for(Duration::from_millis(500))?;
        for _ in 0..self.plan.actions {
            self.act()?;
            let pause = [0, 3, 40, 300, 1500, 30_000][self.rng.below(6) as usize];
            self.run_for(Duration::from_millis(pause))?;
        }
        // The faults end, and both processes run.
        self.calm = true;
        self.run_for(Duration::from_secs(120))?;
        for end in ENDS {
            self.echo(end)?;
            self.judge_forgeries(end)?;
        }
        if let Some(forged) = self.forged.take() {
            return Err(forged);
        }
        let bare = self.ends.iter().any(|end| end.was_bare);
        if self.report.handshakes != 1 && !bare {
            let handshakes = format!("{} handshakes", self.report.handshakes);
            return Err(Wrong::new(Fault::Handshake, handshakes));
        }
        let sent: u64 = self.ends.iter().map(|end| end.sent.len() as u64).sum();
        self.report.lost = sent - self.report.delivered;
        Ok(())
    }

    /// Nobody forges records here.
    fn judge_forgeries(&self, end: usize) -> Result<(), Wrong> {
        let counted = self.ends[end].engine.as_ref().map(Endpoint::totals).unwrap_or_default();
        match counted.received.forged + counted.received.refuted {
            0 => Ok(()),
            forged => {
                let what = format!("{forged} records count as forged at {end}: {counted:?}");
                Err(Wrong::new(Fault::Forgery, what))
            }
        }
    }

    /// Payloads of an end arrive again: in DTLS 1.2 after those that were given up.
    fn echo(&mut self, end: usize) -> Result<(), Wrong> {
        let peer = 1 - end;
        let mut rounds = 0;
        while rounds < 400 {
            rounds += u32::from(self.ends.iter().all(|end| end.engine.is_some()));
            // A server that has forgotten where the client is hears it first.
            if end == SERVER && self.plan.moves {
                self.send(CLIENT)?;
            }
            let id = self.send(end)?;
            self.run_for(Duration::from_millis(500))?;
            if id.is_some_and(|id| self.ends[peer].received.contains(&id)) {
                return Ok(());
            }
        }
        let counted = self.ends[peer].engine.as_ref().map(Endpoint::totals);
        let silence = format!("what {end} sends is not delivered: {counted:?}");
        Err(Wrong::new(Fault::Silence, silence))
    }

    fn act(&mut self) -> Result<(), Wrong> {
        let end = self.rng.below(2) as usize;
        let now = self.now;
        let schemes = self.schemes(end);
        let actions = match (self.plan.moves, schemes.is_empty()) {
            (_, false) => 14,
            (true, true) => 12,
            (false, true) => 11,
        };
        match self.rng.below(actions) {
            10 if !self.plan.stops => return Ok(()),
            11 if !self.plan.moves => return Ok(()),
            0..=5 => {
                for _ in 0..=self.rng.below(3) {
                    self.send(end)?;
                }
                return Ok(());
            }
            6 => {
                // A burst needs more numbers than are reserved at first.
                for _ in 0..40 {
                    self.send(end)?;
                }
                return Ok(());
            }
            10 => return self.stop(end),
            11 => {
                // A NAT forgets the client, and gives it another port. A handshake does not survive that.
                if self.ends.iter().any(|end| end.durable.is_none()) {
                    return Ok(());
                }
                self.client_at.set_port(self.client_at.port().wrapping_add(1).max(1024));
                return Ok(());
            }
            action => {
                let scheme = self.rng.below(schemes.len().max(1) as u64) as usize;
                let end = &mut self.ends[end];
                let connection =
                    end.engine.as_mut().zip(end.handle).and_then(|(e, h)| e.connection_mut(h));
                if let Some(mut connection) = connection {
                    match action {
                        7 => connection.update_keys(now),
                        8 => connection.rotate_connection_id(now),
                        9 => connection.request_connection_ids(now, 2),
                        // An end whose handshake is not complete has nothing to request.
                        _ => {
                            let asked = connection.request_aggregation(now, schemes[scheme]);
                            end.asks = asked.is_ok();
                        }
                    }
                }
            }
        }
        self.poll(end)
    }

    /// The schemes that an end may request of its peer.
    fn schemes(&self, end: usize) -> Vec<Scheme> {
        let (client, server) = &self.configs;
        let accepted = match end {
            CLIENT => &client.settings().aggregation.receive,
            _ => &server.settings().aggregation.receive,
        };
        let plain = Some(Scheme::Plain).filter(|_| !accepted.is_empty());
        accepted.iter().copied().chain(plain).collect()
    }

    /// Sends a payload that nobody has sent before; returns its number.
    fn send(&mut self, end: usize) -> Result<Option<u64>, Wrong> {
        let (id, now) = (self.next_payload, self.now);
        let room = if self.rng.below(2) == 0 { 0 } else { 1500 };
        let mut buf = [0; 1500];
        let End { engine, handle, .. } = &mut self.ends[end];
        let sent = match engine.as_mut().zip(*handle).and_then(|(e, h)| e.connection_mut(h)) {
            Some(mut connection) => connection.send(now, &id.to_be_bytes(), &mut buf[..room]),
            None => return Ok(None),
        };
        let Ok(sent) = sent else { return Ok(None) };
        self.next_payload += 1;
        self.ends[end].sent.insert(id);
        if let lightseal_core::Sent::Datagram { len, to } = sent {
            self.transmit(end, to.peer, &buf[..len])?;
        }
        self.poll(end)?;
        Ok(Some(id))
    }

    /// A point of an end: returns whether its process ends here.
    fn point(&mut self, end: usize) -> bool {
        let at = self.report.points;
        self.report.points += 1;
        let ends = self.plan.kills.binary_search(&at).is_ok();
        if ends {
            self.kill(end);
        }
        ends
    }

    /// The process of an end is gone. The first ones of the writes on their way still land.
    pub fn kill(&mut self, end: usize) {
        self.report.kills += 1;
        if let Err(wrong) = self.judge_forgeries(end) {
            self.forged.get_or_insert(wrong);
        }
        self.report.kills_in_changes += u64::from(self.ends.iter().any(|end| end.asks));
        self.ends[end].asks = false;
        let this = &mut self.ends[end];
        (this.engine, this.handle) = (None, None);
        let mut writes = core::mem::take(&mut this.writes);
        writes.retain(|write| !write.landed);
        let landing = self.rng.below(writes.len() as u64 + 1);
        for write in writes.into_iter().take(landing as usize) {
            self.land(end, &write.saved);
        }
        let this = &mut self.ends[end];
        this.was_bare |= this.durable.is_none();
        let pause = [1, 20, 700, 5000, 90_000][self.rng.below(5) as usize];
        this.starts_at = Some(self.now + Duration::from_millis(pause));
    }

    /// The process of an end is stopped: it sends what waits, writes everything, saves its association
    /// if nothing is under way, and ends.
    fn stop(&mut self, end: usize) -> Result<(), Wrong> {
        let Some(mut saved) = self.save(end) else { return Ok(()) };
        if saved == Err(SaveError::Busy) {
            self.poll(end)?;
            let Some(again) = self.save(end) else { return Ok(()) };
            saved = again;
        }
        for write in core::mem::take(&mut self.ends[end].writes) {
            if !write.landed {
                self.land(end, &write.saved);
            }
        }
        if let Ok(saved) = saved {
            self.land(end, &saved);
            self.report.saved += 1;
        }
        self.kill(end);
        Ok(())
    }

    fn save(&mut self, end: usize) -> Option<Result<SavedAssociation, SaveError>> {
        let End { engine, handle, .. } = &mut self.ends[end];
        engine.as_mut()?.save(self.now, (*handle)?)
    }

    /// A store accepts a write if it has the one before.
    fn land(&mut self, end: usize, saved: &SavedAssociation) {
        let durable = &mut self.ends[end].durable;
        let state = match (saved.state(), &*durable) {
            (Some(state), _) => state.to_vec(),
            (None, Some((_, state))) => state.clone(),
            (None, None) => panic!("the first write has everything"),
        };
        if let Some((before, _)) = durable {
            // The first write of a new handshake replaces the row of the old one.
            let fits = saved.marks.version == before.version + 1 || saved.marks.version == 1;
            assert!(fits, "version {} after {}", saved.marks.version, before.version);
        }
        *durable = Some((saved.marks, state));
        self.report.writes += 1;
    }

    /// A process begins, with what its store has.
    fn start(&mut self, end: usize) -> Result<(), Wrong> {
        let (client, server) = self.configs.clone();
        let seed = self.rng.fork();
        let mut engine = match end {
            CLIENT => Endpoint::client(client.settings().clone(), seed).expect("valid settings"),
            _ => Endpoint::server(server, seed),
        };
        let durable = self.ends[end].durable.clone();
        let handle = match durable {
            Some((marks, state)) => {
                let saved = SavedAssociation::new(marks, state);
                let restored = match end {
                    CLIENT => engine.restore_client(self.now, client, &saved),
                    _ => engine.restore(self.now, &saved),
                };
                self.report.restored += 1;
                let wrong = |error| format!("{end} restores: {error}");
                Some(restored.map_err(|error| Wrong::new(Fault::Handshake, wrong(error)))?)
            }
            None if end == CLIENT => {
                let handle = engine.connect(self.now, client, server_address());
                Some(handle.map_err(|error| Wrong::new(Fault::Other, error.to_string()))?)
            }
            None => None,
        };
        let this = &mut self.ends[end];
        (this.engine, this.handle, this.starts_at) = (Some(engine), handle, None);
        this.row = handle.filter(|_| this.durable.is_some());
        self.poll(end)
    }

    fn transmit(&mut self, end: usize, to: SocketAddr, datagram: &[u8]) -> Result<(), Wrong> {
        if self.point(end) {
            return Ok(());
        }
        self.observer.sent(end, datagram, self.next_payload)?;
        let mut copies = 1;
        if self.plan.faults && !self.calm {
            copies = [1, 1, 1, 1, 1, 1, 0, 2][self.rng.below(8) as usize];
        }
        for _ in 0..copies {
            let jitter = if self.plan.faults { self.rng.below(15) } else { 0 };
            let from = if end == CLIENT { self.client_at } else { server_address() };
            let packet = Packet { to, from, datagram: datagram.to_vec() };
            self.network.push(self.now + Duration::from_millis(5 + jitter), packet);
        }
        self.point(end);
        Ok(())
    }

    /// Takes what an engine gives out.
    fn poll(&mut self, end: usize) -> Result<(), Wrong> {
        loop {
            match self.next_given(end) {
                None | Some(Given::Rests(_)) => return Ok(()),
                Some(Given::Datagram(to, datagram)) => self.transmit(end, to, &datagram)?,
                Some(Given::Save(handle, saved)) => {
                    if self.point(end) {
                        return Ok(());
                    }
                    // A newer handshake takes the row. The older association, of which the client knows
                    // nothing any more, is forgotten: its writes find no row.
                    let this = &mut self.ends[end];
                    if saved.marks.version == 1 && this.row.is_none_or(|row| row < handle) {
                        this.row = Some(handle);
                    } else if this.row != Some(handle) {
                        if let Some(engine) = &mut this.engine {
                            engine.forget(handle);
                        }
                        continue;
                    }
                    let delay = |rng: &mut Random| Duration::from_millis(1 + rng.below(8));
                    let outage = if self.plan.faults && self.rng.below(40) == 0 { 3000 } else { 0 };
                    let lands = self.now + delay(&mut self.rng) + Duration::from_millis(outage);
                    let answered = lands + delay(&mut self.rng);
                    let write = Write { saved, handle, lands, answered, landed: false };
                    self.ends[end].writes.push_back(write);
                }
                Some(Given::Data(data)) => {
                    if self.point(end) {
                        return Ok(());
                    }
                    let wrong = |what: String| Wrong::new(Fault::Payload, what);
                    let id = data.try_into().map(u64::from_be_bytes);
                    let id = id.map_err(|data| wrong(format!("payload {data:?} was not sent")))?;
                    if !self.ends[1 - end].sent.contains(&id) {
                        return Err(wrong(format!("payload {id} was not sent")));
                    }
                    if !self.ends[end].received.insert(id) {
                        return Err(wrong(format!("payload {id} was delivered twice")));
                    }
                    self.report.delivered += 1;
                    self.point(end);
                }
                Some(Given::Connected(handle)) => {
                    self.ends[end].handle = Some(handle);
                    self.report.handshakes += u64::from(end == CLIENT);
                }
                Some(Given::Closed) => {
                    if end == CLIENT {
                        // A new handshake: whoever had saved the old association has lost it. Without
                        // the ACK of its Finished a client has saved nothing.
                        self.ends[end].was_bare |= self.ends[end].durable.is_none();
                        self.ends[end].durable = None;
                        self.ends[end].engine = None;
                        self.ends[end].writes.clear();
                        return self.start(end);
                    }
                }
                Some(Given::Changed) => {
                    self.report.changes += 1;
                    self.ends[end].asks = false;
                }
                Some(Given::Other) => {}
            }
        }
    }

    fn next_given(&mut self, end: usize) -> Option<Given> {
        let this = &mut self.ends[end];
        let mut buf = [0; 2048];
        Some(match this.engine.as_mut()?.poll_output(&mut buf) {
            Output::Datagram { to, payload } => Given::Datagram(to, payload.to_vec()),
            Output::Event(event) => match event.event {
                Event::Save(saved) => Given::Save(event.handle, *saved),
                Event::Data(data) | Event::Provisional { data, .. } => Given::Data(data.to_vec()),
                Event::Connected(_) => Given::Connected(event.handle),
                Event::AggregationChanged { .. } => Given::Changed,
                Event::Closed(_) if this.handle == Some(event.handle) => {
                    this.handle = None;
                    Given::Closed
                }
                _ => Given::Other,
            },
            Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
            Output::WakeAt(at) => Given::Rests(Some(at)),
            Output::Idle => Given::Rests(None),
        })
    }

    /// The next thing that happens at an end: when, and what.
    fn next_of(&mut self, end: usize) -> Option<Instant> {
        let wake = match self.next_given(end) {
            Some(Given::Rests(at)) => at,
            Some(_) => unreachable!("the engine was polled until it rested"),
            None => None,
        };
        let this = &self.ends[end];
        let write = this.writes.front().map(|w| if w.landed { w.answered } else { w.lands });
        wake.into_iter().chain(write).chain(this.starts_at).min()
    }

    /// Lets virtual time pass.
    ///
    /// # Errors
    /// Returns what the judge found wrong.
    pub fn run_for(&mut self, duration: Duration) -> Result<(), Wrong> {
        let until = self.now + duration;
        for _ in 0..2_000_000 {
            let due = ENDS.map(|end| self.next_of(end));
            let next = due.into_iter().flatten().chain(self.network.next_due()).min();
            let Some(next) = next.filter(|at| *at <= until) else {
                self.now = until;
                return Ok(());
            };
            self.now = self.now.max(next);
            if let Some((_, Packet { to, from, mut datagram })) = self.network.pop_due(self.now) {
                let to = match to {
                    to if to == server_address() => SERVER,
                    to if to == self.client_at => CLIENT,
                    // The client was there once.
                    _ => continue,
                };
                if self.ends[to].engine.is_none() || self.point(to) {
                    continue;
                }
                let now = self.now;
                if let Some(engine) = &mut self.ends[to].engine {
                    engine.handle_datagram(now, from, &mut datagram);
                }
                if !self.point(to) {
                    self.poll(to)?;
                }
                continue;
            }
            for end in ENDS {
                self.pass(end)?;
            }
        }
        Err(Wrong::new(Fault::Other, "the ends never rest"))
    }

    /// What is due at an end happens.
    fn pass(&mut self, end: usize) -> Result<(), Wrong> {
        let now = self.now;
        if self.ends[end].starts_at.is_some_and(|at| at <= now) {
            return self.start(end);
        }
        if let Some(write) = self.ends[end].writes.front_mut() {
            if !write.landed && write.lands <= now {
                write.landed = true;
                let saved = write.saved.clone();
                if self.point(end) {
                    return Ok(());
                }
                self.land(end, &saved);
                if self.point(end) {
                    return Ok(());
                }
            } else if write.landed && write.answered <= now {
                let (handle, version) = (write.handle, write.saved.marks.version);
                self.ends[end].writes.pop_front();
                if let Some(engine) = &mut self.ends[end].engine {
                    engine.saved(now, handle, version);
                }
                if self.point(end) {
                    return Ok(());
                }
            }
        }
        if let Some(engine) = &mut self.ends[end].engine {
            engine.handle_timeout(now);
        }
        self.poll(end)
    }

    /// Ends the process of an end this often while nobody sends anything, and lets it begin again.
    ///
    /// # Errors
    /// Returns what the judge found wrong.
    pub fn restart_often(mut self, end: usize, times: u32) -> Result<Report, Wrong> {
        self.run_for(Duration::from_secs(5))?;
        for _ in 0..times {
            self.kill(end);
            self.run_for(Duration::from_secs(120))?;
        }
        self.run()
    }

    /// The server's association as its store has it, and what the client's store has.
    pub fn stored(&self) -> [Option<&(Marks, Vec<u8>)>; 2] {
        [CLIENT, SERVER].map(|end| self.ends[end].durable.as_ref())
    }
}
