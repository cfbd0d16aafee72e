//! The engine between a TAP device and an interface of the LAN: one thread, frames in place.

use super::keys::KeyFile;
use super::numbers::{Fingerprint, NumbersFile};
use super::{MacsecArgs, report};
use crate::failure::{Context, Failure};
use crate::statistics;
use crate::system::{Signal, Signals};
use lightseal_macsec::codepoints::{ETHERTYPE_MACSEC, PORT_END_STATION};
use lightseal_macsec::secy::{MAX_OVERHEAD, ValidateFrames};
use lightseal_macsec::{AssociationNumber, Kind, ProtectError, Sci, Secy, classify};
use lightseal_packet_io::af_packet::{self, PacketPort};
use lightseal_packet_io::tap::TapPort;
use lightseal_packet_io::{
    BATCH, Frame, HEADROOM, Interface, LanPort, Pollable, Pool, PoolSettings, TAILROOM, Waiter,
};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of frames that can wait between the two ports: those of both sockets, and more than a
/// batch in each direction.
const FRAMES: usize = 1024;
/// How long the thread polls for frames before it sleeps. Waking it up takes tens of microseconds.
const SPIN: Duration = Duration::from_micros(50);
/// How often received packet numbers are written to the numbers file.
const NOTE_EVERY: Duration = Duration::from_secs(10);

/// Runs until a signal stops the program.
pub(super) fn run(
    args: &MacsecArgs,
    interface: &str,
    keys: KeyFile,
    numbers: NumbersFile,
) -> Result<(), Failure> {
    let (mut bell, heard) = UnixStream::pair().context("cannot start")?;
    heard.set_nonblocking(true).context("cannot start")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")?.block_on(async {
        // A signal may arrive as soon as the station says that it is there.
        let mut signals = Signals::listen()?;
        let station = Station::open(args, interface, keys, numbers)?;
        let mut work = tokio::task::spawn_blocking(move || station.run(&Requests(heard)));
        loop {
            let signal = tokio::select! {
                done = &mut work => return done.context("the thread ended")?,
                signal = signals.next() => signal,
            };
            let request = match signal {
                Signal::Stop | Signal::Drain => STOP,
                Signal::Statistics => STATISTICS,
                Signal::Reload => continue,
            };
            // If nobody receives the request, the thread has ended already.
            let _ = bell.write_all(&[request]);
        }
    })
}

const STOP: u8 = b'q';
const STATISTICS: u8 = b's';

/// The requests of signals to the thread that carries frames.
struct Requests(UnixStream);

impl Requests {
    fn next(&self) -> Option<u8> {
        let mut request = [0];
        match (&self.0).read(&mut request) {
            Ok(1) => Some(request[0]),
            // The other end is closed, so nobody can ask for an end any more.
            Ok(_) => Some(STOP),
            Err(_) => None,
        }
    }
}

impl Pollable for Requests {
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
        visit(self.0.as_fd());
    }
}

/// A key to send with, and its reserved packet numbers.
struct Sending {
    an: AssociationNumber,
    fingerprint: Fingerprint,
    /// The first packet number that is not reserved.
    reserved: u64,
}

struct Station {
    secy: Secy,
    lan: PacketPort,
    tap: TapPort,
    pool: Pool,
    numbers: NumbersFile,
    /// The keys to send with, in the order of their use. The first one is in use.
    sending: Vec<Sending>,
    receiving: Vec<(Sci, AssociationNumber, Fingerprint)>,
    /// Numbers of frames that were dropped because the LAN interface, and because the TAP device,
    /// had no room for them.
    no_room: [u64; 2],
    overruns: u64,
    stats_file: Option<PathBuf>,
    /// Holds the lock on the key file, so that no other process uses the keys.
    _keys: KeyFile,
}

