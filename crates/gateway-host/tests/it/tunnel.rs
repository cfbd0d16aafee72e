//! Gateways with real sockets, each in its own network namespace, between LANs that are veth pairs:
//!
//! ```text
//! a0 ──── lan ┌─────────┐ wan      wan ┌─────────┐ lan ──── b0
//!             │ gateway ├──────────────┤ gateway │
//!             └─────────┘              └─────────┘
//! ```

use lightseal_core::{Encode, Random, Writer};
use lightseal_gateway_host::check::check;
use lightseal_gateway_host::config::Config;
use lightseal_gateway_host::identity::Identity;
use lightseal_gateway_host::run::{GatewayHost, Order};
use lightseal_gateway_host::status::{GatewayStatus, StatusClient};
use lightseal_gateway_papers::PaperScheme;
use lightseal_macsec::{
    AssociationNumber, Header, Protection, Sci, SciField, SecTag, ShortLength, VlanTag,
};
use lightseal_packet_io::af_packet::{PacketPort, PacketSocketSettings};
use lightseal_packet_io::{Interface, LanPort, Pool, PoolSettings};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};
use testkit::namespace::{self, Host as Space, alone, alone_with_xdp, no_children};
use tokio::sync::mpsc;
use zeroize::Zeroizing;

/// The time within which a frame must appear, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The namespace of a gateway, with the only device on its LAN.
pub(crate) struct Site {
    space: Space,
    device: Device,
    pub(crate) config: String,
    /// A scheme of the paper, in place of the configured one.
    paper: Option<PaperScheme>,
    seed: u8,
    running: Option<Running>,
    pub(crate) directory: PathBuf,
}

struct Running {
    orders: mpsc::UnboundedSender<Order>,
    /// The content of the configuration when it is read again; `None` after it was read.
    again: Arc<Mutex<Option<String>>>,
    thread: JoinHandle<Result<(), String>>,
}

