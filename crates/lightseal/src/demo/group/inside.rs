//! A group inside one process, over multicast on loopback.

use super::{Narration, Outcome, TempDir, interrupted, interruption};
use crate::failure::{Context, Failure};
use crate::system::Signals;
use lightseal_core::Random;
use lightseal_group::control::{GroupName, RoleSet};
use lightseal_group_host::member::relay::{self, Relay};
use lightseal_group_host::member::{AfterEviction, Device, Options};
use lightseal_group_host::service::{self, AdminRequest, CreateRequest, Enrol, Service, ask};
use lightseal_group_host::token::Token;
use lightseal_net::multicast::Interface;
use lightseal_net::socket;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

const GROUP: &str = "lights";
/// The applications' port, as the group knows it.
const PORT: u16 = 5683;
/// A timeout that is longer than any answer takes on loopback.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for answers beyond those that are expected.
const QUIET: Duration = Duration::from_millis(500);

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn bind(port: u16) -> Result<UdpSocket, Failure> {
    socket::bind(loopback(port)).context("a socket on loopback")
}

/// The controller's directory, through which the controller is administered.
struct ControllerAdmin(PathBuf);

impl ControllerAdmin {
    async fn ask(&self, request: AdminRequest) -> Result<Value, Failure> {
        ask(&self.0, &request).await.context("controller")
    }

    async fn enrol(&self, device: &str, controller: SocketAddr) -> Result<Token, Failure> {
        let enrol = Enrol {
            device: device.to_owned(),
            sender: true,
            listener: true,
            groups: Vec::new(),
            identities: Vec::new(),
            controller: Some(controller.to_string()),
            uses: Some(1),
            expires_s: None,
        };
        let done = self.ask(AdminRequest::Enrol(enrol)).await?;
        Token::parse(done["token"].as_str().unwrap_or_default()).context("token")
    }

    async fn epoch(&self) -> Result<u64, Failure> {
        let done = self.ask(AdminRequest::Show { group: GROUP.to_owned() }).await?;
        Ok(done["epoch"].as_u64().unwrap_or_default())
    }
}

fn described(address: SocketAddr) -> CreateRequest {
    CreateRequest {
        name: GROUP.to_owned(),
        address,
        profile: "compact".to_owned(),
        suite: None,
        authenticity: "group".to_owned(),
        responses: "group".to_owned(),
        freshness: "new-epoch".to_owned(),
        batch_ms: 50,
        activation_ms: 200,
        retention_s: 5,
        renewal_s: 0,
        most_members: 100,
    }
}

/// A service that answers with its name, and counts the requests.
async fn serve(socket: UdpSocket, name: String, asked: Arc<AtomicUsize>) {
    let mut buf = [0; 2048];
    while let Ok((_, from)) = socket.recv_from(&mut buf).await {
        asked.fetch_add(1, Ordering::Relaxed);
        let _ = socket.send_to(name.as_bytes(), from).await;
    }
}

/// Joins the group with a device that stays in it until the demonstration ends, even when its
/// controller evicts it.
async fn join(
    state: &Path,
    token: Token,
    listen: bool,
    service: Option<SocketAddr>,
    tasks: &mut JoinSet<()>,
) -> Result<Option<SocketAddr>, Failure> {
    let device = Device::open(state, Some(token), Random::from_os().context("no randomness")?);
    let device = device.context(state.display())?;
    let group = GroupName::new(GROUP).ok_or_else(|| Failure::new(GROUP))?;
    let roles = RoleSet { sender: listen, listener: service.is_some() };
    let interface = Interface::loopback().context("loopback")?;
    let mut options = Options::new(group, roles, interface, Ipv4Addr::LOCALHOST.into());
    options.after_eviction = AfterEviction::Continue;
    let ports = relay::Options { listen: listen.then(|| loopback(0)), service, port: PORT };
    let mut relay = Relay::open(ports).context("a UDP port")?;
    let local = relay.local_addr().context("a UDP port")?;
    let mut host = device.join(options).await.context("join")?;
    tasks.spawn(async move { drop(host.run(&mut relay).await) });
    Ok(local)
}

