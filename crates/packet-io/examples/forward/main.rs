//! Measures how many frames per second pass through a gateway that does not process them, and how
//! long an echo takes. Hosts and gateways are threads in network namespaces of their own, connected
//! by veth pairs without offloads. Needs root.
//!
//! ```text
//! cargo run --release -p packet-io --example forward -- [bridge|tunnel] [packet|xdp] [name=value]...
//! ```
//!
//! `bridge` is one gateway between two hosts, `tunnel` is two gateways with UDP between them.
//! Names: `bytes` (length of a frame), `seconds`, `spin` (microseconds before a gateway sleeps),
//! `runs`, `bypass` (0 or 1), `window` (frames in flight), `six` (an IPv6 underlay), `native`
//! (programs run in the driver), `busy` (readers poll the driver, for this number of microseconds),
//! `pin` (each thread stays on one processor; that of the second gateway is `second`).
//!
//! If other programs run at the same time, the rates depend on them. The processor time per frame
//! in nanoseconds, including softirqs, is then the better measure.
#[cfg(target_os = "linux")]
mod gateway;
#[cfg(target_os = "linux")]
mod hosts;

#[cfg(target_os = "linux")]
fn main() {
    use gateway::{Gateway, Options};
    use hosts::{echo_times, flood, pin, wire};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use testkit::namespace::Host;

    let options = Options::from_arguments();
    let (a, b) = (Host::new(), Host::new());
    let gateways = [Host::new(), Host::new()];
    let last = usize::from(options.tunnel);
    wire(&a, "a0", &gateways[0], "g0", 1500);
    if options.tunnel {
        wire(&gateways[0], "u0", &gateways[1], "u0", 1600);
        for (i, gateway) in gateways.iter().enumerate() {
            gateway.ip(&format!("address add 192.0.2.{}/24 dev u0", i + 1));
            gateway.ip(&format!("address add 2001:db8::{}/64 dev u0 nodad", i + 1));
        }
    }
    wire(&gateways[last], "g1", &b, "b0", 1500);
    a.ip("address add 198.51.100.1/24 dev a0");
    b.ip("address add 198.51.100.2/24 dev b0");

    if options.pin {
        pin(&a, 0);
        pin(&gateways[0], 1);
        pin(&gateways[1], options.second);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let running: Vec<_> = gateways[..=last]
        .iter()
        .enumerate()
        .map(|(i, host)| {
            let (options, stop) = (options.clone(), stop.clone());
            host.start(move || Gateway::new(&options, i).run(&stop))
        })
        .collect();

    std::thread::sleep(std::time::Duration::from_millis(100));
    println!("{}", std::env::args().skip(1).collect::<Vec<_>>().join(" "));
    let echoes = a.call(|| echo_times("198.51.100.2", 3000));
    println!(
        "echo: median {} us, 90 % {} us, 99 % {} us",
        echoes[echoes.len() / 2],
        echoes[echoes.len() * 9 / 10],
        echoes[echoes.len() * 99 / 100]
    );
    let counted_at = b.thread;
    for bytes in options.bytes.clone() {
        let (seconds, window) = (options.seconds, options.window);
        let rate = a.call(move || flood("a0", counted_at, "b0", bytes, seconds, window));
        println!("{bytes} B: {:.0} kframes/s, {:.0} Mb/s", rate / 1e3, rate * bytes as f64 * 8e-6);
    }
    stop.store(true, Ordering::Relaxed);
    for told in running {
        println!("{}", told.recv().expect("the gateway does not panic"));
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("this example needs Linux");
}