impl Station {
    fn open(
        args: &MacsecArgs,
        interface: &str,
        mut keys: KeyFile,
        mut numbers: NumbersFile,
    ) -> Result<Self, Failure> {
        let found = Interface::find(interface).map_err(Failure::new)?;
        let port = args.port.unwrap_or(PORT_END_STATION);
        let sci = args.sci.unwrap_or(Sci { address: found.mac, port });
        let settings = args.settings(sci, found.mtu_bytes);
        let mut secy = Secy::new(settings).context(sci)?;
        let (mut sending, mut receiving) = (Vec::new(), Vec::new());
        for entry in keys.entries.drain(..) {
            let fingerprint = entry.fingerprint;
            match entry.peer {
                None => {
                    let unused = entry.first_pn.max(numbers.unused(fingerprint));
                    if unused > args.suite.last_pn() {
                        tracing::warn!("association {}: its packet numbers are used up", entry.an);
                        continue;
                    }
                    let installed = secy.install_transmit_sa(entry.an, entry.key, unused);
                    installed.context("tx")?;
                    sending.push(Sending { an: entry.an, fingerprint, reserved: unused });
                }
                Some(peer) => {
                    if !secy.receive_counters().any(|(known, ..)| known == peer) {
                        secy.add_channel(peer).context(peer)?;
                    }
                    let unseen = entry.first_pn.max(numbers.unseen(peer, fingerprint));
                    let unseen = unseen.min(args.suite.last_pn());
                    let installed = secy.install_receive_sa(peer, entry.an, entry.key, unseen);
                    installed.context(peer)?;
                    receiving.push((peer, entry.an, fingerprint));
                }
            }
        }
        let Some(first) = sending.first_mut() else {
            return Err(Failure::new(
                "all keys have used up their packet numbers; new ones are needed",
            ));
        };
        first.reserved = numbers.reserve(first.fingerprint, first.reserved)?;

        let overhead = MAX_OVERHEAD as u32;
        let mtu = found.mtu_bytes.checked_sub(overhead).ok_or_else(|| {
            Failure::new(format_args!("{interface}: an MTU of {} is too short", found.mtu_bytes))
        })?;
        let room = found.mtu_bytes as usize + 64 + HEADROOM + TAILROOM;
        let frame_bytes = room.next_power_of_two().clamp(2048, 65_536);
        let pool = Pool::new(PoolSettings::new(frame_bytes, FRAMES)).context("frames")?;
        // With strict validation, frames without a tag are discarded. The socket does not even
        // receive them.
        let strict = args.validate == ValidateFrames::Strict;
        let ethertypes = if strict { vec![ETHERTYPE_MACSEC] } else { Vec::new() };
        let lan = af_packet::PacketSocketSettings::for_ethertypes(ethertypes);
        let lan = PacketPort::open(&found, &lan).map_err(Failure::new)?;
        let known = Path::new("/sys/class/net").join(&args.tap);
        if known.exists() && !known.join("tun_flags").exists() {
            let name = &args.tap;
            return Err(Failure::new(format_args!(
                "--tap {name}: this interface exists already and is no TAP device"
            )));
        }
        let tap = TapPort::open_with_mac(&args.tap, sci.address, mtu).map_err(Failure::new)?.0;
        tracing::info!(
            "{} is {sci} on {interface}: {}, MTU {mtu}, {}",
            args.tap,
            args.suite,
            crate::units::counted(secy.receive_counters().count() as u64, "peer")
        );
        Ok(Self {
            secy,
            lan,
            tap,
            pool,
            numbers,
            sending,
            receiving,
            no_room: [0; 2],
            overruns: 0,
            stats_file: args.stats_file.clone(),
            _keys: keys,
        })
    }

    fn run(mut self, requests: &Requests) -> Result<(), Failure> {
        let ended = self.carry(requests);
        // The numbers are saved after a failure too, since the numbers that were used must not be
        // used again.
        if let (Some(first), Some((_, Some(next)))) = (self.sending.first(), self.secy.encoding()) {
            self.numbers.settle(first.fingerprint, next);
        }
        self.note();
        let saved = self.numbers.save();
        let told = self.tell();
        ended.and(saved).and(told)
    }

    fn carry(&mut self, requests: &Requests) -> Result<(), Failure> {
        let mut waiter = Waiter::new(SPIN);
        let (mut arrived, mut ready) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut noted = Instant::now();
        loop {
            let out = self.outwards(&mut arrived, &mut ready)?;
            let inwards = self.inwards(&mut arrived, &mut ready)?;
            if out + inwards > 0 {
                waiter.worked();
            } else {
                let sources: [&dyn Pollable; 3] = [&self.tap, &self.lan, requests];
                waiter.wait(&sources, Some(NOTE_EVERY)).context("cannot wait for frames")?;
            }
            match requests.next() {
                Some(STOP) => return Ok(()),
                Some(STATISTICS) => self.tell()?,
                _ => {}
            }
            if noted.elapsed() >= NOTE_EVERY {
                noted = Instant::now();
                if self.note() {
                    self.numbers.save()?;
                }
            }
        }
    }

