//! The requests of an administrator to a controller. Request and answer are one line of JSON each,
//! over a socket that only the controller's own user can open.

use super::devices::token_identity;
use lightseal_dtls::Identity;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_group::controller::Settings;
use lightseal_group::policy::{Policy, Profile};
use lightseal_group::rekey::Timing;
use lightseal_group::{GroupId, Random};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// A request of an administrator. With the feature `clap` it is a subcommand of a command line,
/// except for [`AdminRequest::Enrol`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Subcommand))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdminRequest {
    /// Create a group.
    Create(CreateRequest),
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
    /// Allow a device to join groups, and create the token with which it enrols.
    #[cfg_attr(feature = "clap", command(skip))]
    Enrol(Enrol),
    /// List devices with their credentials.
    Devices,
    /// Let a device authenticate with one more credential.
    ///
    /// Its other credentials remain valid. Its name, its memberships and its keys stay.
    AddCredential {
        /// Name of the device.
        device: String,
        /// Identity that the credential proves: `spki:HASH` of a public key, `subject:NAME` of a
        /// certificate, or `psk:IDENTITY` of a key in the controller's file of pre-shared keys.
        identity: Identity,
    },
    /// Replace all credentials of a device by one.
    ///
    /// Its token, the key that it got for it and all other credentials are void, and associations made
    /// with them end. Its name, its memberships and its keys of groups stay.
    ReplaceCredential {
        /// Name of the device.
        device: String,
        /// Identity that the new credential proves: `spki:HASH`, `subject:NAME` or `psk:IDENTITY`.
        identity: Identity,
    },
    /// Refuse a credential of a device from now on.
    ///
    /// Associations made with it end. The device stays a member of its groups, with their keys;
    /// `revoke` and `evict` end that.
    RemoveCredential {
        /// Name of the device.
        device: String,
        /// Identity that the credential proves, as `devices` lists it. `psk:` and the device's name
        /// stands for its token and the key that it got for it.
        identity: Identity,
    },
    /// Replace all credentials of a device by a new token.
    #[cfg_attr(feature = "clap", command(skip))]
    NewToken(NewToken),
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
        #[cfg_attr(feature = "clap", arg(long))]
        at_once: bool,
    },
    /// Show the log: who was enrolled, joined, left, was evicted or revoked, and every rekey.
    Log {
        /// Show the last N entries.
        #[cfg_attr(feature = "clap", arg(long = "last", value_name = "N", default_value_t = 100))]
        most: usize,
        /// Show only entries about this group.
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
        group: Option<String>,
        /// Show only entries about this device.
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
        device: Option<String>,
    },
    /// Copy the controller's store into another directory. The copy holds all keys: keep it secret.
    Backup {
        /// Directory for the copy, which must not hold a controller's store.
        directory: PathBuf,
    },
}

impl AdminRequest {
    /// Whether the request succeeds only if a running controller announces new keys to the members.
    pub const fn is_announced(&self) -> bool {
        matches!(self, Self::Evict { .. } | Self::Revoke { .. } | Self::Rekey { .. })
    }

    /// Whether a credential may be void after the request.
    pub(super) const fn revokes(&self) -> bool {
        matches!(
            self,
            Self::Revoke { .. }
                | Self::AddCredential { .. }
                | Self::ReplaceCredential { .. }
                | Self::RemoveCredential { .. }
                | Self::NewToken(_)
        )
    }
}

