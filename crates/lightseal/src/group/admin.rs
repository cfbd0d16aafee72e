//! `lightseal group admin`.

use crate::failure::{Context, Failure};
use crate::table::Table;
use crate::units::Quantity;
use clap::{Args, Subcommand};
use lightseal_core::Random;
use lightseal_group_host::service::{
    AdminRequest, Announcements, AskError, Described, DescribedDevice, Enrol, NewToken, Registry,
    ask, serve,
};
use lightseal_group_host::store::{ControllerStore, Entry};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
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
#[command(mut_subcommand("create", |create| {
    create
        .mut_arg("batch_ms", |time| time.value_parser(milliseconds))
        .mut_arg("activation_ms", |time| time.value_parser(milliseconds))
        .mut_arg("retention_s", |time| time.value_parser(seconds))
        .mut_arg("renewal_s", |time| time.value_parser(seconds))
}))]
pub(crate) enum AdminCommand {
    #[command(flatten)]
    Request(Box<AdminRequest>),
    /// Allow a device to join groups, and print the secret token with which it enrols.
    #[command(display_order = 4, mut_arg("expires_s", |time| time.value_parser(seconds)))]
    Enrol(Box<EnrolArgs>),
    /// Replace all credentials of a device by a new secret token, which is printed.
    ///
    /// The old token, the key that the device got for it and all other credentials are void, and
    /// associations made with them end. The device's name, its memberships and its keys of groups
    /// stay.
    #[command(display_order = 10, mut_arg("expires_s", |time| time.value_parser(seconds)))]
    NewToken(Box<NewTokenArgs>),
    /// Replace the store of a stopped controller by a copy. A device that was evicted after the
    /// copy was made is a member again.
    Restore {
        /// Directory that `backup` wrote.
        directory: PathBuf,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct EnrolArgs {
    #[command(flatten)]
    pub(crate) request: Enrol,
    /// Write the token to this new file, which only its owner can read.
    #[arg(long, value_name = "FILE", conflicts_with = "identities")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct NewTokenArgs {
    #[command(flatten)]
    pub(crate) request: NewToken,
    /// Write the token to this new file, which only its owner can read.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

fn milliseconds(text: &str) -> Result<u64, &'static str> {
    text.parse().map(|time: Quantity<Duration>| time.0.as_millis() as u64)
}

fn seconds(text: &str) -> Result<u64, &'static str> {
    text.parse().map(|time: Quantity<Duration>| time.0.as_secs())
}

impl AdminCommand {
    /// The request to the controller; `None` for a command that asks no controller.
    fn request(&self) -> Option<AdminRequest> {
        Some(match self {
            Self::Request(request) => match &**request {
                AdminRequest::Backup { directory } => AdminRequest::Backup {
                    directory: std::path::absolute(directory).unwrap_or_else(|_| directory.clone()),
                },
                request => request.clone(),
            },
            Self::Enrol(args) => {
                let mut enrol = args.request.clone();
                enrol.uses = enrol.uses.filter(|uses| *uses > 0);
                enrol.expires_s = enrol.expires_s.map(|seconds| seconds.max(1));
                AdminRequest::Enrol(enrol)
            }
            Self::NewToken(args) => {
                let mut new = args.request.clone();
                new.uses = new.uses.filter(|uses| *uses > 0);
                new.expires_s = new.expires_s.map(|seconds| seconds.max(1));
                AdminRequest::NewToken(new)
            }
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
        AdminCommand::Enrol(enrol) => enrol.out.as_deref(),
        AdminCommand::NewToken(new) => new.out.as_deref(),
        _ => None,
    };
    let out = out.map(TokenFile::create).transpose()?;
    let done = match ask(&args.state, &request).await {
        Ok(done) => done,
        Err(AskError::NotRunning) if request.is_announced() => {
            return Err(Failure::new(format_args!(
                "no controller runs with the state directory {at}"
            )));
        }
        Err(AskError::NotRunning) => {
            // A mistyped directory must not become a new controller, whose tokens no other one knows.
            let makes = matches!(request, AdminRequest::Create(_));
            if !makes && !args.state.join("controller.redb").exists() {
                return Err(Failure::new(format_args!(
                    "--state {at}: this directory holds no controller; `create` and `group controller` \
                     make one"
                )));
            }
            let store = ControllerStore::open(&args.state).context(at)?;
            let (now, rng) =
                (lightseal_net::Clock::start().now(), Random::from_os().context("no randomness")?);
            let mut registry = Registry::open(store, now, rng).context(args.state.display())?;
            serve(&mut registry, now, request.clone()).map_err(Failure::new)?
        }
        Err(AskError::Socket(error)) => {
            return Err(Failure::new(format_args!("{at}: {error}")));
        }
        Err(error) => return Err(Failure::new(error)),
    };
    if let Some(out) = out {
        return out.write(done["token"].as_str().unwrap_or_default());
    }
    let text = if args.json { done.to_string() } else { as_text(&request, &done)? };
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
        let file = lightseal_owner_only::file::create_private(path)
            .context(format_args!("--out {}", path.display()))?;
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

fn as_text(request: &AdminRequest, done: &Value) -> Result<String, Failure> {
    let read = "the controller's answer";
    Ok(match request {
        AdminRequest::List => {
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
        AdminRequest::Create(_)
        | AdminRequest::Show { .. }
        | AdminRequest::Evict { .. }
        | AdminRequest::Rekey { .. } => shown(&serde_json::from_value(done.clone()).context(read)?),
        AdminRequest::Devices => {
            let devices: Vec<DescribedDevice> =
                serde_json::from_value(done.clone()).context(read)?;
            let mut table = Table::new(&[
                "DEVICE",
                "MAY",
                "GROUPS",
                "MEMBER OF",
                "EVICTED FROM",
                "TOKEN USES",
                "CREDENTIALS",
            ]);
            for device in devices {
                let groups = match &device.groups[..] {
                    [] => "all".to_owned(),
                    groups => groups.join(", "),
                };
                let may = roles(device.sender, device.listener).to_owned();
                let (of, from) = (device.member_of.join(", "), device.evicted_from.join(", "));
                let credentials: Vec<String> =
                    device.credentials.iter().map(ToString::to_string).collect();
                let uses = match device.uses_left {
                    _ if !device.has_token() => "-".to_owned(),
                    None => "any".to_owned(),
                    Some(uses) => uses.to_string(),
                };
                let credentials = credentials.join(", ");
                table.row([device.device, may, groups, of, from, uses, credentials]);
            }
            table.text()
        }
        AdminRequest::Log { .. } => {
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
        AdminRequest::Enrol(_) | AdminRequest::NewToken(_) => {
            done["token"].as_str().unwrap_or_default().to_owned()
        }
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
    use super::{AdminArgs, AdminRequest, utc};
    use clap::Args as _;
    use serde_json::{Value, json};

    fn request(line: &[&str]) -> Value {
        let command = AdminArgs::augment_args(clap::Command::new("admin").no_binary_name(true));
        let matches = command.try_get_matches_from(line).expect("a command");
        let args = <AdminArgs as clap::FromArgMatches>::from_arg_matches(&matches);
        json!(args.expect("arguments").command.request().expect("a request"))
    }

    #[test]
    fn a_command_line_is_a_request() {
        let mut create = json!({ "create": {
            "name": "g", "address": "239.1.2.3:5684", "profile": "compact", "suite": null,
            "authenticity": "group", "responses": "group", "freshness": "new-epoch",
            "batch_ms": 200, "activation_ms": 2000, "retention_s": 10, "renewal_s": 86_400,
            "most_members": 100_000,
        }});
        let line = ["create", "g", "--address", "239.1.2.3:5684"];
        assert_eq!(request(&line), create);
        create["create"]["batch_ms"] = json!(1500);
        create["create"]["retention_s"] = json!(60);
        let times = ["--batch", "1.5s", "--retention", "1min"];
        assert_eq!(request(&[&line[..], &times].concat()), create);

        let line = ["enrol", "d", "--sender", "--controller", "c:1", "--out", "token"];
        let mut enrol = json!({ "enrol": {
            "device": "d", "sender": true, "listener": false, "groups": [], "controller": "c:1",
            "uses": 1, "expires_s": null,
        }});
        assert_eq!(request(&line), enrol);
        enrol["enrol"]["uses"] = json!(null);
        enrol["enrol"]["expires_s"] = json!(1);
        let bounds = ["--uses", "0", "--expires", "10ms"];
        assert_eq!(request(&[&line[..], &bounds].concat()), enrol);

        let line = ["enrol", "d", "--sender", "--identity", "subject:a%20b"];
        let enrol = json!({ "enrol": {
            "device": "d", "sender": true, "listener": false, "groups": [],
            "identities": ["subject:a%20b"], "controller": null, "uses": 1, "expires_s": null,
        }});
        assert_eq!(request(&line), enrol);
        let read: AdminRequest = serde_json::from_value(enrol).unwrap();
        let AdminRequest::Enrol(read) = read else { panic!("{read:?}") };
        assert_eq!(read.identities, [lightseal_dtls::Identity::Subject("a b".into())]);
        let wrong = json!({ "add-credential": { "device": "d", "identity": "a b" } });
        assert!(serde_json::from_value::<AdminRequest>(wrong).is_err());
        assert_eq!(
            request(&["new-token", "d", "--controller", "c:1", "--uses", "0"]),
            json!({ "new-token": {
                "device": "d", "controller": "c:1", "uses": null, "expires_s": null,
            }})
        );
        assert_eq!(request(&["list"]), json!("list"));
        assert_eq!(
            request(&["rekey", "g", "--at-once"]),
            json!({ "rekey": { "group": "g", "at_once": true } })
        );
        assert_eq!(
            request(&["log", "--group", "g", "--last", "7"]),
            json!({ "log": { "most": 7, "group": "g", "device": null } })
        );
        let copy = std::path::absolute("/copy").unwrap();
        assert_eq!(request(&["backup", "/copy"]), json!({ "backup": { "directory": copy } }));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_826_154_000), "2000-02-29T12:09:14Z");
        assert_eq!(utc(1_763_885_761_999), "2025-11-23T08:16:01Z");
    }
}
