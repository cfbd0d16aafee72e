//! A server proxy alone: clients' records are sealed beforehand and sent while the proxy is stopped, so that
//! what sends takes no processor from it, and the service discards what it gets.

use super::{KEY, PATIENCE, Processes, proxy, spread};
use lightseal_core::{Instant as EngineTime, Random, Sent};
use lightseal_dtls::{
    ClientConfig, Connection, ConnectionIds, Event, Psk, RecordNumbers, Settings,
};
use lightseal_net::blocking::Driver;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::program::TempDir;

/// The numbers of workers that are compared.
const WORKERS: [usize; 2] = [1, 2];
/// Flows of each worker.
const FLOWS: usize = 16;
/// Records of each flow.
const RECORDS: usize = 12_000;
/// Records that are sent in one call.
const AT_ONCE: usize = 40;
/// Length of each message in bytes.
const MESSAGE: usize = 64;
/// The bytes that wait for each worker, as the kernel counts them, when the proxy goes on. Its receive buffers
/// hold more.
const WAITING: u64 = 6_500_000;
/// How often it is looked whether the proxy still works.
const LOOK: Duration = Duration::from_micros(500);

/// A client with its records, one behind the other.
struct Flow {
    socket: UdpSocket,
    records: Vec<u8>,
    /// Length of each record in bytes.
    record: usize,
    sent: usize,
}

/// A client whose handshake is complete.
fn client(server: SocketAddr, number: u64) -> Driver<Connection> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut settings = Settings::new(&lightseal_dtls::crypto::rustcrypto::PROVIDER);
    settings.connection_ids = ConnectionIds::of_bytes(0);
    settings.record_numbers = RecordNumbers::Long;
    let key: Vec<_> = (0..16).collect();
    let config = ClientConfig::with(Psk::external(b"sensor", &key).unwrap(), settings).unwrap();
    let rng = Random::insecure(number);
    let connection = Connection::client(Arc::new(config), server, EngineTime::ZERO, rng);
    let mut driver = Driver::new(socket, connection);
    let (begun, mut connected) = (Instant::now(), false);
    while !connected {
        assert!(begun.elapsed() < PATIENCE, "no handshake");
        let turned = driver.turn(Duration::from_millis(5), |_, event| {
            connected |= matches!(event, Event::Connected(_));
        });
        turned.unwrap();
    }
    // What belongs to the handshake's end.
    for _ in 0..20 {
        driver.turn(Duration::from_millis(1), |_, _| {}).unwrap();
    }
    driver
}

impl Flow {
    fn new(mut driver: Driver<Connection>, server: SocketAddr) -> Self {
        let socket = driver.socket().try_clone().unwrap();
        let mut records = Vec::new();
        let mut buf = [0; 256];
        let mut record = 0;
        while records.len() < RECORDS * record || records.is_empty() {
            let sealed =
                driver.call(|connection, now| connection.send(now, &[0x5a; MESSAGE], &mut buf));
            let Ok(Sent::Datagram { len, .. }) = sealed else { panic!("not a record: {sealed:?}") };
            assert!(record == 0 || len == record, "records of one length");
            record = len;
            records.extend_from_slice(&buf[..len]);
        }
        socket.connect(server).unwrap();
        socket.set_nonblocking(false).unwrap();
        let segment = i32::try_from(record).expect("a record is short");
        setsockopt(&socket, sockopt::UdpGsoSegment, &segment).unwrap();
        Self { socket, records, record, sent: 0 }
    }

    /// Sends some records. Returns how many there were.
    fn send(&mut self) -> usize {
        let from = self.sent * self.record;
        let to = self.records.len().min(from + AT_ONCE * self.record);
        if from >= to {
            return 0;
        }
        self.socket.send(&self.records[from..to]).unwrap();
        let count = (to - from) / self.record;
        self.sent += count;
        count
    }

    /// The worker that a connection ID of several workers names.
    fn worker(&self) -> usize {
        usize::from(self.records[1])
    }
}

/// How many bytes wait at the sockets with this port, as the kernel counts them.
fn waiting(port: u16) -> u64 {
    let all = std::fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let ending = format!(":{port:04X}");
    let of = all.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next()?;
        let queues = fields.nth(2)?;
        let received = queues.split_once(':')?.1;
        local.ends_with(&ending).then(|| u64::from_str_radix(received, 16).unwrap_or(0))
    });
    of.sum()
}