/// Sends one request to the group, and returns all answers. Waits for the `expected` ones on a busy
/// machine too.
async fn request(port: SocketAddr, expected: usize) -> Result<Vec<String>, Failure> {
    let socket = socket::connect(port).context("an application")?;
    socket.send(b"GET /temperature").await.context("an application")?;
    let mut answers = Vec::new();
    let mut buf = [0; 2048];
    loop {
        let wait = match answers.len() {
            few if few < expected => PATIENCE,
            0 => QUIET * 2,
            _ => QUIET,
        };
        let Ok(received) = tokio::time::timeout(wait, socket.recv(&mut buf)).await else { break };
        let len = received.context("an application")?;
        answers.push(String::from_utf8_lossy(&buf[..len]).into_owned());
    }
    answers.sort();
    Ok(answers)
}

pub(super) async fn run(
    servers: usize,
    narration: Narration,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    let scratch = TempDir::make()?;
    let mut tasks = JoinSet::new();
    let outcome = tokio::select! {
        outcome = demonstrate(servers, narration, scratch.path(), &mut tasks) => outcome,
        () = interrupted(signals) => Err(interruption()),
    };
    // The directory can be removed only when no task writes to it any more.
    tasks.shutdown().await;
    outcome
}

async fn demonstrate(
    servers: usize,
    narration: Narration,
    scratch: &Path,
    tasks: &mut JoinSet<()>,
) -> Result<Outcome, Failure> {
    let at = |name: &str| scratch.join(name);
    let admin = ControllerAdmin(at("controller"));
    let interface = Interface::loopback().context("loopback")?;
    let options = service::Options::new(loopback(0), interface);
    let rng = Random::from_os().context("no randomness")?;
    let controller = Service::start(&admin.0, options, rng).context("controller")?;
    let address = controller.local_addr().context("controller")?;
    tasks.spawn(async move { drop(controller.run().await) });

    // A port that no socket uses at the moment.
    let port = bind(0)?.local_addr().context("a port")?.port();
    let group = SocketAddr::from((Ipv4Addr::new(239, 255, 71, 1), port));
    admin.ask(AdminRequest::Create(described(group))).await?;
    narration.say(format_args!("a controller at {address}, group {GROUP} at {group}"));

    let began = Instant::now();
    let asked: Vec<Arc<AtomicUsize>> = (0..servers).map(|_| Arc::default()).collect();
    let mut evicted_port = None;
    for (nth, asked) in asked.iter().enumerate() {
        let name = format!("server {}", nth + 1);
        let service = bind(0)?;
        let local = service.local_addr().context("a service")?;
        tasks.spawn(serve(service, name.clone(), Arc::clone(asked)));
        let token = admin.enrol(&name, address).await?;
        let is_last = nth + 1 == servers;
        let port = join(&at(&name), token, is_last, Some(local), tasks).await?;
        evicted_port = evicted_port.or(port);
    }
    let token = admin.enrol("client", address).await?;
    let client = join(&at("client"), token, true, None, tasks).await?;
    let joined_ms = began.elapsed().as_millis() as u64;
    let (Some(client), Some(evicted_port)) = (client, evicted_port) else {
        return Err(Failure::new("no port for applications"));
    };
    narration.say(format_args!("{} devices are in after {joined_ms} ms", servers + 1));

    let answers = request(client, servers).await?;
    narration.say(format_args!("one request, answers: {}", answers.join(", ")));

    let last = format!("server {servers}");
    let answers_to_evicted = request(evicted_port, servers - 1).await?.len();
    let before = admin.epoch().await?;
    let began = Instant::now();
    let evict = AdminRequest::Evict { group: GROUP.to_owned(), device: last.clone() };
    admin.ask(evict).await?;
    while admin.epoch().await? == before {
        if began.elapsed() > PATIENCE {
            return Err(Failure::new("the controller does not begin another epoch"));
        }
    }
    let evicted_ms = began.elapsed().as_millis() as u64;
    narration.say(format_args!("{last} is evicted; a new epoch after {evicted_ms} ms"));
    // The members learn of the eviction by multicast.
    tokio::time::sleep(QUIET).await;
    let read = || asked.last().map_or(0, |asked| asked.load(Ordering::Relaxed));
    let read_before = read();
    let after = request(client, servers - 1).await?;
    narration.say(format_args!("one request, answers: {}", after.join(", ")));
    let evicted_answers = request(evicted_port, 0).await?.len();
    let evicted_read = read() - read_before;
    Ok(Outcome {
        form: "in-process",
        servers,
        joined_ms,
        answers: answers.len(),
        answers_to_evicted,
        evicted_ms,
        answers_after: after.len(),
        evicted_read,
        evicted_answers,
    })
}
