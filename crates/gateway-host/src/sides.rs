//! The two sides of a gateway, LAN and underlay: checks the configuration against the interfaces of
//! this machine. `check` and `run` share this code, so both have the same idea of what is possible.

use crate::config::{Allowed, Config, LanIo, UnderlayIo};
use crate::queue_mismatch::QueueMismatch;
use crate::{ErrorLine, channel};
use lightseal_packet_io::udp::{self, UdpUnderlay};
use lightseal_packet_io::xdp::Mode;
use lightseal_packet_io::{HEADROOM, Interface, OpenError, TAILROOM};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Bytes around a frame beyond the MTU of its LAN: Ethernet header, VLAN tags, sealing, IP and UDP
/// headers, and the outer Ethernet header.
const FRAME_OVERHEAD: usize = 14 + 8 + 30 + 48 + 14;
/// The longest frame with AF_XDP, in bytes: one page.
const XDP_FRAME: usize = 4096;
/// The largest MTU of a LAN whose frames fit AF_XDP.
const XDP_MTU: u32 = (XDP_FRAME - FRAME_OVERHEAD - HEADROOM - TAILROOM) as u32;

/// How the packets of one side are to be read and written.
#[derive(Debug)]
pub(crate) struct SideIo {
    /// The interface and mode for AF_XDP, if it can be used.
    pub(crate) xdp: Option<(Interface, Mode)>,
    /// Whether AF_XDP is required: the gateway does not fall back to kernel sockets.
    pub(crate) xdp_required: bool,
    /// Set if the numbers of queues and threads differ. This is the reason why AF_XDP is not used,
    /// or which queues have no thread.
    pub(crate) queue_mismatch: Option<QueueMismatch>,
    /// Why AF_XDP is not tried although the configuration allows it.
    pub(crate) refused: Option<String>,
}

impl SideIo {
    /// Kernel sockets, which work with any interface.
    const KERNEL: Self =
        Self { xdp: None, xdp_required: false, queue_mismatch: None, refused: None };

    /// Kernel sockets, since AF_XDP cannot be used for the reason `why`.
    fn refused(why: String) -> Self {
        Self { refused: Some(why), ..Self::KERNEL }
    }
}

/// The LAN side. Its interface must carry Ethernet and be up.
///
/// # Errors
/// If the interface cannot be used, or not with the configured `io`.
pub(crate) fn lan(config: &Config) -> Result<(Interface, SideIo), ErrorLine> {
    let interface = Interface::find(&config.lan.interface)
        .map_err(|error| ErrorLine::of("[lan] interface", error))?;
    let mode = match config.lan.io {
        LanIo::Packet => return Ok((interface, SideIo::KERNEL)),
        LanIo::XdpNative => Mode::Native,
        LanIo::XdpZeroCopy => Mode::ZeroCopy,
        LanIo::Auto | LanIo::Xdp => Mode::Generic,
    };
    let xdp_required = config.lan.io.wants_xdp();
    // The AF_XDP program selects frames by EtherType, and frames of bridges have none.
    let refused = if config.gateway.allow.contains(&Allowed::BPDU) {
        Some("AF_XDP does not hear bridges' frames ([gateway] allow has \"bpdu\")".to_owned())
    } else {
        too_long(&interface)
    };
    if let Some(why) = refused {
        return if xdp_required {
            Err(ErrorLine::of("[lan] io", why))
        } else {
            Ok((interface, SideIo::refused(why)))
        };
    }
    let mismatch = QueueMismatch::of(&interface, config.lan.queues);
    let xdp = match &mismatch {
        Some(_) if !xdp_required => None,
        Some(mismatch) if mismatch.queues < mismatch.threads => {
            return Err(ErrorLine::of("[lan] io", mismatch));
        }
        // The driver may be configured not to use the queues without a thread.
        _ => Some((interface.clone(), mode)),
    };
    let refused = mismatch.as_ref().filter(|_| xdp.is_none()).map(ToString::to_string);
    Ok((interface, SideIo { xdp, xdp_required, queue_mismatch: mismatch, refused }))
}

