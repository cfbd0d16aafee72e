//! The sockets of a gateway: one set for each of its threads.

use super::port_counters::SharedPortCounters;
use crate::ErrorLine;
use crate::config::{Config, MOST_ALLOWED};
use crate::queue_mismatch::QueueMismatch;
use crate::sides::{self, SideIo, frame_bytes, udp_settings};
use lightseal_gateway::codepoints::ANNOUNCEMENT;
use lightseal_macsec::codepoints::{ETHERTYPE_EAPOL, ETHERTYPE_MACSEC};
use lightseal_packet_io::af_packet::{self, PacketPort};
use lightseal_packet_io::udp::UdpUnderlay;
use lightseal_packet_io::xdp::{self, Attachment, Mode, XdpLan, XdpUnderlay};
use lightseal_packet_io::{Interface, LanPort, OpenError, Pool, PoolSettings, Underlay};
use std::sync::Arc;

/// Number of entries in the rings of an AF_XDP socket: enough for the packets that arrive while
/// another thread has this thread's core for a few milliseconds. With a quarter of that, a loaded
/// machine with two cores carries less than half.
const RING: u32 = 4096;
/// Number of frames in a thread's pool: those in the rings of two AF_XDP sockets, and as many in
/// use.
const FRAMES: usize = 4 * RING as usize;

/// EtherTypes that are carried or received whatever the configuration allows.
const ALWAYS: [u16; 3] = [ETHERTYPE_MACSEC, ETHERTYPE_EAPOL, ANNOUNCEMENT];
const _: () = assert!(ALWAYS.len() + MOST_ALLOWED <= xdp::MOST_ETHERTYPES);

/// The ports of one thread.
pub(super) struct Ports {
    pub(super) pool: Pool,
    pub(super) lan: Box<dyn LanPort + Send>,
    pub(super) underlay: Box<dyn Underlay + Send>,
    /// Where the thread reports the counters of its ports.
    pub(super) counters: Arc<SharedPortCounters>,
}

/// The ports of all threads.
pub(super) struct OpenPorts {
    pub(super) threads: Vec<Ports>,
    pub(super) interface: Interface,
    /// The AF_XDP programs on the interfaces of the LAN and the underlay.
    pub(super) programs: [Option<Attachment>; 2],
    remarks: Vec<PortRemark>,
}

/// A remark about the ports for the log.
enum PortRemark {
    /// Why AF_XDP is not used.
    NoXdp(String),
    /// The LAN has queues without a thread. Frames that arrive on these queues are not carried.
    QueuesNotServed(QueueMismatch),
    /// The underlay has queues without a thread. Datagrams that arrive on these queues pass through
    /// kernel sockets, which is slower.
    QueuesThroughKernel(QueueMismatch),
}

impl OpenPorts {
    /// Logs the remarks. To be called once nothing can fail any more.
    pub(super) fn log_remarks(&self) {
        for remark in &self.remarks {
            match remark {
                PortRemark::NoXdp(why) => tracing::info!(%why, "no AF_XDP"),
                PortRemark::QueuesNotServed(mismatch) => {
                    tracing::warn!(spread = %mismatch, "frames on other queues are not carried");
                }
                PortRemark::QueuesThroughKernel(mismatch) => {
                    tracing::info!(spread = %mismatch, "datagrams on other queues go through kernel sockets");
                }
            }
        }
    }

