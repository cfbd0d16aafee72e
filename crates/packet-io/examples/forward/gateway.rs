//! Gateways that put a header before each frame, or forward frames unchanged.

use crate::hosts::processor_time;
use lightseal_packet_io::af_packet::{self, PacketPort};
use lightseal_packet_io::udp::{self, UdpUnderlay};
use lightseal_packet_io::xdp::{self, Attachment, Mode, XdpLan, XdpUnderlay};
use lightseal_packet_io::{
    Datagram, Frame, Interface, LanPort, Pool, PoolSettings, Underlay, Waiter,
};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of bytes that the scheme `sealed` adds before and after a frame.
const OVERHEAD: usize = 30;

#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) tunnel: bool,
    pub(crate) xdp: bool,
    pub(crate) bytes: Vec<usize>,
    pub(crate) seconds: u64,
    pub(crate) window: u64,
    spin: Duration,
    udp_segmentation: bool,
    bypass: bool,
    six: bool,
    pub(crate) pin: bool,
    pub(crate) second: usize,
    mode: Mode,
    busy: Option<Duration>,
}

impl Options {
    pub(crate) fn from_arguments() -> Self {
        let mut options = Self {
            tunnel: false,
            xdp: false,
            bytes: vec![96, 1400],
            seconds: 2,
            window: 512,
            spin: Duration::from_micros(50),
            udp_segmentation: true,
            bypass: true,
            six: false,
            pin: false,
            second: 0,
            mode: Mode::Generic,
            busy: None,
        };
        for argument in std::env::args().skip(1) {
            let (name, value) = argument.split_once('=').unwrap_or((&argument, "1"));
            let number = || value.parse::<u64>().expect("a number");
            match name {
                "bridge" => options.tunnel = false,
                "tunnel" => options.tunnel = true,
                "packet" => options.xdp = false,
                "xdp" => options.xdp = true,
                "bytes" => options.bytes = vec![number() as usize],
                "seconds" => options.seconds = number(),
                "window" => options.window = number(),
                "spin" => options.spin = Duration::from_micros(number()),
                "runs" => options.udp_segmentation = number() != 0,
                "bypass" => options.bypass = number() != 0,
                "native" => options.mode = Mode::Native,
                "busy" => options.busy = Some(Duration::from_micros(number())),
                "pin" => options.pin = number() != 0,
                "second" => options.second = number() as usize,
                "six" => options.six = number() != 0,
                _ => panic!("unknown argument {name}"),
            }
        }
        options
    }
}

pub(crate) struct Gateway {
    pool: Pool,
    lan: Box<dyn LanPort>,
    beyond: Beyond,
    waiter: Waiter,
    frames: Vec<Frame>,
    datagrams: Vec<Datagram>,
}

enum Beyond {
    Lan(Box<dyn LanPort>),
    Underlay(Box<dyn Underlay>, SocketAddr),
}

