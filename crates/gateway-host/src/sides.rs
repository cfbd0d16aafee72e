//! A gateway's two sides, as its configuration and this machine's interfaces have them: what
//! `check` looks at and what `run` opens, with one idea of what is possible.

use crate::config::{Allowed, Config, LanIo, UnderlayIo};
use crate::spread::Spread;
use crate::{OneLine, channel};
use packet_io::udp::{self, UdpUnderlay};
use packet_io::xdp::Mode;
use packet_io::{HEADROOM, Interface, OpenError, TAILROOM};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Addresses, VLAN tags, and what sealing, UDP and IP add, beyond a LAN's MTU.
const AROUND: usize = 14 + 8 + 30 + 48 + 14;
/// AF_XDP's frames are a page at most.
const XDP_FRAME: usize = 4096;
/// The longest MTU of a LAN whose frames fit.
const XDP_MTU: u32 = (XDP_FRAME - AROUND - HEADROOM - TAILROOM) as u32;

/// How packets of one side are to be read and written.
#[derive(Debug)]
pub(crate) struct Side {
    /// With AF_XDP, if it can be had there.
    pub(crate) xdp: Option<(Interface, Mode)>,
    /// Nothing else will do.
    pub(crate) only: bool,
    /// Queues and threads are not as many: why there is no AF_XDP, or what it will not hear.
    pub(crate) spread: Option<Spread>,
    /// Why it is not even tried, where it would be taken.
    pub(crate) refused: Option<String>,
}

impl Side {
    /// By sockets that any interface has.
    const KERNEL: Self = Self { xdp: None, only: false, spread: None, refused: None };

    /// The same, for this reason.
    fn refused(why: String) -> Self {
        Self { refused: Some(why), ..Self::KERNEL }
    }
}

/// The LAN, which must be an Ethernet that is up.
///
/// # Errors
/// It is not, or does not go with its `io`.
pub(crate) fn lan(config: &Config) -> Result<(Interface, Side), OneLine> {
    let interface = Interface::find(&config.lan.interface)
        .map_err(|error| OneLine::of("[lan] interface", error))?;
    let mode = match config.lan.io {
        LanIo::Packet => return Ok((interface, Side::KERNEL)),
        LanIo::XdpNative => Mode::Native,
        LanIo::XdpZeroCopy => Mode::ZeroCopy,
        LanIo::Auto | LanIo::Xdp => Mode::Generic,
    };
    let only = config.lan.io.wants_xdp();
    // Frames without an EtherType are nothing that the program knows.
    let refused = if config.gateway.allow.contains(&Allowed::Bpdu) {
        Some("AF_XDP does not hear bridges' frames ([gateway] allow has \"bpdu\")".to_owned())
    } else {
        too_long(&interface)
    };
    if let Some(why) = refused {
        return if only {
            Err(OneLine::of("[lan] io", why))
        } else {
            Ok((interface, Side::refused(why)))
        };
    }
    let spread = Spread::of(&interface, config.lan.queues);
    let xdp = match &spread {
        Some(_) if !only => None,
        Some(spread) if spread.queues < spread.threads => {
            return Err(OneLine::of("[lan] io", spread));
        }
        // The driver may have been told to leave those others alone.
        _ => Some((interface.clone(), mode)),
    };
    let refused = spread.as_ref().filter(|_| xdp.is_none()).map(ToString::to_string);
    Ok((interface, Side { xdp, only, spread, refused }))
}

/// The underlay, beside this LAN. An interface that is named must be there.
///
/// # Errors
/// It is not, or does not go with its `io`.
pub(crate) fn underlay(config: &Config, lan: Option<&Interface>) -> Result<Side, OneLine> {
    let settings = &config.underlay;
    let Some(name) = &settings.interface else { return Ok(Side::KERNEL) };
    let only = settings.io.wants_xdp();
    let interface = match Interface::find(name) {
        Ok(interface) => interface,
        Err(error) if only || matches!(error, OpenError::NoInterface(_)) => {
            return Err(OneLine::of("[underlay] interface", error));
        }
        // Datagrams go wherever routes lead.
        Err(_) => return Ok(Side::KERNEL),
    };
    let mode = match settings.io {
        UnderlayIo::Udp => return Ok(Side::KERNEL),
        UnderlayIo::XdpNative => Mode::Native,
        UnderlayIo::XdpZeroCopy => Mode::ZeroCopy,
        UnderlayIo::Auto | UnderlayIo::Xdp => Mode::Generic,
    };
    let refused = if settings.listen.ip().is_unspecified() {
        Some(format!("AF_XDP needs an address of {name} in [underlay] listen"))
    } else {
        lan.and_then(too_long)
    };
    if let Some(why) = refused {
        return if only { Err(OneLine::of("[underlay] io", why)) } else { Ok(Side::refused(why)) };
    }
    let spread = Spread::of(&interface, config.lan.queues);
    let xdp = match &spread {
        Some(spread) if spread.queues < spread.threads => {
            if only {
                return Err(OneLine::of("[underlay] io", spread));
            }
            None
        }
        _ => Some((interface, mode)),
    };
    let refused = spread.as_ref().filter(|_| xdp.is_none()).map(ToString::to_string);
    Ok(Side { xdp, only, spread, refused })
}

/// Why AF_XDP does not carry all frames of this LAN.
fn too_long(lan: &Interface) -> Option<String> {
    let Interface { name, mtu_bytes, .. } = lan;
    (*mtu_bytes > XDP_MTU).then(|| {
        format!("AF_XDP needs an MTU of the LAN of at most {XDP_MTU}: {name} has {mtu_bytes}")
    })
}

/// Bytes of a frame of the pool: of this LAN the longest, with what goes around it.
pub(crate) fn frame_bytes(lan: &Interface) -> usize {
    let longest = lan.mtu_bytes as usize + AROUND + HEADROOM + TAILROOM;
    longest.next_power_of_two().clamp(2048, 65536)
}

/// The tunnel's UDP sockets, of one thread.
pub(crate) fn udp_settings(config: &Config) -> udp::Settings {
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

/// A thread's way into the tunnel through the kernel.
///
/// # Errors
/// The port is taken, or the address is none of this host.
pub(crate) fn datagrams(config: &Config) -> Result<UdpUnderlay, OneLine> {
    UdpUnderlay::open(&udp_settings(config)).map_err(|error| not_listening(config, error))
}

/// Why there is no port of the underlay.
pub(crate) fn not_listening(config: &Config, error: OpenError) -> OneLine {
    OneLine::of(format_args!("[underlay] listen {}", config.underlay.listen), error)
}

/// The port of the management channel.
///
/// # Errors
/// It is taken, or the address is none of this host.
pub(crate) fn management(config: &Config) -> Result<TcpListener, OneLine> {
    let listen = config.underlay.listen;
    channel::listen(listen)
        .map_err(|error| OneLine::of(format_args!("[underlay] listen {listen} (TCP)"), error))
}

/// The port of the metrics, if there are any. Must be called within a tokio runtime.
///
/// # Errors
/// As [`management`].
pub(crate) async fn metrics(config: &Config) -> Result<Option<tokio::net::TcpListener>, OneLine> {
    let Some(metrics) = &config.metrics else { return Ok(None) };
    let listen = metrics.listen;
    let opened = tokio::net::TcpListener::bind(listen).await;
    opened
        .map(Some)
        .map_err(|error| OneLine::of(format_args!("[metrics] listen {listen} (TCP)"), error))
}
