//! The flags of `lightseal proxy`.

use super::drain_command::ProxyDrainArgs;
use super::fleet::slots::NodeNumber;
use super::limits::LimitArgs;
#[cfg(feature = "fleet")]
use super::nft::FleetNftArgs;
use super::source_address::SourcePrefix;
use super::source_address::nft::SourceNftArgs;
#[cfg(feature = "fleet")]
use super::state::reseal::ResealArgs;
use super::status_command::ProxyStatusArgs;
use super::workers::parse_count;
use crate::aggregate::Aggregate;
use crate::config_args::ConfigArgs;
use crate::credential::args::{CredentialArgs, HEADING as CREDENTIALS};
use crate::credential::lookup::args::KeySourceArgs;
use crate::database::StoreUrl;
use crate::named::{name, one_of};
use crate::offer::OfferArgs;
use crate::service::ServiceArgs;
use crate::units::{Bytes, Quantity};
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use lightseal_cli::when_full::when_full;
use lightseal_dtls::{Delivery, RecordNumbers, WhenFull};
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

/// The heading of the flags of stored associations in help texts.
const STATE: &str = "Associations that survive the proxy";

#[derive(Debug, Subcommand)]
pub(crate) enum ProxyCommand {
    /// Run a proxy in front of applications: each application address gets its own association.
    Client(Box<ProxyClientArgs>),
    /// Run a proxy in front of the service that answers the applications.
    Server(Box<ProxyServerArgs>),
    /// Make a file with a new key, under which a server proxy seals what it stores in --state.
    StateKey {
        /// The file. Only this user can read it, and it must not exist yet.
        file: PathBuf,
    },
    /// Print rules for nft, with which Linux drops what other users than the proxy's send from the
    /// addresses of --source-address.
    SourceNft(SourceNftArgs),
    /// Print the tables and functions for --psk-table, to be loaded into a PostgreSQL database.
    #[cfg(feature = "fleet")]
    KeyTable,
    /// Tools for several server proxies that share their associations.
    #[cfg(feature = "fleet")]
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Show what the proxies of this user carry and for which peers, and what was dropped and why.
    Status(ProxyStatusArgs),
    /// Tell a proxy to take no new flows and to end when those that it has are silent.
    Drain(ProxyDrainArgs),
}

