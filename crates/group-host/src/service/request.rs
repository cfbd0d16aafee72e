//! The requests of an administrator to a controller. Request and answer are one line of JSON each,
//! over a socket that only the controller's own user can open.

use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_group::controller::Settings;
use lightseal_group::policy::{Policy, Profile};
use lightseal_group::rekey::Timing;
use lightseal_group::{GroupId, Random};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// A request of an administrator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdminRequest {
    /// Create a group.
    Create(CreateRequest),
    /// Remove a group.
    Remove {
        /// The group's name.
        group: String,
    },
    /// Describe all groups.
    List,
    /// Describe a group and its members.
    Show {
        /// The group's name.
        group: String,
    },
    /// Enrol a new device and create its token.
    Enrol(Enrol),
    /// Describe all devices.
    Devices,
    /// Remove a device, evict it from all groups and make its keys void.
    Revoke {
        /// The device's name.
        device: String,
    },
    /// Evict a device from a group.
    Evict {
        /// The group's name.
        group: String,
        /// The device's name.
        device: String,
    },
    /// Readmit an evicted device.
    Readmit {
        /// The group's name.
        group: String,
        /// The device's name.
        device: String,
    },
    /// Begin a new epoch of a group.
    Rekey {
        /// The group's name.
        group: String,
        /// Whether members switch to the new epoch without delay.
        at_once: bool,
    },
    /// Show the last entries of the log.
    Log {
        /// The maximum number of entries.
        most: usize,
        /// Only entries of this group.
        group: Option<String>,
        /// Only entries of this device.
        device: Option<String>,
    },
    /// Copy the store into a directory.
    Backup {
        /// The directory that the copy is written to.
        directory: PathBuf,
    },
}

impl AdminRequest {
    /// Whether the request succeeds only if a running controller announces new keys to the members.
    pub const fn is_announced(&self) -> bool {
        matches!(self, Self::Evict { .. } | Self::Revoke { .. } | Self::Rekey { .. })
    }
}

/// A group to be created, with names and numbers as an administrator writes them. They are checked
/// when the group is created.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    /// The group's name.
    pub name: String,
    /// The multicast address and port of its requests.
    pub address: SocketAddr,
    /// The name of a [`Profile`].
    pub profile: String,
    /// The name of one of the profile's [`suites`]; `None` for the first one.
    pub suite: Option<String>,
    /// The name of an [`Authenticity`](lightseal_group::policy::Authenticity).
    pub authenticity: String,
    /// The name of a value of [`Responses`](lightseal_group::policy::Responses).
    pub responses: String,
    /// The name of a [`Freshness`](lightseal_group::policy::Freshness).
    pub freshness: String,
    /// For how long membership changes are collected into one rekey, in milliseconds; values above
    /// 60 000 count as 60 000.
    pub batch_ms: u64,
    /// The time from a rekey until members send under the new keys, in milliseconds; at most
    /// 6 553 000.
    pub activation_ms: u64,
    /// How long records under the old keys are accepted once members send under the new keys, in
    /// seconds; at most 60.
    pub retention_s: u64,
    /// The interval between renewals of the keys, in seconds; 0: never.
    pub renewal_s: u64,
    /// The maximum number of members.
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
        Ok(Policy {
            group,
            address: self.address,
            profile,
            suite,
            authenticity: parsed(&self.authenticity)?,
            responses: parsed(&self.responses)?,
            freshness: parsed(&self.freshness)?,
            client_random: rng.array(),
            server_random: rng.array(),
        })
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
#[serde(deny_unknown_fields)]
pub struct Enrol {
    /// The device's name.
    pub device: String,
    /// Whether it may send requests.
    pub sender: bool,
    /// Whether it may answer requests.
    pub listener: bool,
    /// The groups that it may join; if empty, all groups.
    pub groups: Vec<String>,
    /// The controller's address, as `host:port`.
    pub controller: String,
    /// How many times the token can be used; `None`: any number of times.
    #[serde(default)]
    pub uses: Option<u32>,
    /// For how long the token can be used, in seconds; `None`: without limit.
    #[serde(default)]
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
}