/// The underlay side; `lan` is the interface of the LAN. An interface that is configured must
/// exist.
///
/// # Errors
/// If the interface cannot be used, or not with the configured `io`.
pub(crate) fn underlay(config: &Config, lan: Option<&Interface>) -> Result<SideIo, ErrorLine> {
    let settings = &config.underlay;
    let Some(name) = &settings.interface else { return Ok(SideIo::KERNEL) };
    let xdp_required = settings.io.wants_xdp();
    let interface = match Interface::find(name) {
        Ok(interface) => interface,
        Err(error) if xdp_required || matches!(error, OpenError::NoInterface(_)) => {
            return Err(ErrorLine::of("[underlay] interface", error));
        }
        // Without AF_XDP, datagrams are sent through any interface that the routing table selects.
        Err(_) => return Ok(SideIo::KERNEL),
    };
    let mode = match settings.io {
        UnderlayIo::Udp => return Ok(SideIo::KERNEL),
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
        return if xdp_required {
            Err(ErrorLine::of("[underlay] io", why))
        } else {
            Ok(SideIo::refused(why))
        };
    }
    let mismatch = QueueMismatch::of(&interface, config.lan.queues);
    let xdp = match &mismatch {
        Some(mismatch) if mismatch.queues < mismatch.threads => {
            if xdp_required {
                return Err(ErrorLine::of("[underlay] io", mismatch));
            }
            None
        }
        _ => Some((interface, mode)),
    };
    let refused = mismatch.as_ref().filter(|_| xdp.is_none()).map(ToString::to_string);
    Ok(SideIo { xdp, xdp_required, queue_mismatch: mismatch, refused })
}

/// Why AF_XDP cannot carry all frames of this LAN, if it cannot.
fn too_long(lan: &Interface) -> Option<String> {
    let Interface { name, mtu_bytes, .. } = lan;
    (*mtu_bytes > XDP_MTU).then(|| {
        format!("AF_XDP needs an MTU of the LAN of at most {XDP_MTU}: {name} has {mtu_bytes}")
    })
}

/// Size in bytes of the buffers for frames: the longest frame of this LAN, with all that is put
/// around it.
pub(crate) fn frame_bytes(lan: &Interface) -> usize {
    let longest = lan.mtu_bytes as usize + FRAME_OVERHEAD + HEADROOM + TAILROOM;
    longest.next_power_of_two().clamp(2048, 65536)
}

/// The settings of the tunnel's UDP sockets, for one thread.
pub(crate) fn udp_settings(config: &Config) -> udp::UdpSettings {
    let listen = config.underlay.listen;
    let shared = config.lan.queues > 1;
    let local = match listen.ip() {
        IpAddr::V6(any) if any.is_unspecified() => {
            vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, listen.port())), listen]
        }
        _ => vec![listen],
    };
    // Threads that share a port send from ports of their own, so that networks can balance their
    // flows over several paths.
    let own = |address: &SocketAddr| match address.ip() {
        ip if !ip.is_unspecified() => SocketAddr::from((ip, 0)),
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let mut settings = udp::UdpSettings::at(local);
    settings.shared = shared;
    if shared {
        settings.send_from = settings.local.iter().map(own).collect();
    }
    settings
}

/// Opens the UDP sockets of one thread for the tunnel.
///
/// # Errors
/// If the port is in use, or this host does not have the address.
pub(crate) fn datagrams(config: &Config) -> Result<UdpUnderlay, ErrorLine> {
    UdpUnderlay::open(&udp_settings(config)).map_err(|error| not_listening(config, error))
}

/// The error for an underlay port that cannot be opened.
pub(crate) fn not_listening(config: &Config, error: OpenError) -> ErrorLine {
    ErrorLine::of(format_args!("[underlay] listen {}", config.underlay.listen), error)
}

/// Opens the TCP port of the management channel.
///
/// # Errors
/// If the port is in use, or this host does not have the address.
pub(crate) fn management(config: &Config) -> Result<TcpListener, ErrorLine> {
    let listen = config.underlay.listen;
    channel::listen(listen)
        .map_err(|error| ErrorLine::of(format_args!("[underlay] listen {listen} (TCP)"), error))
}

/// Opens the TCP port of the metrics, if it is configured. Must be called within a tokio runtime.
///
/// # Errors
/// As for [`management`].
pub(crate) async fn metrics(config: &Config) -> Result<Option<tokio::net::TcpListener>, ErrorLine> {
    let Some(metrics) = &config.metrics else { return Ok(None) };
    let listen = metrics.listen;
    let opened = tokio::net::TcpListener::bind(listen).await;
    opened
        .map(Some)
        .map_err(|error| ErrorLine::of(format_args!("[metrics] listen {listen} (TCP)"), error))
}