/// A group to be created, with names and numbers as an administrator writes them. They are checked
/// when the group is created: at most 6553 s of activation, and a batch of more than 60 s counts as
/// 60 s. A program that takes the times from its command line sets a parser for texts such as `2s`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    /// Name of the group.
    #[cfg_attr(feature = "clap", arg(value_name = "GROUP"))]
    pub name: String,
    /// Multicast address and port of the group's requests, such as `[ff15::abcd]:5684` or
    /// `239.1.2.3:5684`.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDR:PORT"))]
    pub address: SocketAddr,
    /// Format of records: `compact`, or `axiom-1.2` as in the paper of that name.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", default_value = "compact"))]
    pub profile: String,
    /// Cipher suite: ccm, ccm-8, lightmac, lightmac-8, gcm or chacha20; for axiom-1.2 ccm-8, ccm,
    /// gcm, chacha20 or null, which does not encrypt [default: the first suite of the profile].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub suite: Option<String>,
    /// What a record proves: that a member sent it (`group`), or which member sent it (`source`).
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT", default_value = "group"))]
    pub authenticity: String,
    /// Members that can read and write a response: all (`group`), or only its sender and its
    /// receiver (`pairwise`).
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHO", default_value = "group"))]
    pub responses: String,
    /// What a listener does that restarted or hears a sender for the first time: wait for a new
    /// epoch (`new-epoch`), ask the sender (`challenge`), or take its first record only as a
    /// reference (`drop-first`).
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW", default_value = "new-epoch"))]
    pub freshness: String,
    /// Collect joins and leaves for this long into one rekey.
    #[cfg_attr(
        feature = "clap",
        arg(long = "batch", value_name = "TIME", default_value = "200ms")
    )]
    pub batch_ms: u64,
    /// Time from a rekey to the first record under the new keys.
    #[cfg_attr(
        feature = "clap",
        arg(long = "activation", value_name = "TIME", default_value = "2s")
    )]
    pub activation_ms: u64,
    /// Time after that in which records under the old keys are still accepted, at most 60s.
    #[cfg_attr(
        feature = "clap",
        arg(long = "retention", value_name = "TIME", default_value = "10s")
    )]
    pub retention_s: u64,
    /// Interval at which the keys are renewed; 0 for never.
    #[cfg_attr(
        feature = "clap",
        arg(long = "renewal", value_name = "TIME", default_value = "24h")
    )]
    pub renewal_s: u64,
    /// Maximum number of members.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value_t = 100_000))]
    pub most_members: u32,
}

/// The cipher suites of a profile with their names on the command line, the default first.
pub const fn suites(profile: Profile) -> &'static [(&'static str, CipherSuiteId)] {
    match profile {
        Profile::Axiom12 => &[
            ("ccm-8", CipherSuiteId::PSK_WITH_AES_128_CCM_8),
            ("ccm", CipherSuiteId::PSK_WITH_AES_128_CCM),
            ("gcm", CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256),
            ("chacha20", CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256),
            ("null", CipherSuiteId::PSK_WITH_NULL_SHA256),
        ],
        Profile::Compact => &[
            ("ccm", CipherSuiteId::AES_128_CCM_SHA256),
            ("ccm-8", CipherSuiteId::AES_128_CCM_8_SHA256),
            ("lightmac", CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256),
            ("lightmac-8", CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256),
            ("gcm", CipherSuiteId::AES_128_GCM_SHA256),
            ("chacha20", CipherSuiteId::CHACHA20_POLY1305_SHA256),
        ],
    }
}

impl CreateRequest {
    /// The policy that the request describes, for the group `group`.
    pub(super) fn policy(&self, group: GroupId, rng: &mut Random) -> Result<Policy, String> {
        fn parsed<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
            text.parse().map_err(|error: T::Err| error.to_string())
        }
        let profile = parsed(&self.profile)?;
        let known = suites(profile);
        let suite = match &self.suite {
            None => known[0].1,
            Some(name) => {
                let found = known.iter().find(|(known, _)| known == name);
                let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                found.ok_or_else(|| format!("profile {profile} has the suites {names}"))?.1
            }
        };
        let mut policy = Policy::new(group, self.address, profile, suite, rng);
        policy.authenticity = parsed(&self.authenticity)?;
        policy.responses = parsed(&self.responses)?;
        policy.freshness = parsed(&self.freshness)?;
        Ok(policy)
    }

    /// The controller's settings that the request describes.
    pub(super) fn settings(&self) -> Result<Settings, String> {
        let timing = Timing::new(
            Duration::from_millis(self.activation_ms),
            Duration::from_secs(self.retention_s),
        );
        Ok(Settings {
            timing: timing.ok_or("activation at most 6553 s, retention at most 60 s")?,
            batch: Duration::from_millis(self.batch_ms.min(60_000)),
            most_members: self.most_members,
            renewal: Some(self.renewal_s).filter(|s| *s > 0).map(Duration::from_secs),
            ..Settings::default()
        })
    }
}

