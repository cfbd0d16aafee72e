//! The measurement, on Linux.

#[path = "wireguard.rs"]
mod wireguard;
#[path = "workers.rs"]
mod workers;

use lightseal_measure::Spread;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testkit::program::TempDir;

/// Lengths of messages in bytes.
const LENGTHS: [usize; 2] = [64, 1000];
/// Most datagrams on the way at a time.
const WINDOW: u64 = 256;
/// The receive buffer of the service, which holds more than are on the way.
const BUFFER_BYTES: usize = 2 << 20;
/// How long one run lasts.
const RUN: Duration = Duration::from_millis(700);
/// How long nothing may arrive before what is on the way counts as lost.
const STALLED: Duration = Duration::from_millis(300);
/// How long everything else may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The kernel counts processor time in this unit in `/proc/PID/stat` (`USER_HZ`).
const TICK_US: f64 = 10_000.0;
const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// Processes that are measured. Dropping them ends them.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Processes {
    /// Processor time in microseconds, of the processes and of their children.
    fn processor_us(&self) -> f64 {
        let all = self.0.iter().flat_map(|child| tree(child.id()));
        all.map(ticks).sum::<u64>() as f64 * TICK_US
    }
}

/// A process and its children.
fn tree(id: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    std::iter::once(id).chain(children.flat_map(tree)).collect()
}