    /// Protects the frames that arrive from the TAP device, and returns their number.
    fn outwards(
        &mut self,
        arrived: &mut Vec<Frame>,
        ready: &mut Vec<Frame>,
    ) -> Result<usize, Failure> {
        let count = self.tap.receive(&mut self.pool, arrived).context("the TAP device")?;
        for mut frame in arrived.drain(..) {
            self.reserve()?;
            let secy = &mut self.secy;
            let mut sent = self.pool.with(&mut frame, |packet| secy.protect(packet));
            if sent == Err(ProtectError::Exhausted) && self.next_key()? {
                let secy = &mut self.secy;
                sent = self.pool.with(&mut frame, |packet| secy.protect(packet));
            }
            match sent {
                Ok(_) => ready.push(frame),
                // The engine has counted this frame.
                Err(_) => self.pool.release(frame),
            }
        }
        if !ready.is_empty() {
            self.lan.transmit(&mut self.pool, ready).context("the interface")?;
            self.no_room[0] += ready.len() as u64;
            self.pool.release_all(ready.drain(..));
        }
        Ok(count)
    }

    /// Validates the frames that arrive from the LAN, and returns their number.
    fn inwards(
        &mut self,
        arrived: &mut Vec<Frame>,
        ready: &mut Vec<Frame>,
    ) -> Result<usize, Failure> {
        let count = self.lan.receive(&mut self.pool, arrived).context("the interface")?;
        for mut frame in arrived.drain(..) {
            // Frames of port authentication bypass MACsec: programs receive them from the interface
            // itself.
            let around = matches!(classify(self.pool.bytes(&frame)), Kind::Mka | Kind::Eapol);
            let secy = &mut self.secy;
            if !around && self.pool.with(&mut frame, |packet| secy.receive(packet)).is_ok() {
                ready.push(frame);
            } else {
                self.pool.release(frame);
            }
        }
        if !ready.is_empty() {
            self.tap.transmit(&mut self.pool, ready).context("the TAP device")?;
            self.no_room[1] += ready.len() as u64;
            self.pool.release_all(ready.drain(..));
        }
        Ok(count)
    }

    /// Makes sure that the next packet number is reserved before it is used.
    fn reserve(&mut self) -> Result<(), Failure> {
        let Some(sending) = self.sending.first_mut() else { return Ok(()) };
        if let Some((_, Some(next))) = self.secy.encoding()
            && next >= sending.reserved
        {
            sending.reserved = self.numbers.reserve(sending.fingerprint, next)?;
        }
        Ok(())
    }

    /// Changes to the next key, and returns whether there is one.
    fn next_key(&mut self) -> Result<bool, Failure> {
        let Some(spent) = self.sending.first() else { return Ok(false) };
        let spent_an = spent.an;
        // All numbers of the old key are reserved, so that the file says that none is left.
        self.numbers.reserve(spent.fingerprint, u64::MAX)?;
        self.sending.remove(0);
        self.secy.retire_transmit_sa(spent_an);
        let Some(next) = self.sending.first_mut() else {
            tracing::error!(
                "association {spent_an}: packet numbers are used up, and there is no other key"
            );
            return Ok(false);
        };
        next.reserved = self.numbers.reserve(next.fingerprint, next.reserved)?;
        tracing::warn!(
            "association {spent_an}: packet numbers are used up; sending with {}",
            next.an
        );
        self.secy.select_encoding_sa(next.an).context("tx")?;
        Ok(true)
    }

    /// Remembers what was received, and returns whether it is more than before.
    fn note(&mut self) -> bool {
        let mut more = false;
        for &(peer, an, fingerprint) in &self.receiving {
            if let Some((_, next)) = self.secy.receive_numbers(peer, an) {
                more |= self.numbers.note(peer, fingerprint, next);
            }
        }
        more
    }

    fn tell(&mut self) -> Result<(), Failure> {
        let (lan, tap) = (self.lan.statistics(), self.tap.statistics());
        self.secy.count_overruns(lan.overruns - self.overruns);
        self.overruns = lan.overruns;
        let report = report::report(&self.secy, &lan, &tap, self.no_room);
        statistics::write(self.stats_file.as_deref(), &report)
    }
}
