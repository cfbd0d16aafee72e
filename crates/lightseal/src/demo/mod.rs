//! `lightseal demo`: what shared tags save, with real messages on real sockets.
//!
//! - [`readings`]: the messages;
//! - [`session`]: application, proxies, relay and service of one session;
//! - [`view`]: the output while the demo runs;
//! - [`report`]: the results at the end;
//! - [`group`]: the demo of a multicast group.
//!
//! All sessions carry the same messages at the same time and at the same pace.

pub(crate) mod group;
mod readings;
mod report;
mod session;
mod view;

use crate::failure::Failure;
use crate::system::{Signal, Signals};
use crate::units::Quantity;
use clap::{Args, Subcommand};
use group::GroupDemoArgs;
use lightseal_dtls::Scheme;
use lightseal_net::{Impairments, Probability};
use readings::Readings;
use session::{SentLog, Session, SessionResults};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};
use view::{View, ViewResult};

/// How often the messages that are due are sent.
const TICK: Duration = Duration::from_millis(1);

/// How often the view is drawn.
const FRAME: Duration = Duration::from_millis(100);

/// How long the handshakes may take. On loopback they take milliseconds, unless the relay loses
/// half of the datagrams.
const CONNECT: Duration = Duration::from_secs(20);

/// How long nothing must have arrived until no further message is expected.
const QUIET: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Show a group and its controller: one member asks, several answer, one is evicted. As root it
    /// uses unmodified CoAP programs in network namespaces, otherwise it runs inside this process.
    Group(GroupDemoArgs),
}

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    pub(crate) command: Option<DemoCommand>,
    /// Number of messages in each session.
    #[arg(long, value_name = "N", default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(100..=4_000_000))]
    pub(crate) messages: u32,
    /// Messages per second in each session.
    #[arg(long, value_name = "N", default_value_t = 1_300,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// Probability that the relay loses a datagram, in each direction, independently of others.
    #[arg(long, value_name = "P", default_value = "0.25%")]
    pub(crate) loss: Quantity<Probability>,
    /// Seed of the relay's random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Schemes to compare with full tags.
    #[arg(long, value_name = "SCHEME", value_delimiter = ',', default_value = "agg:8,agg:16")]
    pub(crate) schemes: Vec<Scheme>,
    /// Print the results as JSON instead of a view.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print plain lines even to a terminal.
    #[arg(long)]
    pub(crate) plain: bool,
}

/// The parameters of the demo, for the view and the report.
#[derive(Clone, Debug)]
struct DemoParameters {
    messages: u32,
    rate: u32,
    loss: Probability,
    seed: u64,
    source: String,
}

/// Runs the sessions and prints their results.
///
/// # Errors
///
/// If sockets are not available, or a message did not arrive as it was sent.
pub(crate) async fn run(args: &DemoArgs) -> Result<(), Failure> {
    if let Some(DemoCommand::Group(args)) = &args.command {
        return group::run(args).await;
    }
    let mut readings = Readings::new();
    let parameters = DemoParameters {
        messages: args.messages.min(readings::MOST),
        rate: args.rate,
        loss: args.loss.0,
        seed: args.seed,
        source: readings.source(),
    };
    let line = Impairments { loss: parameters.loss, ..Impairments::NONE };
    let log = Arc::new(SentLog::default());
    let schemes = std::iter::once(Scheme::Plain)
        .chain(args.schemes.iter().copied().filter(|scheme| scheme.aggregates()));
    let mut sessions = schemes
        .map(|scheme| Session::start(scheme, &line, parameters.seed, &log))
        .collect::<Result<Vec<_>, _>>()?;
    let mut signals = Signals::listen()?;
    let live = !args.json && !args.plain && std::io::stdout().is_terminal();
    let mut view = View::new(live, args.json, &parameters);

    connect(&mut sessions, &mut readings, &log).await?;
    let started = Instant::now();
    let mut tick = tokio::time::interval(TICK);
    let mut next_frame = started;
    let mut complete = true;
    while readings.taken() < parameters.messages {
        tokio::select! {
            _ = tick.tick() => {}
            // A terminal that is closed sends SIGHUP. A demo has no files to read again, so it
            // stops.
            signal = signals.next() => if matches!(signal, Signal::Stop | Signal::Reload) {
                complete = false;
                break;
            }
        }
        let due = (started.elapsed().as_secs_f64() * f64::from(parameters.rate)) as u32;
        while readings.taken() < due.saturating_add(1).min(parameters.messages)
            && sessions.iter().all(Session::has_room)
        {
            send(&mut sessions, &mut readings, &log).await?;
        }
        if Instant::now() >= next_frame {
            next_frame += FRAME;
            let results: Vec<_> = sessions.iter().map(Session::results).collect();
            match view.show(&results, started.elapsed()) {
                ViewResult::Continue => {}
                ViewResult::Stop => {
                    complete = false;
                    break;
                }
                ViewResult::Gone => return Err(Failure::new("standard output was closed")),
            }
        }
    }
    settle(&sessions).await;
    let results: Vec<_> = sessions.iter().map(Session::results).collect();
    drop(view);
    report::print(&parameters, &results, started.elapsed(), complete, args.json)?;
    verify(&results)
}

/// Opens each session by sending a first message.
async fn connect(
    sessions: &mut [Session],
    readings: &mut Readings,
    log: &SentLog,
) -> Result<(), Failure> {
    send(sessions, readings, log).await?;
    let deadline = Instant::now() + CONNECT;
    while !sessions.iter().all(Session::is_connected) {
        if Instant::now() >= deadline {
            return Err(Failure::new("no handshake got through: too much loss"));
        }
        tokio::time::sleep(TICK).await;
    }
    Ok(())
}

async fn send(
    sessions: &mut [Session],
    readings: &mut Readings,
    log: &SentLog,
) -> Result<(), Failure> {
    let message = readings.take();
    log.push(message);
    for session in sessions {
        session.send(&message).await?;
    }
    Ok(())
}

/// Waits until no more messages arrive.
async fn settle(sessions: &[Session]) {
    let received = || sessions.iter().map(Session::received).sum::<u64>();
    let (mut last, mut since) = (received(), Instant::now());
    while since.elapsed() < QUIET {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = received();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// Checks what every session must fulfil: each message arrives unchanged, and only once.
fn verify(results: &[SessionResults]) -> Result<(), Failure> {
    for session in results {
        if session.identical != session.delivered || session.repeated != 0 {
            return Err(Failure::new(format_args!(
                "{}: {} messages arrived, {} of them as they were sent, and {} more than once",
                session.scheme, session.delivered, session.identical, session.repeated
            )));
        }
    }
    Ok(())
}