/// Processor time of a process so far, in the kernel's unit: the fields `utime` and `stime` of
/// proc_pid_stat(5).
fn ticks(id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name of the program, which may have spaces, is in parentheses.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let fields = after.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Resident memory of a process in bytes.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// The service: it counts what arrives.
struct Service {
    address: SocketAddr,
    arrived: Arc<AtomicU64>,
    /// Processor time of the thread that receives is none of the proxies': it looks at intervals,
    /// so that no proxy pays for waking it up.
    stop: Arc<AtomicBool>,
}

impl Service {
    fn start() -> Self {
        Self::at(UdpSocket::bind("127.0.0.1:0").unwrap())
    }

    fn at(socket: UdpSocket) -> Self {
        socket2::SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES).unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let (arrived, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, stopped) = (Arc::clone(&arrived), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut buf = [0; 2048];
            while !stopped.load(Ordering::Relaxed) {
                let mut some = 0;
                while socket.recv(&mut buf).is_ok() {
                    some += 1;
                    if some == 64 {
                        break;
                    }
                }
                count.fetch_add(some, Ordering::Release);
                if some < 64 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        Self { address, arrived, stop }
    }

    fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Acquire)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Starts a proxy and returns the address on which it listens.
fn proxy(
    program: &str,
    role: &str,
    connect: SocketAddr,
    dir: &TempDir,
    more: &[&str],
) -> (Child, SocketAddr) {
    let mut child = Command::new(program)
        .args(["proxy", role, "--listen", "127.0.0.1:0", "--status-socket", "none"])
        .args(["--connect", &connect.to_string(), "--psk-file", &dir.path("keys.psk")])
        .args(more)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find_map(|line| Some(line.split_once("carrying ")?.1.to_owned()));
    let line = line.unwrap_or_else(|| panic!("the {role} proxy did not start"));
    let address = line.split_whitespace().next().unwrap().parse().unwrap();
    std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
    (child, address)
}

/// What carries the datagrams.
struct Carrier {
    name: &'static str,
    processes: Processes,
    entry: SocketAddr,
}

/// Two proxies; the client proxy has these flags.
fn lightseal(program: &str, service: SocketAddr, dir: &TempDir, client: &[&str]) -> Carrier {
    let (server, between) = proxy(program, "server", service, dir, &[]);
    let (client, entry) = proxy(program, "client", between, dir, client);
    Carrier { name: "lightseal", processes: Processes(vec![client, server]), entry }
}

/// Two processes of nginx that pass datagrams on, one after the other; `None` if it is not
/// installed.
fn nginx(service: SocketAddr, dir: &TempDir) -> Option<Carrier> {
    // It is in a folder that users often do not have in their PATH.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let mut programs = path.split(':').map(|folder| Path::new(folder).join("nginx"));
    let program = programs.find(|program| program.is_file())?;
    // Debian has the module in a package of its own.
    let module = program.parent()?.parent()?.join("lib/nginx/modules/ngx_stream_module.so");
    let load = match module.is_file() {
        true => format!("load_module {};", module.display()),
        false => String::new(),
    };
    let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut children = Vec::new();
    let (mut next, mut entry) = (service, service);
    for number in 0..2 {
        entry = free();
        let pid = dir.path(&format!("nginx{number}.pid"));
        let config = dir.file(
            &format!("nginx{number}.conf"),
            &format!(
                "{load}\ndaemon off; master_process off; pid {pid}; error_log stderr crit;\n\
                 events {{ worker_connections 4096; }}\n\
                 stream {{ server {{ listen {entry} udp; proxy_pass {next}; proxy_timeout 600s; }} }}\n"
            ),
        );
        let child =
            Command::new(&program).args(["-c", &config]).stdin(Stdio::null()).spawn().ok()?;
        children.push(child);
        next = entry;
    }
    Some(Carrier { name: "nginx", processes: Processes(children), entry })
}

/// What one run has shown.
struct Outcome {
    us: f64,
    rate: f64,
    lost: u64,
}

impl Carrier {
    /// Sends from each application in turn until `RUN` is over, at most `rate` datagrams a second.
    fn run(
        &self,
        applications: &[UdpSocket],
        service: &Service,
        bytes: usize,
        rate: f64,
    ) -> Outcome {
        let message = vec![0x5a; bytes];
        let base = service.arrived();
        let before = self.processes.processor_us();
        let start = Instant::now();
        let (mut sent, mut lost) = (0_u64, 0_u64);
        let mut progress = (base, start);
        while start.elapsed() < RUN {
            let arrived = service.arrived();
            if arrived != progress.0 {
                progress = (arrived, Instant::now());
            }
            let due = (start.elapsed().as_secs_f64() * rate) as u64;
            let on_the_way = (sent - lost).saturating_sub(arrived - base);
            let room = WINDOW.saturating_sub(on_the_way).min(due.saturating_sub(sent));
            if room == 0 {
                if on_the_way > 0 && progress.1.elapsed() > STALLED {
                    (lost, progress.1) = (lost + on_the_way, Instant::now());
                }
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
            for _ in 0..room.min(64) {
                let application = &applications[sent as usize % applications.len()];
                application.send_to(&message, self.entry).unwrap();
                sent += 1;
            }
        }
        while service.arrived() - base < sent - lost && progress.1.elapsed() < STALLED {
            if service.arrived() != progress.0 {
                progress = (service.arrived(), Instant::now());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (seconds, delivered) = (start.elapsed().as_secs_f64(), service.arrived() - base);
        let us = (self.processes.processor_us() - before) / delivered.max(1) as f64;
        Outcome { us, rate: delivered as f64 / seconds, lost: sent.saturating_sub(delivered) }
    }

    /// Has each application send until its first message has arrived.
    fn open(&self, applications: &[UdpSocket], service: &Service) {
        let begun = Instant::now();
        for application in applications {
            let before = service.arrived();
            let mut next = Duration::ZERO;
            let sent = Instant::now();
            while service.arrived() == before {
                assert!(begun.elapsed() < PATIENCE, "{} carries nothing", self.name);
                if sent.elapsed() >= next {
                    application.send_to(b"first", self.entry).unwrap();
                    next += Duration::from_secs(1);
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}

/// The figures of one carrier at one length and rate.
#[derive(Default)]
struct Row {
    us: Vec<f64>,
    rate: Vec<f64>,
    lost: u64,
}

fn spread(values: &[f64]) -> Value {
    let Spread { low, median, high } = Spread::of(values.to_vec());
    json!({ "low": low, "median": median, "high": high })
}

fn applications(count: usize) -> Vec<UdpSocket> {
    (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect()
}

fn speed(program: &str, client: &[&str], flows: usize, turns: usize) -> Value {
    let dir = TempDir::new();
    dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let service = Service::start();
    let applications = applications(flows);
    let ours = lightseal(program, service.address, &dir, client);
    let beside = wireguard::start(flows);
    let mut carriers = vec![(&ours, &applications, &service)];
    let nginx = nginx(service.address, &dir);
    carriers.extend(nginx.iter().map(|nginx| (nginx, &applications, &service)));
    carriers.extend(beside.iter().map(|of| (&of.carrier, &of.applications, &of.service)));
    for (carrier, applications, service) in &carriers {
        carrier.open(applications, service);
    }
    let mut rows: Vec<_> =
        carriers.iter().map(|_| LENGTHS.map(|_| [(); 2].map(|()| Row::default()))).collect();
    for _ in 0..turns {
        for (length, bytes) in LENGTHS.into_iter().enumerate() {
            for ((carrier, applications, service), rows) in carriers.iter().zip(&mut rows) {
                let full = carrier.run(applications, service, bytes, f64::INFINITY);
                let tenth = carrier.run(applications, service, bytes, full.rate / 10.0);
                for (row, outcome) in rows[length].iter_mut().zip([full, tenth]) {
                    row.us.push(outcome.us);
                    row.rate.push(outcome.rate);
                    row.lost += outcome.lost;
                }
            }
        }
    }
    let mut ratios = Vec::new();
    for ((theirs, ..), row) in carriers.iter().zip(&rows).skip(1) {
        for (length, bytes) in LENGTHS.iter().enumerate() {
            let [ours, others] = [&rows[0], row].map(|rows| &rows[length][0].us);
            let each = ours.iter().zip(others).map(|(ours, others)| ours / others).collect();
            let median = Spread::of(each).median;
            ratios.push(json!({ "name": theirs.name, "bytes": bytes, "median": median }));
        }
    }
    let named = |(carrier, ..): &(&Carrier, _, _)| carrier.name;
    let missing = ["nginx", "wireguard-go"].into_iter();
    let missing: Vec<_> =
        missing.filter(|name| !carriers.iter().any(|of| named(of) == *name)).collect();
    let rows = carriers.iter().zip(&rows).flat_map(|((carrier, ..), rows)| {
        LENGTHS.iter().zip(rows).flat_map(move |(bytes, rows)| {
            ["full", "tenth"].into_iter().zip(rows).map(move |(load, row)| {
                json!({
                    "name": format!("{} {load}", carrier.name), "bytes": bytes,
                    "us": spread(&row.us), "rate": spread(&row.rate), "lost": row.lost,
                })
            })
        })
    });
    let rows: Vec<_> = rows.collect();
    json!({ "flows": flows, "turns": turns, "rows": rows, "ratios": ratios, "missing": missing })
}

/// Resident memory for each flow: what a thousand flows more take, at either proxy.
fn memory(program: &str, client: &[&str], flows: usize) -> Value {
    let dir = TempDir::new();
    dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let service = Service::start();
    let applications = applications(2 * flows);
    let carrier = lightseal(program, service.address, &dir, client);
    let (first, second) = applications.split_at(flows);
    let measure = |some: &[UdpSocket]| {
        carrier.open(some, &service);
        let ids: Vec<_> = carrier.processes.0.iter().map(Child::id).collect();
        // Handshakes leave behind what is freed a little later.
        std::thread::sleep(Duration::from_secs(1));
        ids.into_iter().map(resident).collect::<Vec<_>>()
    };
    let (before, after) = (measure(first), measure(second));
    let each = |at: usize| (after[at] as f64 - before[at] as f64) / flows as f64;
    json!({ "flows": flows, "client_bytes": each(0), "server_bytes": each(1) })
}

pub(crate) fn main() {
    let mut args = std::env::args().skip(1);
    let mut program = None;
    let (mut flows, mut turns, mut only_memory, mut only_workers) = (1, 5, false, false);
    let mut client = Vec::new();
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse().ok()).expect("a number");
        match arg.as_str() {
            "--flows" => flows = number(),
            "--turns" => turns = number(),
            "--memory" => only_memory = true,
            "--workers" => only_workers = true,
            "--socket-per-flow" => client.push("--socket-per-flow"),
            other if other.starts_with("--") => {
                panic!(
                    "{other} is none of --flows, --turns, --memory, --workers, --socket-per-flow"
                )
            }
            _ => program = Some(arg),
        }
    }
    let program = program.expect("the path of the program lightseal");
    let report = match (only_memory, only_workers) {
        (true, _) => memory(&program, &client, flows),
        (_, true) => workers::compare(&program, turns),
        _ => speed(&program, &client, flows, turns),
    };
    println!("{report}");
}
