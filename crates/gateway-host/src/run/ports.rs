//! A gateway's sockets, one set for each of its threads.

use super::tally::Tally;
use crate::OneLine;
use crate::config::{Allowed, Config, LanIo, MOST_ALLOWED, UnderlayIo};
use crate::spread::Spread;
use gateway::codepoints::ANNOUNCEMENT;
use macsec::codepoints::{ETHERTYPE_EAPOL, ETHERTYPE_MACSEC};
use packet_io::af_packet::{self, PacketPort};
use packet_io::udp::{self, UdpUnderlay};
use packet_io::xdp::{self, Attachment, Mode, XdpLan, XdpUnderlay};
use packet_io::{HEADROOM, Interface, LanPort, OpenError, Pool, PoolSettings, TAILROOM, Underlay};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Entries of an AF_XDP socket's rings: what comes while another thread has this one's core for a
/// few milliseconds. With a quarter of that a loaded machine of two cores carries less than half.
const RING: u32 = 4096;
/// Frames of a thread's pool: what the rings of two AF_XDP sockets hold, and as many under way.
const FRAMES: usize = 4 * RING as usize;
/// Addresses, VLAN tags, and what sealing, UDP and IP add, beyond a LAN's MTU.
const AROUND: usize = 14 + 8 + 30 + 48 + 14;

/// EtherTypes that are carried, or heard, whatever is allowed.
const ALWAYS: [u16; 3] = [ETHERTYPE_MACSEC, ETHERTYPE_EAPOL, ANNOUNCEMENT];
const _: () = assert!(ALWAYS.len() + MOST_ALLOWED <= xdp::MOST_ETHERTYPES);

/// What one thread works with.
pub(super) struct Ports {
    pub(super) pool: Pool,
    pub(super) lan: Box<dyn LanPort + Send>,
    pub(super) underlay: Box<dyn Underlay + Send>,
    /// Where it says what has happened at them.
    pub(super) tally: Arc<Tally>,
}

/// All threads' ports, and what they are called.
pub(super) struct Opened {
    pub(super) threads: Vec<Ports>,
    pub(super) interface: Interface,
    /// The programs on interfaces: the LAN's, the underlay's.
    pub(super) programs: [Option<Attachment>; 2],
}

impl Opened {
    /// How frames and datagrams come and go.
    pub(super) fn describe(&self) -> String {
        let [lan, underlay] = self.programs.each_ref().map(|program| match program {
            None => None,
            Some(program) => Some(match program.mode() {
                Mode::Generic => "xdp",
                Mode::Native => "xdp (native)",
                Mode::ZeroCopy => "xdp (zero copy)",
            }),
        });
        format!("{}, {}", lan.unwrap_or("packet"), underlay.unwrap_or("udp"))
    }
}

/// The LAN's place among programs, and the underlay's.
const LAN: usize = 0;
const UNDERLAY: usize = 1;

/// Opens what the configuration names.
pub(super) fn open(config: &Config) -> Result<Opened, OneLine> {
    let interface = Interface::find(&config.lan.interface).map_err(OneLine::new)?;
    let mut programs = [lan_program(config, &interface)?, underlay_program(config, &interface)?];
    let optional = [config.lan.io == LanIo::Auto, !config.underlay.io.wants_xdp()];
    loop {
        let pools = (0..config.lan.queues).map(|_| Pool::new(pool_settings(&interface)));
        let mut pools = pools
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| OneLine::of("memory for frames", error))?;
        let opened = lans(&interface, programs[LAN].as_ref(), &mut pools)
            .map_err(|error| (LAN, error))
            .and_then(|lans| match underlays(config, programs[UNDERLAY].as_ref(), &mut pools) {
                Ok(underlays) => Ok((lans, underlays)),
                Err(error) => Err((UNDERLAY, error)),
            });
        match opened {
            Ok((lans, underlays)) => {
                let ports = pools.into_iter().zip(lans).zip(underlays);
                let one =
                    |((pool, lan), underlay)| Ports { pool, lan, underlay, tally: Arc::default() };
                return Ok(Opened { threads: ports.map(one).collect(), interface, programs });
            }
            // A program may be attached, and its sockets refused. Again, then, with fresh pools.
            Err((side, error)) if optional[side] && programs[side].take().is_some() => {
                tracing::info!(%error, "no AF_XDP");
            }
            Err((_, error)) => return Err(OneLine::new(error)),
        }
    }
}

/// A port of the LAN for each thread.
fn lans(
    interface: &Interface,
    program: Option<&Attachment>,
    pools: &mut [Pool],
) -> Result<Vec<Box<dyn LanPort + Send>>, OpenError> {
    let Some(program) = program else {
        // All frames, for the gateway counts those that it does not carry.
        let settings = af_packet::Settings::default();
        let ports = PacketPort::open_shared(interface, &settings, pools.len())?;
        return Ok(ports.into_iter().map(|port| Box::new(port) as _).collect());
    };
    let open = |(queue, pool)| Ok(Box::new(XdpLan::open(pool, program, of_queue(queue))?) as _);
    (0..).zip(pools).map(open).collect()
}

/// A port of the underlay for each thread.
fn underlays(
    config: &Config,
    program: Option<&Attachment>,
    pools: &mut [Pool],
) -> Result<Vec<Box<dyn Underlay + Send>>, OpenError> {
    let sockets = udp_settings(config);
    let open = |(queue, pool)| {
        Ok(match program {
            Some(program) => {
                Box::new(XdpUnderlay::open(pool, program, of_queue(queue), &sockets)?) as _
            }
            None => Box::new(UdpUnderlay::open(&sockets)?) as _,
        })
    };
    (0..).zip(pools).map(open).collect()
}

