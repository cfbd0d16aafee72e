//! `lightseal group admin`.

use crate::failure::{Context, Failure};
use crate::table::Table;
use crate::units::Quantity;
use clap::{Args, Subcommand};
use lightseal_core::Random;
use lightseal_group_host::service::{
    AdminRequest, Announcements, AskError, CreateRequest, Described, DescribedDevice, Enrol,
    Registry, ask, serve,
};
use lightseal_group_host::store::{ControllerStore, Entry};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub(crate) struct AdminArgs {
    /// The controller's directory. The controller may be stopped, but members learn of changes only
    /// while it runs.
    #[arg(long, value_name = "DIR", global = true, default_value = ".")]
    pub(crate) state: PathBuf,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: AdminCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Create a group.
    Create(Box<CreateArgs>),
    /// End a group: its members get no new keys.
    Remove {
        /// Name of the group.
        group: String,
    },
    /// List groups.
    List,
    /// Show a group and its members.
    Show {
        /// Name of the group.
        group: String,
    },
    /// Allow a device to join groups, and print the secret token with which it enrols.
    Enrol(Box<EnrolArgs>),
    /// List devices.
    Devices,
    /// Remove a device, and evict it from all groups.
    Revoke {
        /// Name of the device.
        device: String,
    },
    /// Evict a device from a group at once. It can join again only after `readmit`.
    Evict {
        /// Name of the group.
        group: String,
        /// Name of the device.
        device: String,
    },
    /// Let a device join again that was evicted, or that must wait because it has joined often.
    Readmit {
        /// Name of the group.
        group: String,
        /// Name of the device.
        device: String,
    },
    /// Give a group new keys.
    Rekey {
        /// Name of the group.
        group: String,
        /// Use the new keys without delay. Members that learn of them late miss what is sent until
        /// then.
        #[arg(long)]
        at_once: bool,
    },
    /// Copy the controller's store into another directory. The copy holds all keys: keep it secret.
    Backup {
        /// Directory for the copy, which must not hold a controller's store.
        directory: PathBuf,
    },
    /// Show the log: who was enrolled, joined, left, was evicted or revoked, and every rekey.
    Log {
        /// Show only entries about this group.
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
        /// Show only entries about this device.
        #[arg(long, value_name = "NAME")]
        device: Option<String>,
        /// Show the last N entries.
        #[arg(long, value_name = "N", default_value_t = 100)]
        last: usize,
    },
    /// Replace the store of a stopped controller by a copy. A device that was evicted after the
    /// copy was made is a member again.
    Restore {
        /// Directory that `backup` wrote.
        directory: PathBuf,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the group.
    pub(crate) group: String,
    /// Multicast address and port of the group's requests, such as `[ff15::abcd]:5684` or
    /// `239.1.2.3:5684`.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) address: SocketAddr,
    /// Format of records: `compact`, or `axiom-1.2` as in the paper of that name.
    #[arg(long, value_name = "NAME", default_value = "compact")]
    pub(crate) profile: String,
    /// Cipher suite: ccm, ccm-8, lightmac, lightmac-8, gcm or chacha20; for axiom-1.2 ccm-8, ccm,
    /// gcm, chacha20 or null, which does not encrypt [default: the first suite of the profile].
    #[arg(long, value_name = "NAME")]
    pub(crate) suite: Option<String>,
    /// What a record proves: that a member sent it (`group`), or which member sent it (`source`).
    #[arg(long, value_name = "WHAT", default_value = "group")]
    pub(crate) authenticity: String,
    /// Members that can read and write a response: all (`group`), or only its sender and its
    /// receiver (`pairwise`).
    #[arg(long, value_name = "WHO", default_value = "group")]
    pub(crate) responses: String,
    /// What a listener does that restarted or hears a sender for the first time: wait for a new
    /// epoch (`new-epoch`), ask the sender (`challenge`), or take its first record only as a
    /// reference (`drop-first`).
    #[arg(long, value_name = "HOW", default_value = "new-epoch")]
    pub(crate) freshness: String,
    /// Collect joins and leaves for this long into one rekey.
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub(crate) batch: Quantity<Duration>,
    /// Time from a rekey to the first record under the new keys.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub(crate) activation: Quantity<Duration>,
    /// Time after that in which records under the old keys are still accepted, at most 60s.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) retention: Quantity<Duration>,
    /// Interval at which the keys are renewed; 0 for never.
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub(crate) renewal: Quantity<Duration>,
    /// Maximum number of members.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) most_members: u32,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct EnrolArgs {
    /// Name of the device.
    pub(crate) device: String,
    /// Allow the device to send requests.
    #[arg(long, required_unless_present = "listener")]
    pub(crate) sender: bool,
    /// Allow the device to answer requests.
    #[arg(long)]
    pub(crate) listener: bool,
    /// Group that the device may join; give the flag several times for several groups [default:
    /// all].
    #[arg(long = "group", value_name = "NAME")]
    pub(crate) groups: Vec<String>,
    /// Address at which the device finds the controller.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) controller: String,
    /// How many times the token can enrol a device; 0 for any number. Each enrolment gives the
    /// device a key of its own, so a device that keeps its state does not need the token again.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) uses: u32,
    /// How long the token can be used [default: forever].
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<Quantity<Duration>>,
    /// Write the token to this new file, which only its owner can read.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

impl AdminCommand {
    /// The request to the controller; `None` for a command that asks no controller.
    fn request(&self) -> Option<AdminRequest> {
        let millis = |time: Quantity<Duration>| time.0.as_millis() as u64;
        Some(match self.clone() {
            Self::Create(args) => {
                let args = *args;
                AdminRequest::Create(CreateRequest {
                    name: args.group,
                    address: args.address,
                    profile: args.profile,
                    suite: args.suite,
                    authenticity: args.authenticity,
                    responses: args.responses,
                    freshness: args.freshness,
                    batch_ms: millis(args.batch),
                    activation_ms: millis(args.activation),
                    retention_s: args.retention.0.as_secs(),
                    renewal_s: args.renewal.0.as_secs(),
                    most_members: args.most_members,
                })
            }
            Self::Remove { group } => AdminRequest::Remove { group },
            Self::List => AdminRequest::List,
            Self::Show { group } => AdminRequest::Show { group },
            Self::Enrol(args) => {
                let EnrolArgs { device, sender, listener, groups, controller, .. } = *args;
                let uses = Some(args.uses).filter(|uses| *uses > 0);
                let expires_s = args.expires.map(|time| time.0.as_secs().max(1));
                let enrol = Enrol { device, sender, listener, groups, controller, uses, expires_s };
                AdminRequest::Enrol(enrol)
            }
            Self::Devices => AdminRequest::Devices,
            Self::Revoke { device } => AdminRequest::Revoke { device },
            Self::Evict { group, device } => AdminRequest::Evict { group, device },
            Self::Readmit { group, device } => AdminRequest::Readmit { group, device },
            Self::Rekey { group, at_once } => AdminRequest::Rekey { group, at_once },
            Self::Backup { directory } => {
                let directory = std::path::absolute(&directory).unwrap_or(directory);
                AdminRequest::Backup { directory }
            }
            Self::Log { group, device, last } => AdminRequest::Log { most: last, group, device },
            Self::Restore { .. } => return None,
        })
    }
}

pub(super) async fn run(args: &AdminArgs) -> Result<(), Failure> {
    let at = args.state.display();
    let Some(request) = args.command.request() else {
        let AdminCommand::Restore { directory } = &args.command else { return Ok(()) };
        let mut rng = Random::from_os().context("no randomness")?;
        ControllerStore::restore(directory, &args.state, &mut rng).context("restore")?;
        return Ok(());
    };
    let out = match &args.command {
        AdminCommand::Enrol(enrol) => enrol.out.as_deref().map(TokenFile::create).transpose()?,
        _ => None,
    };
    let done = match ask(&args.state, &request).await {
        Ok(done) => done,
        Err(AskError::NotRunning) if request.is_announced() => {
            return Err(Failure::new(format_args!("no controller runs on {at}")));
        }
        Err(AskError::NotRunning) => {
            let makes = matches!(args.command, AdminCommand::Create(_) | AdminCommand::Enrol(_));
            if !makes && !args.state.join("controller.redb").exists() {
                return Err(Failure::new(format_args!("{at} holds no controller")));
            }
            let store = ControllerStore::open(&args.state).context(at)?;
            let (now, rng) =
                (lightseal_net::Clock::start().now(), Random::from_os().context("no randomness")?);
            let mut registry = Registry::open(store, now, rng).context(args.state.display())?;
            serve(&mut registry, now, request).map_err(Failure::new)?
        }
        Err(AskError::Socket(error)) => {
            return Err(Failure::new(format_args!("{at}: {error}")));
        }
        Err(error) => return Err(Failure::new(error)),
    };
    if let Some(out) = out {
        return out.write(done["token"].as_str().unwrap_or_default());
    }
    let text = if args.json { done.to_string() } else { as_text(&args.command, &done)? };
    if text.is_empty() {
        return Ok(());
    }
    writeln!(std::io::stdout(), "{}", text.trim_end()).context("standard output")
}

/// A new file for a token. It is created before the device is enrolled, because a token is shown
/// only once.
struct TokenFile<'a> {
    path: &'a Path,
    file: std::fs::File,
    is_written: bool,
}

impl<'a> TokenFile<'a> {
    fn create(path: &'a Path) -> Result<Self, Failure> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).context(format_args!("--out {}", path.display()))?;
        Ok(Self { path, file, is_written: false })
    }

    fn write(mut self, token: &str) -> Result<(), Failure> {
        let written = writeln!(self.file, "{token}").and_then(|()| self.file.sync_all());
        written.context(format_args!("--out {}", self.path.display()))?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for TokenFile<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            let _ = std::fs::remove_file(self.path);
        }
    }
}

