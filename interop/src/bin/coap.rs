//! Unmodified CoAP programs through two proxies and a lossy relay.

use clap::Parser;
use interop::trial::Trial;
use serde_json::json;

/// Puts and gets CoAP resources through two `lightseal proxy` processes and a `lightseal impair`
/// between them, and counts failures and retransmissions.
#[derive(Parser)]
struct Arguments {
    /// Percent of datagrams that the relay loses, each way.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=90))]
    loss: u8,
    /// The scheme by which both proxies aggregate, such as agg:8 [default: none].
    #[arg(long, value_name = "SCHEME")]
    aggregate: Option<String>,
    /// Number of concurrent users.
    #[arg(long, default_value_t = 6)]
    users: usize,
    /// How many times each user puts and gets a resource.
    #[arg(long, default_value_t = 4)]
    rounds: usize,
    /// Bytes of each representation, at most 1024.
    #[arg(long, default_value_t = 1000)]
    bytes: usize,
    /// Seed of the relay's random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let trial = Trial {
        loss_percent: arguments.loss,
        scheme: arguments.aggregate.as_deref(),
        users: arguments.users,
        rounds: arguments.rounds,
        bytes: arguments.bytes,
        seed: arguments.seed,
    };
    let folder = std::env::temp_dir().join(format!("lightseal-coap-{}", std::process::id()));
    let outcome = trial.run(&folder);
    // The folder is named after this process. If it cannot be removed, a few kilobytes stay.
    let _ = std::fs::remove_dir_all(&folder);
    let (rounds, lost) = (trial.users * trial.rounds, outcome.lost());
    if arguments.json {
        let line = json!({
            "rounds": rounds,
            "tried_again": outcome.tried_again,
            "wrong": outcome.wrong,
            "messages": outcome.messages,
            "retransmissions": outcome.retransmissions,
            "lost": lost,
            "client": outcome.report.client,
            "relay": outcome.report.relay,
            "server": outcome.report.server,
        });
        println!("{line}");
    } else {
        println!(
            "{rounds} rounds, {} wrong, {} tried again; {} CoAP messages, {} retransmitted; \
             {lost} datagrams lost",
            outcome.wrong, outcome.tried_again, outcome.messages, outcome.retransmissions
        );
    }
}