fn of_queue(queue: u32) -> xdp::Settings {
    xdp::Settings { queue, ring: RING, ..xdp::Settings::default() }
}

fn lan_program(config: &Config, interface: &Interface) -> Result<Option<Attachment>, OneLine> {
    // Frames without an EtherType are nothing that the program knows.
    let bridges = config.gateway.allow.contains(&Allowed::Bpdu);
    let refused = match config.lan.io {
        LanIo::Packet => return Ok(None),
        _ if bridges => Some("bridges' frames (bpdu)"),
        _ if has_long_frames(interface) => Some("an MTU as long as this interface's"),
        _ => None,
    };
    if let Some(what) = refused {
        return match config.lan.io {
            LanIo::Auto => Ok(None),
            _ => Err(OneLine::of("[lan] io = \"xdp\"", format_args!("not with {what}"))),
        };
    }
    let wanted = config.lan.io != LanIo::Auto;
    match Spread::of(interface, config.lan.queues) {
        None => {}
        Some(spread) if !wanted => {
            tracing::info!(%spread, "no AF_XDP");
            return Ok(None);
        }
        Some(spread) if spread.queues < spread.threads => {
            return Err(OneLine::of("[lan] io = \"xdp\"", spread));
        }
        // The driver may have been told to leave those others alone.
        Some(spread) => tracing::warn!(%spread, "frames on other queues are not carried"),
    }
    let allowed = config.gateway.allow.iter().filter_map(|allowed| match allowed {
        Allowed::EtherType(number) => Some(*number),
        Allowed::Bpdu => None,
    });
    let carried: Vec<u16> = ALWAYS.into_iter().chain(allowed).collect();
    let mode = match config.lan.io {
        LanIo::XdpNative => Mode::Native,
        LanIo::XdpZeroCopy => Mode::ZeroCopy,
        LanIo::Auto | LanIo::Xdp | LanIo::Packet => Mode::Generic,
    };
    settled(Attachment::lan(interface, &carried, mode), wanted)
}

fn underlay_program(config: &Config, lan: &Interface) -> Result<Option<Attachment>, OneLine> {
    let wanted = config.underlay.io.wants_xdp();
    let listen = config.underlay.listen;
    let Some(name) = &config.underlay.interface else { return Ok(None) };
    if config.underlay.io == UnderlayIo::Udp || !wanted && listen.ip().is_unspecified() {
        return Ok(None);
    }
    if has_long_frames(lan) {
        let what = format_args!("not with an MTU as long as that of {}", lan.name);
        return if wanted { Err(OneLine::of("[underlay] io = \"xdp\"", what)) } else { Ok(None) };
    }
    if listen.ip().is_unspecified() {
        let what = "listen must name one address of the interface";
        return Err(OneLine::of("[underlay] io = \"xdp\"", what));
    }
    let interface = Interface::find(name).map_err(OneLine::new)?;
    match Spread::of(&interface, config.lan.queues) {
        Some(spread) if spread.queues < spread.threads => {
            if wanted {
                return Err(OneLine::of("[underlay] io = \"xdp\"", spread));
            }
            tracing::info!(%spread, "no AF_XDP");
            return Ok(None);
        }
        Some(spread) => tracing::info!(%spread, "datagrams on other queues take the kernel's way"),
        None => {}
    }
    let mode = match config.underlay.io {
        UnderlayIo::XdpNative => Mode::Native,
        UnderlayIo::XdpZeroCopy => Mode::ZeroCopy,
        UnderlayIo::Auto | UnderlayIo::Xdp | UnderlayIo::Udp => Mode::Generic,
    };
    settled(Attachment::underlay(&interface, listen, mode), wanted)
}

/// Whether frames of this LAN are longer than AF_XDP's, which are a page at most.
fn has_long_frames(interface: &Interface) -> bool {
    pool_settings(interface).frame_bytes > 4096
}

/// What was asked for must be there; what is only better need not.
fn settled(
    attached: Result<Attachment, OpenError>,
    wanted: bool,
) -> Result<Option<Attachment>, OneLine> {
    match attached {
        Ok(attachment) => Ok(Some(attachment)),
        Err(error) if wanted => Err(OneLine::new(error)),
        Err(error) => {
            tracing::info!(%error, "no AF_XDP");
            Ok(None)
        }
    }
}

fn pool_settings(interface: &Interface) -> PoolSettings {
    let longest = interface.mtu_bytes as usize + AROUND + HEADROOM + TAILROOM;
    PoolSettings { frame_bytes: longest.next_power_of_two().clamp(2048, 65536), frames: FRAMES }
}

fn udp_settings(config: &Config) -> udp::Settings {
    let listen = config.underlay.listen;
    let shared = config.lan.queues > 1;
    let local = match listen.ip() {
        IpAddr::V6(any) if any.is_unspecified() => {
            vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, listen.port())), listen]
        }
        _ => vec![listen],
    };
    // Threads that share a port send from ports of their own: networks then give each its way.
    let own = |address: &SocketAddr| match address.ip() {
        ip if !ip.is_unspecified() => SocketAddr::from((ip, 0)),
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let send_from = if shared { local.iter().map(own).collect() } else { Vec::new() };
    udp::Settings { local, send_from, shared, ..udp::Settings::default() }
}