fn as_text(command: &AdminCommand, done: &Value) -> Result<String, Failure> {
    let read = "the controller's answer";
    Ok(match command {
        AdminCommand::List => {
            let groups: Vec<Described> = serde_json::from_value(done.clone()).context(read)?;
            let mut table =
                Table::new(&["GROUP", "ADDRESS", "PROFILE", "SUITE", "EPOCH", "MEMBERS"]);
            for group in groups {
                let Described { name, address, profile, suite, epoch, members, .. } = group;
                let (epoch, members) = (epoch.to_string(), members.to_string());
                table.row([name, address.to_string(), profile, suite, epoch, members]);
            }
            table.text()
        }
        AdminCommand::Create(_)
        | AdminCommand::Show { .. }
        | AdminCommand::Evict { .. }
        | AdminCommand::Rekey { .. } => shown(&serde_json::from_value(done.clone()).context(read)?),
        AdminCommand::Devices => {
            let devices: Vec<DescribedDevice> =
                serde_json::from_value(done.clone()).context(read)?;
            let mut table =
                Table::new(&["DEVICE", "MAY", "GROUPS", "MEMBER OF", "EVICTED FROM", "TOKEN USES"]);
            for device in devices {
                let groups = match &device.groups[..] {
                    [] => "all".to_owned(),
                    groups => groups.join(", "),
                };
                let may = roles(device.sender, device.listener).to_owned();
                let (of, from) = (device.member_of.join(", "), device.evicted_from.join(", "));
                let uses =
                    device.uses_left.map_or_else(|| "any".to_owned(), |uses| uses.to_string());
                table.row([device.device, may, groups, of, from, uses]);
            }
            table.text()
        }
        AdminCommand::Log { .. } => {
            let entries: Vec<Entry> = serde_json::from_value(done.clone()).context(read)?;
            let mut table = Table::new(&["TIME", "GROUP", "DEVICE", "EVENT", ""]);
            for entry in entries {
                let Entry { at_ms, event, group, device, detail } = entry;
                let [group, device] =
                    [group, device].map(|name| name.unwrap_or_else(|| "-".into()));
                table.row([utc(at_ms), group, device, event, detail]);
            }
            table.text()
        }
        AdminCommand::Enrol(_) => done["token"].as_str().unwrap_or_default().to_owned(),
        _ => String::new(),
    })
}