    /// How frames and datagrams are read and written.
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

/// The indices of the LAN and the underlay in `programs`.
const LAN: usize = 0;
const UNDERLAY: usize = 1;

/// Opens the ports that the configuration names. Logs nothing.
pub(super) fn open(config: &Config) -> Result<OpenPorts, ErrorLine> {
    let (interface, lan) = sides::lan(config)?;
    let underlay = sides::underlay(config, Some(&interface))?;
    let mut remarks = Vec::new();
    let mut programs = [
        attached("[lan] io", &lan, &mut remarks, |interface, mode| {
            Attachment::lan(interface, &carried(config), mode)
        })?,
        attached("[underlay] io", &underlay, &mut remarks, |interface, mode| {
            Attachment::underlay(interface, config.underlay.listen, mode)
        })?,
    ];
    let optional = [!lan.xdp_required, !underlay.xdp_required];
    loop {
        let settings = PoolSettings::new(frame_bytes(&interface), FRAMES);
        let pools = (0..config.lan.queues).map(|_| Pool::new(settings));
        let mut pools = pools
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| ErrorLine::of("cannot allocate memory for frames", error))?;
        let opened = lans(&interface, programs[LAN].as_ref(), &mut pools)
            .map_err(|error| (LAN, error))
            .and_then(|lans| match underlays(config, programs[UNDERLAY].as_ref(), &mut pools) {
                Ok(underlays) => Ok((lans, underlays)),
                Err(error) => Err((UNDERLAY, error)),
            });
        match opened {
            Ok((lans, underlays)) => {
                let ports = pools.into_iter().zip(lans).zip(underlays);
                let one = |((pool, lan), underlay)| Ports {
                    pool,
                    lan,
                    underlay,
                    counters: Arc::default(),
                };
                let threads = ports.map(one).collect();
                let lan = lan.queue_mismatch.filter(|_| programs[LAN].is_some());
                let underlay = underlay.queue_mismatch.filter(|_| programs[UNDERLAY].is_some());
                remarks.extend(lan.map(PortRemark::QueuesNotServed));
                remarks.extend(underlay.map(PortRemark::QueuesThroughKernel));
                return Ok(OpenPorts { threads, interface, programs, remarks });
            }
            // Attaching a program may succeed and opening its sockets fail. Tries again without
            // AF_XDP, with new pools.
            Err((side, error)) if optional[side] && programs[side].take().is_some() => {
                remarks.push(PortRemark::NoXdp(error.to_string()));
            }
            Err((LAN, error)) => {
                let setting = if programs[LAN].is_some() { "io" } else { "interface" };
                return Err(ErrorLine::of(format_args!("[lan] {setting}"), error));
            }
            Err((_, error)) => return Err(sides::not_listening(config, error)),
        }
    }
}

/// Opens the LAN port of each thread.
fn lans(
    interface: &Interface,
    program: Option<&Attachment>,
    pools: &mut [Pool],
) -> Result<Vec<Box<dyn LanPort + Send>>, OpenError> {
    let Some(program) = program else {
        // Receives all frames, since the gateway counts those that it does not carry.
        let settings = af_packet::PacketSocketSettings::default();
        let ports = PacketPort::open_shared(interface, &settings, pools.len())?;
        return Ok(ports.into_iter().map(|port| Box::new(port) as _).collect());
    };
    let open = |(queue, pool)| Ok(Box::new(XdpLan::open(pool, program, of_queue(queue))?) as _);
    (0..).zip(pools).map(open).collect()
}

/// Opens the underlay port of each thread.
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

fn of_queue(queue: u32) -> xdp::XdpSettings {
    xdp::XdpSettings::new(queue, RING)
}

/// The EtherTypes that the AF_XDP program passes to the gateway.
fn carried(config: &Config) -> Vec<u16> {
    let allowed = config.gateway.allow.iter().filter_map(|allowed| allowed.number());
    ALWAYS.into_iter().chain(allowed).collect()
}

/// Attaches the AF_XDP program of one side. Fails only if the configuration requires AF_XDP.
fn attached(
    setting: &str,
    side: &SideIo,
    remarks: &mut Vec<PortRemark>,
    attach: impl FnOnce(&Interface, Mode) -> Result<Attachment, OpenError>,
) -> Result<Option<Attachment>, ErrorLine> {
    let Some((interface, mode)) = &side.xdp else {
        remarks.extend(side.refused.clone().map(PortRemark::NoXdp));
        return Ok(None);
    };
    match attach(interface, *mode) {
        Ok(attachment) => Ok(Some(attachment)),
        Err(error) if side.xdp_required => Err(ErrorLine::of(setting, error)),
        Err(error) => {
            remarks.push(PortRemark::NoXdp(error.to_string()));
            Ok(None)
        }
    }
}