/// Whether all threads of a process sleep: the third field of proc_pid_stat(5).
fn rests(id: u32) -> bool {
    let mut threads = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    threads.all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, after)| after.starts_with('S'))
    })
}

/// How many messages a proxy has carried to the service, and how many datagrams the kernel dropped.
fn carried(id: u32, file: &Path) -> (u64, u64) {
    let _ = std::fs::remove_file(file);
    let id = id.to_string();
    let status = Command::new("kill").args(["-USR1", &id]).status().unwrap();
    assert!(status.success());
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "no statistics");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let number = |path| value.pointer(path).and_then(Value::as_u64).unwrap_or_default();
            return (number("/inward/messages"), number("/overruns/outer"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Records a second of a proxy with this number of workers, the processors that it took, and how many records the
/// kernel dropped.
fn run(program: &str, workers: usize) -> [f64; 3] {
    let dir = TempDir::new();
    dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    // Nobody reads: the kernel discards what does not fit.
    let service = UdpSocket::bind("127.0.0.1:0").unwrap();
    let file = dir.path("server.json");
    let count = workers.to_string();
    let more = ["--workers", &count, "--connection-ids", "7", "--stats-file", &file];
    let (child, server) = proxy(program, "server", service.local_addr().unwrap(), &dir, &more);
    let id = child.id();
    let processes = Processes(vec![child]);
    let mut flows: Vec<Flow> = Vec::new();
    let mut numbers = 0..;
    while flows.len() < FLOWS * WORKERS[1] {
        let flow = Flow::new(client(server, numbers.next().unwrap_or_default()), server);
        // As many for each worker.
        let worker = |flow: &Flow| if workers > 1 { flow.worker() } else { 0 };
        let same = flows.iter().filter(|other| worker(other) == worker(&flow)).count();
        if same < FLOWS * WORKERS[1] / workers {
            flows.push(flow);
        }
    }
    let (before, dropped) = carried(id, Path::new(&file));
    let processors = processes.processor_us();
    let signal = |signal| kill(Pid::from_raw(id.cast_signed()), signal).unwrap();
    let mut busy = Duration::ZERO;
    loop {
        signal(Signal::SIGSTOP);
        let mut sent = 0;
        while waiting(server.port()) < WAITING * workers as u64 {
            let some: usize = flows.iter_mut().map(Flow::send).sum();
            if some == 0 {
                break;
            }
            sent += some;
        }
        let start = Instant::now();
        signal(Signal::SIGCONT);
        if sent == 0 {
            break;
        }
        while !rests(id) {
            std::thread::sleep(LOOK);
        }
        busy += start.elapsed();
        assert_eq!(waiting(server.port()), 0, "the proxy rests when it has done all");
    }
    let seconds = busy.as_secs_f64();
    let used = (processes.processor_us() - processors) / 1e6 / seconds;
    let (after, dropped_after) = carried(id, Path::new(&file));
    [(after - before) as f64 / seconds, used, (dropped_after - dropped) as f64]
}

/// Compares the numbers of workers, in turns.
pub(super) fn compare(program: &str, turns: usize) -> Value {
    let mut outcomes = WORKERS.map(|_| Vec::new());
    for _ in 0..turns {
        for (workers, outcomes) in WORKERS.into_iter().zip(&mut outcomes) {
            outcomes.push(run(program, workers));
        }
    }
    let column = |of: &[[f64; 3]], at: usize| of.iter().map(|row| row[at]).collect::<Vec<_>>();
    let rows = WORKERS.into_iter().zip(&outcomes).map(|(workers, of)| {
        json!({
            "workers": workers, "rate": spread(&column(of, 0)),
            "proxy": spread(&column(of, 1)), "dropped": column(of, 2).iter().sum::<f64>(),
        })
    });
    let rows: Vec<_> = rows.collect();
    let ratios = outcomes[0].iter().zip(&outcomes[1]).map(|(one, two)| two[0] / one[0]);
    let ratios: Vec<_> = ratios.collect();
    json!({ "turns": turns, "rows": rows, "ratio": spread(&ratios) })
}