const fn roles(sender: bool, listener: bool) -> &'static str {
    match (sender, listener) {
        (true, true) => "both",
        (true, false) => "sender",
        _ => "listener",
    }
}

fn shown(group: &Described) -> String {
    let mut text = String::new();
    let Described { name, id, address, profile, suite, .. } = group;
    let _ = writeln!(text, "{name}: {address}, {profile}, {suite}, epoch {}", group.epoch);
    let _ = writeln!(
        text,
        "GroupID {id}, authenticity {}, responses {}, freshness {}, members {}",
        group.authenticity, group.responses, group.freshness, group.members
    );
    if !group.unusable.is_empty() {
        let (count, names) = (group.unusable.len(), group.unusable.join(", "));
        let _ = writeln!(text, "X25519 keys of small order {count}: evict {names}");
    }
    if let Some(Announcements { sent, failed, failure }) = &group.announcements {
        let _ = write!(text, "announcements sent {sent}, failed {failed}");
        let _ = match failure {
            Some(why) => writeln!(text, "; the group has not heard the last one: {why}"),
            None => writeln!(text),
        };
    }
    let Some(members) = group.roster.as_deref().filter(|members| !members.is_empty()) else {
        return text;
    };
    let mut table =
        Table::new(&["DEVICE", "ROLE", "LISTENER-ID", "SENDER-ID", "ADDRESS", "COPIES REFUSED"]);
    for member in members {
        let role = roles(member.sender_id.is_some(), member.listener).to_owned();
        let sender = member.sender_id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let listener = member.listener_id.to_string();
        let (address, clones) = (member.address.to_string(), member.clones.to_string());
        table.row([member.device.clone(), role, listener, sender, address, clones]);
    }
    text + &table.text()
}

/// A time of the log in the format of RFC 3339, by the algorithm `civil_from_days` of Howard
/// Hinnant's chrono notes.
fn utc(at_ms: u64) -> String {
    let seconds = at_ms / 1000;
    let days = seconds / 86_400 + 719_468;
    let era_day = days % 146_097;
    let year_of_era = (era_day - era_day / 1460 + era_day / 36_524 - era_day / 146_096) / 365;
    let day_of_year = era_day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + days / 146_097 * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_826_154_000), "2000-02-29T12:09:14Z");
        assert_eq!(utc(1_763_885_761_999), "2025-11-23T08:16:01Z");
    }
}