impl Site {
    pub(crate) fn start(&mut self) {
        let config = Config::parse("test", &self.config).unwrap();
        let credential = match config.gateway.credential {
            Some(_) => config.load_credential().unwrap(),
            None => identity(self.seed).into(),
        };
        let (orders, mut ordered) = mpsc::unbounded_channel();
        let again = Arc::new(Mutex::new(None::<String>));
        let (text, paper) = (Arc::clone(&again), self.paper);
        let thread = self.space.call(move || {
            spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut host =
                        GatewayHost::open(config, credential).await.map_err(|e| e.to_string())?;
                    if let Some(paper) = paper {
                        host = host.with_scheme(Box::new(move |limits, random, now| {
                            paper.make(limits, random, now)
                        }));
                    }
                    let read = || {
                        let text = text.lock().unwrap().take().unwrap();
                        Config::parse("again", &text)
                    };
                    let orders = async || ordered.recv().await.unwrap_or(Order::Stop);
                    host.serve(read, orders).await.map_err(|error| error.to_string())
                })
            })
        });
        self.running = Some(Running { orders, again, thread });
    }

    /// Has the configuration read again, with the content `config`. On return it was read, and
    /// takes effect soon.
    pub(crate) fn reload(&self, config: &str) {
        let Some(Running { orders, again, .. }) = &self.running else { panic!("it runs not") };
        *again.lock().unwrap() = Some(config.to_owned());
        orders.send(Order::Reload).unwrap();
        let until = Instant::now() + PATIENCE;
        while again.lock().unwrap().is_some() {
            assert!(Instant::now() < until, "the configuration is not read again");
            sleep(Duration::from_millis(1));
        }
    }

    /// The state of the gateway, as it reports it once it runs.
    pub(crate) fn status(&self) -> GatewayStatus {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let until = Instant::now() + PATIENCE;
        runtime.block_on(async {
            loop {
                let status = match StatusClient::open(&self.directory).await {
                    Ok(mut client) => client.status().await,
                    Err(error) => Err(error),
                };
                match status {
                    Ok(status) => return status,
                    Err(error) => assert!(Instant::now() < until, "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    }

    pub(crate) fn stop(&mut self) {
        if let Some(Running { orders, thread, .. }) = self.running.take() {
            let _ = orders.send(Order::Stop);
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            } else {
                eprintln!("the gateway ended with {ended:?}");
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What a MACsec device receives and sends.
struct Device {
    port: PacketPort,
    pool: Pool,
    _space: Space,
}

impl Device {
    fn send(&mut self, frame: &[u8]) {
        let mut frames = vec![self.pool.allocate_with(frame).unwrap()];
        self.port.transmit(&mut self.pool, &mut frames).unwrap();
        self.pool.release_all(frames);
    }

    /// Receives frames until there are `count`, or `patience` has passed.
    fn hear(&mut self, count: usize, patience: Duration) -> Vec<Vec<u8>> {
        let until = Instant::now() + patience;
        let (mut frames, mut heard) = (Vec::new(), Vec::new());
        while Instant::now() < until && heard.len() < count {
            if self.port.receive(&mut self.pool, &mut frames).unwrap() == 0 {
                sleep(Duration::from_millis(1));
            }
            heard.extend(frames.iter().map(|frame| self.pool.bytes(frame).to_vec()));
            self.pool.release_all(frames.drain(..));
        }
        heard
    }

    /// Whether `frame` arrives within `patience`.
    fn hears(&mut self, frame: &[u8], patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut frames = Vec::new();
        while Instant::now() < until {
            if self.port.receive(&mut self.pool, &mut frames).unwrap() == 0 {
                sleep(Duration::from_millis(1));
            }
            let heard = frames.iter().any(|heard| self.pool.bytes(heard) == frame);
            self.pool.release_all(frames.drain(..));
            if heard {
                return true;
            }
        }
        false
    }
}

/// Stops gateways and starts them with their configurations of now. On return they run.
pub(crate) fn restart(sites: &mut [Site]) {
    let _opened_again = no_children();
    sites.iter_mut().for_each(Site::stop);
    sites.iter_mut().for_each(Site::start);
    sites.iter().for_each(|site| drop(site.status()));
}

fn identity(seed: u8) -> Identity {
    Identity::from_seed(Zeroizing::new([seed; 32]))
}

/// A state directory that no other test uses, since tests run at the same time.
fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (own, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(format!("lightseal-tunnel-{own}-{number}"))
}

/// Two gateways that are not started yet.
pub(crate) fn sites(scheme: &str, io: [&str; 2], mtu: u32, more: &str) -> [Site; 2] {
    sites_of(1, scheme, io, mtu, more)
}

/// Two gateways that are not started yet, with this number of threads, at interfaces with as many
/// queues.
fn sites_of(queues: u32, scheme: &str, io: [&str; 2], mtu: u32, more: &str) -> [Site; 2] {
    let paper = PaperScheme::of(scheme);
    let scheme = if paper.is_some() { "sealed" } else { scheme };
    let spaces = [Space::new(), Space::new()];
    let _wire = spaces[0].wire_to(&spaces[1], "wan", 1600, queues);
    let mut number = 0;
    spaces.map(|space| {
        number += 1;
        let at = number;
        let far = Space::new();
        let device = space.wire_to(&far, "lan", mtu, queues);
        space.call(move || {
            namespace::ip(&format!("addr add 192.0.2.{at}/24 dev wan"));
        });
        let port = far.call(move || PacketPort::open(&device, &PacketSocketSettings::default()).unwrap());
        let pool = Pool::new(PoolSettings::new(16384, 256)).unwrap();
        let directory = directory();
        let config = format!(
            "[gateway]\nname = \"g{at}\"\nidentity = \"unused\"\nstate = {directory:?}\n\
             scheme = \"{scheme}\"\nnothing_is_protected = {}\n{more}\n[lan]\ninterface = \"lan\"\nio = \"{}\"\nqueues = {queues}\n\
             [underlay]\nlisten = \"192.0.2.{at}:8885\"\ninterface = \"wan\"\nio = \"{}\"\n\
             [[peer]]\nname = \"other\"\npublic_key = \"{}\"\nendpoint = \"192.0.2.{}:8885\"\n",
            scheme == "plain",
            io[0],
            io[1],
            identity(3 - at).public_key(),
            3 - at,
        );
        let device = Device { port, pool, _space: far };
        Site { space, device, config, paper, seed: at, running: None, directory }
    })
}

fn frame(from: u8, to: u8, pn: u32, len: usize, vlan: Option<u16>) -> Vec<u8> {
    let source = [2, 0, 0, 0, 0, from];
    let tag = SecTag {
        sci_field: SciField::Explicit(Sci { address: source, port: 1 }),
        protection: Protection::Confidential,
        an: AssociationNumber::default(),
        short_length: ShortLength::of(len),
        pn,
    };
    let vlan_tags = [vlan.map(|tci| VlanTag { tpid: 0x8100, tci }), None];
    let destination = if to == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, to] };
    let header = Header { destination, source, vlan_tags, tag };
    let mut frame = vec![0; header.len() + len + 16];
    let mut writer = Writer::new(&mut frame);
    header.write(&mut writer).unwrap();
    Random::insecure(pn.into()).fill(&mut frame[header.len()..]);
    frame
}

/// Sends frames of the device of site `from`, with increasing packet numbers, until one crosses.
pub(crate) fn until_it_crosses(sites: &mut [Site; 2], from: usize, pn: &mut u32, len: usize) {
    let until = Instant::now() + PATIENCE;
    let [a, b] = sites;
    let (near, far, ends) = if from == 0 { (a, b, (1, 2)) } else { (b, a, (2, 1)) };
    loop {
        *pn += 1;
        let frame = frame(ends.0, ends.1, *pn, len, None);
        near.device.send(&frame);
        if far.device.hears(&frame, Duration::from_millis(200)) {
            return;
        }
        assert!(Instant::now() < until, "no frame of {len} bytes crossed from {from}");
    }
}

fn crosses(sites: &mut [Site; 2], frame: &[u8]) {
    sites[0].device.send(frame);
    assert!(sites[1].device.hears(frame, PATIENCE), "a frame of {} bytes is lost", frame.len());
}

/// Works as [`alone`], for gateways with these kinds of ports.
fn alone_with(io: [&str; 2], test: impl FnOnce() + Send + 'static) {
    if io.contains(&"xdp") { alone_with_xdp(test) } else { alone(test) }
}

fn talk(scheme: &'static str, io: [&'static str; 2]) {
    alone_with(io, move || {
        let mut sites = sites(scheme, io, 1500, "");
        sites.iter_mut().for_each(Site::start);
        let mut pn = 0;
        for _ in 0..2 {
            until_it_crosses(&mut sites, 0, &mut pn, 100);
            until_it_crosses(&mut sites, 1, &mut pn, 100);
        }
        for len in [1, 47, 48, 500, 1400] {
            pn += 2;
            crosses(&mut sites, &frame(1, 2, pn - 1, len, None));
            crosses(&mut sites, &frame(1, 0xff, pn, len, None));
        }
        pn += 1;
        crosses(&mut sites, &frame(1, 2, pn, 300, Some(0xa005)));
        // The gateway restarts, with empty state.
        restart(&mut sites[1..]);
        until_it_crosses(&mut sites, 0, &mut pn, 100);
        until_it_crosses(&mut sites, 1, &mut pn, 100);
    });
}

#[test]
fn every_scheme_carries_frames_through_kernel_sockets() {
    for scheme in ["sealed", "identifier", "identifier-paper", "encryption-paper"] {
        talk(scheme, ["packet", "udp"]);
    }
}

#[test]
fn af_xdp_carries_frames() {
    talk("sealed", ["xdp", "xdp"]);
    talk("identifier", ["auto", "auto"]);
}

#[test]
fn several_threads_carry_each_frame_once() {
    for io in [["packet", "udp"], ["xdp", "xdp"]] {
        alone_with(io, move || {
            let mut sites = sites_of(2, "sealed", io, 1500, "");
            sites.iter_mut().for_each(Site::start);
            let mut pn = 0;
            until_it_crosses(&mut sites, 0, &mut pn, 100);
            until_it_crosses(&mut sites, 1, &mut pn, 100);
            let mut expected = Vec::new();
            for _ in 0..8 {
                for from in 10..26 {
                    pn += 1;
                    expected.push(frame(from, 0xff, pn, 100, None));
                }
            }
            for frame in &expected {
                sites[0].device.send(frame);
            }
            let mut heard = sites[1].device.hear(expected.len(), PATIENCE);
            // A duplicate would have arrived by now, or would be on its way.
            heard.extend(sites[1].device.hear(1, Duration::from_millis(500)));
            // Ignores the announcements of the gateways.
            heard.retain(|frame| frame[6..11] == [2, 0, 0, 0, 0] && (10..26).contains(&frame[11]));
            heard.sort();
            expected.sort();
            assert_eq!(heard.len(), expected.len(), "{io:?}");
            assert!(heard == expected, "{io:?}");
        });
    }
}

#[test]
fn what_goes_to_a_peer_that_came_to_us_is_from_where_it_sends_to() {
    for io in [["packet", "udp"], ["xdp", "xdp"]] {
        alone_with(io, move || {
            let mut sites = sites_of(2, "sealed", io, 1500, "");
            let [near, far] = &mut sites;
            let (nameless, _) = near.config.split_once("endpoint").unwrap();
            near.config = nameless.to_owned();
            // Packet sockets do not receive the packets that AF_XDP takes.
            far.config = far.config.replace("io = \"xdp\"", "io = \"packet\"");
            far.config = far.config.replace("\"wan\"\nio = \"packet\"", "\"wan\"\nio = \"udp\"");
            let wan = || Interface::find("wan").unwrap();
            let listening =
                move || PacketPort::open(&wan(), &PacketSocketSettings::default()).unwrap();
            let mut wire = far.space.call(listening);
            sites.iter_mut().for_each(Site::start);
            let mut pn = 0;
            until_it_crosses(&mut sites, 1, &mut pn, 100);
            until_it_crosses(&mut sites, 0, &mut pn, 100);
            for from in 10..26 {
                pn += 1;
                crosses(&mut sites, &frame(from, 0xff, pn, 100, None));
            }
            let Device { pool, .. } = &mut sites[1].device;
            let mut frames = Vec::new();
            while wire.receive(pool, &mut frames).unwrap() > 0 {}
            let mut ports: Vec<_> = frames
                .iter()
                .map(|frame| pool.bytes(frame))
                // An IPv4 header without options, and UDP.
                .filter(|bytes| bytes[12..15] == [8, 0, 0x45] && bytes[23] == 17)
                .map(|bytes| u16::from_be_bytes([bytes[34], bytes[35]]))
                .collect();
            pool.release_all(frames);
            assert!(ports.len() >= 17, "{io:?}: {ports:?}");
            ports.dedup();
            assert_eq!(ports, [8885], "{io:?}");
        });
    }
}

/// How the ports of a gateway in this namespace are opened, or why they cannot be; and what `check`
/// reports about the numbers of queues and threads.
fn opened(lan: &str, io: &str, queues: u32) -> (Result<String, String>, Vec<String>) {
    let directory = directory();
    let config = format!(
        "[gateway]\nname = \"g\"\nidentity = \"unused\"\nstate = {directory:?}\n[lan]\n\
         interface = \"{lan}\"\nio = \"{io}\"\nqueues = {queues}\n\
         [underlay]\nlisten = \"127.0.0.1:8885\"\n"
    );
    let config = Config::parse("test", &config).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _opened_again = no_children();
    runtime.block_on(async {
        let said = check(&config).await.into_iter().map(|finding| finding.what);
        let said = said.filter(|what| what.contains("receives on")).collect();
        let opened = GatewayHost::open(config, identity(1)).await;
        let _never_there = std::fs::remove_dir_all(directory);
        (opened.map(|host| host.io().to_owned()).map_err(|error| error.to_string()), said)
    })
}

#[test]
fn af_xdp_is_taken_where_it_hears_everything() {
    alone_with_xdp(|| {
        let (space, far) = (Space::new(), Space::new());
        let _wire = space.wire_to(&far, "lan", 1500, 2);
        space.call(|| {
            let told = |threads| {
                format!(
                    "interface lan receives on 2 queues and [lan] queues = {threads} \
                     (ethtool -L lan rx {threads})"
                )
            };
            let xdp = || Ok("xdp, udp".to_owned());
            let packet = || Ok("packet, udp".to_owned());
            let said = |threads| vec![format!("[lan] {}", told(threads))];
            assert_eq!(opened("lan", "auto", 2), (xdp(), vec![]));
            assert_eq!(opened("lan", "auto", 1), (packet(), said(1)));
            assert_eq!(opened("lan", "xdp", 1), (xdp(), said(1)));
            assert_eq!(opened("lan", "packet", 1), (packet(), vec![]));
            let wrong = format!("[lan] io: {}", told(3));
            assert_eq!(opened("lan", "xdp", 3), (Err(wrong.clone()), vec![wrong]));
            assert_eq!(opened("lan", "auto", 3), (packet(), said(3)));
            // A bridge does not report the number of its queues, and AF_XDP cannot use its second
            // queue.
            namespace::ip("link add br0 type bridge");
            namespace::ip("link set br0 up");
            assert_eq!(opened("br0", "auto", 1), (xdp(), vec![]));
            assert_eq!(opened("br0", "auto", 2), (packet(), vec![]));
            let error = opened("br0", "xdp", 2).0.unwrap_err();
            assert!(error.starts_with("[lan] io: AF_XDP on br0: "), "{error}");
        });
    });
}

#[test]
fn a_gateway_with_an_endpoint_is_followed_when_its_address_changes() {
    alone(|| {
        let mut sites = sites("sealed", ["packet", "udp"], 1500, "");
        sites[0].config = sites[0].config.replace("\"192.0.2.1:8885\"", "\"0.0.0.0:8885\"");
        sites.iter_mut().for_each(Site::start);
        let mut pn = 0;
        for from in [0, 1] {
            until_it_crosses(&mut sites, from, &mut pn, 100);
        }
        let remote = |sites: &[Site; 2]| sites[1].status().peers[0].remote.unwrap();
        assert_eq!(remote(&sites), "192.0.2.1:8885".parse().unwrap());
        for at in ["192.0.2.11", "192.0.2.1"] {
            sites[0].space.call(move || {
                namespace::ip("addr flush dev wan");
                namespace::ip(&format!("addr add {at}/24 dev wan"));
            });
            until_it_crosses(&mut sites, 0, &mut pn, 100);
            assert_eq!(remote(&sites).ip().to_string(), at);
            until_it_crosses(&mut sites, 1, &mut pn, 100);
            assert!(!sites[1].status().peers[0].unanswered);
        }
        assert_eq!(remote(&sites).port(), 8885, "the peer is at its endpoint");
    });
}

#[test]
fn a_configuration_is_read_again_and_sockets_stay() {
    for io in [["packet", "udp"], ["xdp", "xdp"]] {
        alone_with(io, move || {
            let mut sites = sites("sealed", io, 1500, "");
            let whole = sites[1].config.clone();
            let (alone, _) = whole.split_once("[[peer]]").unwrap();
            sites[1].config = alone.to_owned();
            sites.iter_mut().for_each(Site::start);
            let mut pn = 1;
            sites[0].device.send(&frame(1, 2, pn, 100, None));
            let patience = Duration::from_millis(500);
            assert!(!sites[1].device.hears(&frame(1, 2, pn, 100, None), patience));
            sites[1].reload(&whole);
            until_it_crosses(&mut sites, 0, &mut pn, 100);
            until_it_crosses(&mut sites, 1, &mut pn, 100);
            // None of these configurations is accepted.
            for wrong in ["", &whole.replace("\"lan\"", "\"wan\""), &whole.replace(":8885", ":9")] {
                sites[1].reload(wrong);
            }
            for _ in 0..10 {
                pn += 1;
                crosses(&mut sites, &frame(1, 2, pn, 100, None));
            }
            let before = sites[1].status();
            sites[1].reload(&format!("{whole}[limits]\nflows = 64\n"));
            let until = Instant::now() + PATIENCE;
            while sites[1].status().flows.most != 64 {
                assert!(Instant::now() < until, "the new configuration does not take effect");
                sleep(Duration::from_millis(1));
            }
            until_it_crosses(&mut sites, 0, &mut pn, 100);
            let after = sites[1].status();
            // All counters continue, and at least one more frame was carried.
            assert!(after.lan.sent.frames > before.lan.sent.frames, "{before:?} {after:?}");
            assert!(after.peers[0].received.frames > before.peers[0].received.frames);
            for (name, count) in before.drops.iter().chain(&before.counters) {
                let now = after.drops.get(name).or(after.counters.get(name));
                assert!(now.is_some_and(|now| now >= count), "{name}: {count}, {now:?}");
            }
            sites[1].reload(alone);
            let mut gone = false;
            for _ in 0..100 {
                pn += 1;
                let frame = frame(1, 2, pn, 100, None);
                sites[0].device.send(&frame);
                gone = !sites[1].device.hears(&frame, Duration::from_millis(200));
                if gone {
                    break;
                }
            }
            assert!(gone, "a peer that was removed is still heard");
        });
    }
}

#[test]
fn jumbo_frames_are_split_and_come_out_whole() {
    alone(|| {
        let mut sites = sites("sealed", ["packet", "udp"], 9000, "compress = true");
        sites.iter_mut().for_each(Site::start);
        until_it_crosses(&mut sites, 0, &mut 0, 8900);
    });
}

#[test]
fn other_frames_stay_unless_they_are_allowed() {
    alone(|| {
        let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[8, 6], &[7; 46]].concat();
        for (allow, there) in [("", false), ("allow = [\"arp\"]", true)] {
            let mut sites = sites("sealed", ["packet", "udp"], 1500, allow);
            sites.iter_mut().for_each(Site::start);
            until_it_crosses(&mut sites, 0, &mut 0, 100);
            sites[0].device.send(&arp);
            let patience = if there { PATIENCE } else { Duration::from_millis(500) };
            assert_eq!(sites[1].device.hears(&arp, patience), there);
        }
    });
}

#[test]
fn plain_is_what_the_kernels_vxlan_speaks() {
    alone(|| {
        if namespace::try_ip("link add tried type vxlan id 7 dstport 4789").is_err() {
            return skip::test("this kernel has no VXLAN");
        }
        let mut sites = sites("plain", ["packet", "udp"], 1400, "");
        sites[1].space.call(|| {
            let vxlan = "id 1 local 192.0.2.2 remote 192.0.2.1 dstport 4789";
            namespace::ip(&format!("link add vx0 mtu 1400 type vxlan {vxlan}"));
            namespace::ip("link add br0 type bridge");
            for member in ["vx0", "lan"] {
                namespace::ip(&format!("link set {member} master br0 up"));
            }
            namespace::ip("link set br0 up");
        });
        sites[0].config = sites[0].config.replace(":8885", ":4789");
        sites[0].start();
        let mut pn = 0;
        for from in [0, 1, 0] {
            until_it_crosses(&mut sites, from, &mut pn, 600);
        }
    });
}