#[cfg(feature = "fleet")]
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Print rules for nft, with which a Linux machine shares out the datagrams of a fleet's address
    /// among the nodes: by connection ID where there is one, else by the sender's address. It keeps
    /// no state. The answers of the nodes must pass through the same machine, or the nodes load these
    /// rules too.
    Nft(Box<FleetNftArgs>),
    /// Seal all stored associations anew, under a new key, while the nodes run. It can be ended and run
    /// again, and says when the former key is not needed any more.
    Reseal(Box<ResealArgs>),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyClientArgs {
    #[command(flatten)]
    pub(crate) file: ConfigArgs,
    #[command(flatten)]
    pub(crate) proxy: ProxyArgs,
    /// Identity of the key to use [default: the identity in the first line of the PSK file].
    #[arg(long, value_name = "NAME", help_heading = CREDENTIALS)]
    pub(crate) identity: Option<String>,
    /// Name that the server's certificate must have, which is also sent to the server (SNI)
    /// [default: the HOST of --connect].
    #[arg(long, value_name = "NAME", help_heading = CREDENTIALS)]
    pub(crate) name: Option<String>,
    /// Send the server an empty record to ask whether it still answers: when a flow has been silent
    /// for this long in either direction, and when an answer is missing from a service that usually
    /// answers. 0 for never.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) keepalive: Quantity<Duration>,
    /// Give each flow a socket of its own. Without this, flows share sockets if both ends use
    /// connection IDs and the server is a server proxy.
    #[arg(long)]
    pub(crate) socket_per_flow: bool,
    /// Carry what all ports of one local address send over one flow. Answers go to the port that sent
    /// last. For programs that use another port each time, which would need a handshake each time.
    #[arg(long)]
    pub(crate) flow_per_host: bool,
    /// Do not test the key with a handshake at the start.
    #[arg(long)]
    pub(crate) no_check: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyServerArgs {
    #[command(flatten)]
    pub(crate) file: ConfigArgs,
    #[command(flatten)]
    pub(crate) proxy: ProxyArgs,
    /// DANGER: also accept clients that prove no identity. Without it a server with a certificate or
    /// key needs --ca or --pin, and refuses all others that have no pre-shared key.
    #[arg(long, help_heading = CREDENTIALS)]
    pub(crate) anonymous_clients: bool,
    /// Number of threads that carry datagrams, each with a socket and associations of its own; `auto` for
    /// one for each processor. With several, connection IDs have 7 bytes instead of 4 and name the
    /// thread, and each has an equal share of --max-sessions.
    #[arg(long, value_name = "N|auto", default_value = "1", value_parser = parse_count)]
    pub(crate) workers: NonZeroU8,
    /// Maximum number of associations at a time, unfinished handshakes included [default:
    /// unlimited].
    #[arg(long, value_name = "N")]
    pub(crate) max_sessions: Option<NonZeroUsize>,
    /// Directory in which this proxy stores its associations while it runs, so that they go on without
    /// a handshake when it is started again, also after a crash. No other process may use it, nor a
    /// copy of it [default: associations end with the proxy].
    #[arg(long, value_name = "DIR", help_heading = STATE, requires = "state_key")]
    pub(crate) state: Option<PathBuf>,
    /// File with the key under which associations are sealed in --state, from `lightseal proxy
    /// state-key FILE`. Keep it apart from backups of the directory.
    #[arg(long, value_name = "FILE", help_heading = STATE, requires = "state")]
    pub(crate) state_key: Option<PathBuf>,
    /// File with a key under which some associations in --store are still sealed. New ones are sealed
    /// under --state-key, and `lightseal proxy fleet reseal` seals all others anew.
    #[arg(long, value_name = "FILE", help_heading = STATE, requires = "store")]
    pub(crate) former_state_key: Option<PathBuf>,
    /// PostgreSQL database in which the associations are stored instead, as a URL or as `host=… dbname=…`.
    /// The proxies with one database are a fleet: each goes on with the associations of those that
    /// end. --state then has what this proxy remembers of the database, to see that it was rolled
    /// back. Over a network, `sslmode=verify-full` with `sslrootcert=FILE` encrypts the connection.
    #[arg(long, value_name = "URL", help_heading = STATE, requires = "state")]
    pub(crate) store: Option<StoreUrl>,
    /// Number of this proxy in its fleet, 0 to 255. No other proxy with this database may have it.
    #[arg(long, value_name = "N", default_value = "0", help_heading = STATE, requires = "store")]
    pub(crate) node: NodeNumber,
    /// Address to which other nodes of the fleet pass datagrams on that are for this one [default: the
    /// address of --listen, or else the loopback address, with any port].
    #[arg(long, value_name = "ADDR:PORT", help_heading = STATE, requires = "store")]
    pub(crate) fleet_listen: Option<SocketAddr>,
    /// Encrypt in connection IDs to which part of the fleet they belong, so that who watches cannot tell
    /// which devices share a part. All nodes need this flag, and a router cannot share out such
    /// datagrams: nodes pass them on.
    #[arg(long, help_heading = STATE, requires = "store")]
    pub(crate) scramble_ids: bool,
    /// Declare that a standby of the database that becomes the primary server has all writes that were
    /// confirmed: PostgreSQL's `synchronous_standby_names`, with Patroni `synchronous_mode_strict`. A
    /// failover is then no rollback. Without this flag, nodes take no associations over after one.
    #[arg(long, help_heading = STATE, requires = "store")]
    pub(crate) synchronous_failover: bool,
    /// Forget what --state or --store has stored, also if it is damaged, a copy, or sealed under
    /// another key.
    #[arg(long, help_heading = STATE, requires = "state")]
    pub(crate) forget: bool,
    /// What to do with a new client when --max-sessions associations exist: `refuse` refuses it;
    /// `evict-oldest` ends the association that was accepted first, but rather one of the new
    /// client's own that it no longer uses; `evict-idle:TIME` ends the association that was silent
    /// longest if it was silent for at least TIME, and refuses the new client otherwise [default:
    /// refuse].
    #[arg(long, value_name = "POLICY", value_parser = when_full)]
    pub(crate) when_full: Option<WhenFull>,
    /// Begin each datagram to the service with a header of the PROXY protocol, version 2, which has
    /// the client's address and identity. For services that read it; others take the header for a
    /// part of the message.
    #[arg(long)]
    pub(crate) proxy_protocol: bool,
    /// Prefix from which each identity gets an address of its own, which the service sees and which
    /// stays the same: 127.64.0.0/10 for a service on this host, or an IPv6 prefix of at most 64
    /// bits that is routed to this host. In a prefix with fewer addresses no two identities meet if
    /// there is --state or --store. Other programs of this host can use these addresses too, unless
    /// rules from `lightseal proxy source-nft` keep them from it [default: all messages come from
    /// this host's address].
    #[arg(long, value_name = "PREFIX")]
    pub(crate) source_address: Option<SourcePrefix>,
    #[command(flatten)]
    pub(crate) keys: KeySourceArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Flags that both proxies have.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Address to receive on: from applications (client proxy), or from client proxies (server
    /// proxy).
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,
    /// Print a configuration file with every setting, and exit.
    #[arg(long)]
    pub(crate) sample: bool,
    /// Where to send to: the server proxy (client proxy), or the service (server proxy).
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) connect: Option<String>,
    /// Schemes of shared tags to accept, best first; the other proxy needs one of them too. agg:8
    /// is one tag for eight messages. r2d2:100 is a short tag for each message, which the tags of
    /// later messages strengthen (50, 100, 150 or 200). `off` is a full tag for each message.
    /// `+check`, as in agg:8+check, adds a byte to each message that keeps forged messages from
    /// taking its place. `auto:agg` or `auto:r2d2`, given alone, lets this end change how much is
    /// shared in what it receives, as losses and message lengths demand. `auto` is `auto:agg` if
    /// only verified messages are delivered, else `auto:r2d2`, and accepts both families from the
    /// other end [default: off].
    #[arg(long, value_name = "SCHEME|auto", value_delimiter = ',')]
    pub(crate) aggregate: Option<Vec<Aggregate>>,
    /// When to deliver messages under shared tags: `verified` once they are fully verified;
    /// `progressive:BITS` once tags of BITS bits, 1 to 127, confirm them; `unauthenticated` at
    /// once. If a message was delivered early and turns out to be forged, the log and the counters
    /// report it.
    #[arg(long, value_name = "WHEN", default_value = "verified", value_parser = delivery)]
    pub(crate) deliver: Delivery,
    /// How long a message under shared tags may wait for further messages, before its set is closed
    /// by a tag of its own; 0 for not at all [default: follows the traffic. A message of a dialogue
    /// does not wait, a message of a stream waits at most 200ms, and no message waits if too few
    /// others would come in that time].
    #[arg(long, value_name = "TIME", alias = "silence")]
    pub(crate) max_wait: Option<Quantity<Duration>>,
    /// Drop a message that has waited longer than this for its association; 0 for never.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) max_age: Quantity<Duration>,
    /// Close a flow that carried nothing in either direction for this long.
    #[arg(long, value_name = "TIME", default_value = "5min")]
    pub(crate) idle_timeout: Quantity<Duration>,
    /// Largest UDP payload towards the other proxy, 80 to 9216 bytes. If it is given, the path is
    /// not probed for larger ones [default: 1200, and for messages that need more, as much as
    /// probes find the path to carry, up to the interface's MTU].
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_datagram: Option<Quantity<Bytes>>,
    /// Maximum number of flows at a time. A further flow is refused, unless another network (client
    /// proxy) or identity (server proxy) has at least two flows more: then one of those ends.
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) max_flows: usize,
    /// Length of the record number in each record.
    #[arg(long, value_name = "LENGTH", value_parser = record_numbers(), default_value = "auto")]
    pub(crate) record_numbers: RecordNumbers,
    /// Write statistics as JSON to this file on exit and on SIGUSR1 [default: SIGUSR1 writes them
    /// to standard error, and a line of the log sums them up on exit].
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,
    /// Unix socket on which `lightseal proxy status` asks this proxy, and which only this user and
    /// root can use; `none` for no socket [default: proxy-ROLE-LISTEN.sock in $RUNTIME_DIRECTORY,
    /// in $XDG_RUNTIME_DIR/lightseal, or for root in /run/lightseal].
    #[arg(long, value_name = "PATH|none")]
    pub(crate) status_socket: Option<PathBuf>,
    /// Log a line with schemes, losses, goodput and security level at this interval [default:
    /// never].
    #[arg(long, value_name = "TIME")]
    pub(crate) status: Option<Quantity<Duration>>,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    /// All files of credentials are read again when they change.
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    #[command(flatten)]
    pub(crate) offer: OfferArgs,
}