/// A device to be enrolled.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(
    feature = "clap",
    command(group(
        clap::ArgGroup::new("role").args(["sender", "listener"]).required(true).multiple(true)
    ))
)]
#[serde(deny_unknown_fields)]
pub struct Enrol {
    /// Name of the device.
    pub device: String,
    /// Allow the device to send requests.
    #[cfg_attr(feature = "clap", arg(long))]
    pub sender: bool,
    /// Allow the device to answer requests.
    #[cfg_attr(feature = "clap", arg(long))]
    pub listener: bool,
    /// Group that the device may join; give the flag several times for several groups [default:
    /// all].
    #[cfg_attr(feature = "clap", arg(long = "group", value_name = "NAME"))]
    pub groups: Vec<String>,
    /// Identity of a credential with which the device authenticates in place of a token: `spki:HASH`
    /// of its public key, `subject:NAME` of its certificate, or `psk:IDENTITY` of a key in the
    /// controller's file. May be given several times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            long = "identity",
            value_name = "IDENTITY",
            conflicts_with_all = ["controller", "uses", "expires_s"]
        )
    )]
    pub identities: Vec<Identity>,
    /// Address at which the device finds the controller.
    #[serde(default)]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "HOST:PORT", required_unless_present = "identities")
    )]
    pub controller: Option<String>,
    /// How many times the token can enrol a device; 0 for any number. Each enrolment gives the
    /// device a key of its own, so a device that keeps its state does not need the token again.
    // A request has `None` for any number.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value = "1"))]
    pub uses: Option<u32>,
    /// How long the token can be used [default: forever].
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long = "expires", value_name = "TIME"))]
    pub expires_s: Option<u64>,
}

/// A new token in place of all credentials of a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Name of the device.
    pub device: String,
    /// Address at which the device finds the controller.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOST:PORT"))]
    pub controller: String,
    /// How many times the token can be used; 0 for any number.
    // A request has `None` for any number.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value = "1"))]
    pub uses: Option<u32>,
    /// How long the token can be used [default: forever].
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long = "expires", value_name = "TIME"))]
    pub expires_s: Option<u64>,
}

/// The description of a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Described {
    /// The group's name.
    pub name: String,
    /// The group's 16-byte identifier, in hexadecimal.
    pub id: String,
    /// The multicast address and port of its requests.
    pub address: SocketAddr,
    /// The name of its profile.
    pub profile: String,
    /// The name of its cipher suite.
    pub suite: String,
    /// What a record proves about its origin: the name of an
    /// [`Authenticity`](lightseal_group::policy::Authenticity).
    pub authenticity: String,
    /// Which members can read and forge responses: the name of a value of
    /// [`Responses`](lightseal_group::policy::Responses).
    pub responses: String,
    /// How a listener that joins in the middle of an epoch tells fresh records from replays: the name
    /// of a [`Freshness`](lightseal_group::policy::Freshness).
    pub freshness: String,
    /// The current epoch.
    pub epoch: u64,
    /// The number of its members.
    pub members: usize,
    /// The devices of the members whose X25519 key is of small order. An earlier controller
    /// admitted them, other members do not get their keys, and they should be evicted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<String>,
    /// Its members, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roster: Option<Vec<DescribedMember>>,
    /// Counters of its announcements, if its controller is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announcements: Option<super::Announcements>,
}

/// The description of a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DescribedMember {
    /// The device's name.
    pub device: String,
    /// The member's ListenerID.
    pub listener_id: u32,
    /// The member's SenderID; `None` if it is not a sender.
    pub sender_id: Option<u8>,
    /// Whether the member is a listener.
    pub listener: bool,
    /// The address that the member sends from.
    pub address: IpAddr,
    /// The number of times that a copy of the member was detected.
    #[serde(default)]
    pub clones: u32,
}

/// The description of a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DescribedDevice {
    /// The device's name.
    pub device: String,
    /// Whether it may send requests.
    pub sender: bool,
    /// Whether it may answer requests.
    pub listener: bool,
    /// The groups that it may join; if empty, all groups.
    pub groups: Vec<String>,
    /// The groups that it was evicted from and not readmitted to.
    pub evicted_from: Vec<String>,
    /// The groups of which it is a member.
    pub member_of: Vec<String>,
    /// How many times its token can still be used; `None`: any number of times.
    #[serde(default)]
    pub uses_left: Option<u32>,
    /// When its token expires, in seconds since 1970; `None`: never.
    #[serde(default)]
    pub expires_at: Option<u64>,
    /// The identities of its credentials. A token, and the key that the device got for it, have the
    /// identity `psk:` and the device's name.
    #[serde(default)]
    pub credentials: Vec<Identity>,
}

impl DescribedDevice {
    /// Whether the device has a token, or a key that it got for one.
    pub fn has_token(&self) -> bool {
        self.credentials.contains(&token_identity(&self.device))
    }
}
