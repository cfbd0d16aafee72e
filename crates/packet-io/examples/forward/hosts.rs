//! Hosts, which are threads in network namespaces of their own, and what is measured on them.

use lightseal_packet_io::af_packet::{PacketPort, PacketSocketSettings};
use lightseal_packet_io::{Interface, LanPort, Offload, Pool, PoolSettings};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use testkit::namespace::{Host, ip};

/// Keeps a host's thread on one processor.
pub(crate) fn pin(host: &Host, processor: usize) {
    host.call(move || {
        let mut set = nix::sched::CpuSet::new();
        set.set(processor).expect("a valid processor number");
        let this = nix::unistd::Pid::from_raw(0);
        nix::sched::sched_setaffinity(this, &set).expect("the processor exists");
    });
}

/// Connects two hosts by a wire.
pub(crate) fn wire(one: &Host, name: &str, other: &Host, other_name: &str, mtu: u32) {
    one.ip(&format!("link add {name} type veth peer name {other_name} netns {}", other.thread));
    for (host, name) in [(one, name), (other, other_name)] {
        let name = name.to_owned();
        host.call(move || {
            ip(&format!("link set {name} mtu {mtu} up"));
            let interface = Interface::find(&name).expect("the interface was just made");
            for offload in [
                Offload::TransmitChecksums,
                Offload::Segmentation,
                Offload::TransmitVlan,
                Offload::ReceiveVlan,
            ] {
                interface.set_offload(offload, false).expect("veth supports turning offloads off");
            }
        });
    }
}

/// Round-trip times of ICMP echoes in microseconds, sorted.
pub(crate) fn echo_times(to: &str, count: u16) -> Vec<u128> {
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").expect("pings need root");
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        Some(rustix::net::ipproto::ICMP),
    );
    let socket = UdpSocket::from(socket.expect("pings need root"));
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket has timeouts");
    let mut times = Vec::new();
    for sequence in 0..count {
        let mut request = [0; 64];
        request[0] = 8;
        request[6..8].copy_from_slice(&sequence.to_be_bytes());
        let sent = Instant::now();
        socket.send_to(&request, (to, 0)).expect("the host is connected");
        let mut answer = [0; 100];
        if socket.recv(&mut answer).is_ok() {
            times.push(sent.elapsed().as_micros());
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    assert!(times.len() > usize::from(count) * 9 / 10, "{} of {count} echoes", times.len());
    times.sort_unstable();
    times
}

/// Sends MACsec-like frames as fast as they arrive, with `window` frames in flight. Returns the
/// number of frames that arrive per second.
pub(crate) fn flood(
    from: &str,
    counted_at: i32,
    at: &str,
    bytes: usize,
    seconds: u64,
    window: u64,
) -> f64 {
    const AT_ONCE: u64 = 32;
    let interface = Interface::find(from).expect("a host has its interface");
    let settings = PacketSocketSettings::for_ethertypes(vec![0x9999]);
    let mut port = PacketPort::open(&interface, &settings).expect("sending needs root");
    let mut pool = Pool::new(PoolSettings::new(2048, 64)).expect("enough memory");
    let mut frame = vec![0x5A; bytes];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xE5]);
    let counter = format!("/proc/{counted_at}/net/dev");
    let arrived = || packets(&std::fs::read_to_string(&counter).expect("the host exists"), at);

    let (begin, started, worked) = (arrived(), Instant::now(), processor_time());
    let (mut sent, mut lost, mut known) = (0, 0, 0);
    let mut progress = Instant::now();
    let mut frames = Vec::new();
    while started.elapsed() < Duration::from_secs(seconds) {
        if sent - lost + AT_ONCE > known + window {
            let now = arrived() - begin;
            if now > known {
                (known, progress) = (now, Instant::now());
            } else if progress.elapsed() > Duration::from_millis(20) {
                // No frame arrived for a while: those missing are lost and no longer in flight.
                (lost, progress) = (sent - known, Instant::now());
            } else {
                std::thread::yield_now();
            }
            continue;
        }
        while frames.len() < AT_ONCE as usize {
            frames.push(pool.allocate_with(&frame).expect("sent frames are released"));
        }
        sent += port.transmit(&mut pool, &mut frames).expect("the interface exists") as u64;
    }
    let rate = (arrived() - begin) as f64 / started.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_millis(20));
    let worked = processor_time() - worked;
    println!(
        "the sender: {} ns per frame, {} % of a processor",
        worked / sent.max(1),
        worked / seconds / 10_000_000
    );
    let arrived = arrived() - begin;
    if arrived < sent {
        println!("{} of {sent} lost", sent - arrived);
    }
    rate
}

/// The processor time of this thread in nanoseconds.
pub(crate) fn processor_time() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or_default()
}

/// Number of packets that an interface received, according to /proc/net/dev.
fn packets(table: &str, interface: &str) -> u64 {
    let line =
        table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
    let field = line.and_then(|line| line.split_whitespace().nth(1));
    field.and_then(|field| field.parse().ok()).expect("an interface is in the table")
}