fn record_numbers() -> impl TypedValueParser<Value = RecordNumbers> {
    one_of([
        (name("auto", "As short as is safe"), RecordNumbers::Auto),
        (name("short", "One byte"), RecordNumbers::Short),
        (name("long", "Two bytes"), RecordNumbers::Long),
    ])
}

/// Reads `verified`, `progressive:BITS` or `unauthenticated`.
fn delivery(text: &str) -> Result<Delivery, String> {
    match text.split_once(':') {
        None if text == "verified" => Ok(Delivery::Verified),
        None if text == "unauthenticated" => Ok(Delivery::Unauthenticated),
        Some(("progressive", "0")) => {
            Err("progressive takes 1 to 127 bits; without any it is `unauthenticated`".into())
        }
        Some(("progressive", bits)) => match bits.parse() {
            Ok(bits @ 1..=127) => Ok(Delivery::Progressive(bits)),
            _ => Err("progressive takes 1 to 127 bits".into()),
        },
        _ => Err("expected `verified`, `progressive:BITS` or `unauthenticated`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_delivery_is_asked_for_by_name() {
        assert_eq!(delivery("verified"), Ok(Delivery::Verified));
        assert_eq!(delivery("progressive:64"), Ok(Delivery::Progressive(64)));
        assert_eq!(delivery("unauthenticated"), Ok(Delivery::Unauthenticated));
        for wrong in ["progressive", "progressive:0", "progressive:128", "progressive:-1", "0", ""]
        {
            assert!(delivery(wrong).is_err(), "{wrong}");
        }
    }
}