impl Gateway {
    pub(crate) fn new(options: &Options, number: usize) -> Self {
        let mut pool = Pool::new(PoolSettings::default()).expect("enough memory");
        let mut own = xdp::XdpSettings::default();
        own.busy_poll = options.busy;
        let lan = |pool: &mut Pool, name: &str| -> Box<dyn LanPort> {
            let interface = Interface::find(name).expect("the wire was made");
            if options.xdp {
                let program = Attachment::lan(&interface, &[], options.mode).expect("needs root");
                return Box::new(XdpLan::open(pool, &program, own).expect("needs root"));
            }
            let mut settings = af_packet::PacketSocketSettings::default();
            settings.bypass_queue = options.bypass;
            Box::new(PacketPort::open(&interface, &settings).expect("needs root"))
        };
        let (near, beyond) = if options.tunnel {
            let address = |number: usize| -> SocketAddr {
                let text = if options.six {
                    format!("[2001:db8::{}]:4500", number + 1)
                } else {
                    format!("192.0.2.{}:4500", number + 1)
                };
                text.parse().expect("an address")
            };
            let mut settings = udp::UdpSettings::at(vec![address(number)]);
            settings.segmentation = options.udp_segmentation;
            let near = lan(&mut pool, ["g0", "g1"][number]);
            let underlay: Box<dyn Underlay> = if options.xdp {
                let interface = Interface::find("u0").expect("the wire was made");
                let program = Attachment::underlay(&interface, address(number), options.mode);
                let program = program.expect("needs root");
                let port = XdpUnderlay::open(&mut pool, &program, own, &settings);
                Box::new(port.expect("needs root"))
            } else {
                Box::new(UdpUnderlay::open(&settings).expect("the addresses are assigned"))
            };
            (near, Beyond::Underlay(underlay, address(1 - number)))
        } else {
            (lan(&mut pool, "g0"), Beyond::Lan(lan(&mut pool, "g1")))
        };
        let waiter = Waiter::new(options.spin);
        let (frames, datagrams) = (Vec::new(), Vec::new());
        Self { pool, lan: near, beyond, waiter, frames, datagrams }
    }

    /// Forwards until it is stopped. Returns a summary of its counters.
    pub(crate) fn run(mut self, stop: &AtomicBool) -> String {
        let (mut dropped, mut forwarded, mut rounds) = (0, 0, 0);
        let started = processor_time();
        while !stop.load(Ordering::Relaxed) {
            let Self { pool, lan, beyond, frames, datagrams, waiter } = &mut self;
            let mut count = lan.receive(pool, frames).expect("the port is usable");
            match beyond {
                Beyond::Lan(other) => {
                    other.transmit(pool, frames).expect("the port is usable");
                    dropped += discard(pool, frames);
                    count += other.receive(pool, frames).expect("the port is usable");
                }
                Beyond::Underlay(underlay, remote) => {
                    for mut frame in frames.drain(..) {
                        pool.with(&mut frame, |packet| packet.prepend(&[0x41; OVERHEAD]))
                            .expect("there is room");
                        datagrams.push(Datagram {
                            frame,
                            remote: *remote,
                            class: 0,
                            from_shared_port: false,
                        });
                    }
                    underlay.transmit(pool, datagrams).expect("the port is usable");
                    frames.extend(datagrams.drain(..).map(|datagram| datagram.frame));
                    dropped += discard(pool, frames);
                    count += underlay.receive(pool, datagrams).expect("the port is usable");
                    for Datagram { mut frame, .. } in datagrams.drain(..) {
                        pool.with(&mut frame, |packet| packet.take_front(OVERHEAD).is_some());
                        frames.push(frame);
                    }
                }
            }
            lan.transmit(pool, frames).expect("the port is usable");
            dropped += discard(pool, frames);
            forwarded += count;
            if count > 0 {
                rounds += 1;
                waiter.worked();
                continue;
            }
            let lan: &dyn LanPort = &**lan;
            let timeout = Some(Duration::from_millis(50));
            match beyond {
                Beyond::Lan(other) => waiter.wait(&[lan, &**other], timeout),
                Beyond::Underlay(underlay, _) => waiter.wait(&[lan, &**underlay], timeout),
            }
            .expect("descriptors can be waited for");
        }
        let beyond = match &self.beyond {
            Beyond::Lan(other) => other.statistics(),
            Beyond::Underlay(underlay, _) => underlay.statistics(),
        };
        let worked = processor_time() - started;
        let nanoseconds = worked / forwarded.max(1) as u64;
        let lan = self.lan.statistics();
        let round = forwarded / rounds.max(1);
        format!(
            "{nanoseconds} ns per frame, {round} frames per round, {forwarded} frames, \
             {dropped} dropped; {lan:?}; {beyond:?}"
        )
    }
}

fn discard(pool: &mut Pool, frames: &mut Vec<Frame>) -> usize {
    let count = frames.len();
    pool.release_all(frames.drain(..));
    count
}
