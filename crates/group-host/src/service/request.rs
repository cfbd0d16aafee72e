//! What an administrator asks of a controller: a line of JSON each way, over a socket that only
//! the controller's own user can open.

use dtls::crypto::CipherSuiteId;
use group::controller::Settings;
use group::policy::{Authenticity, Freshness, Profile, Responses};
use group::rekey::Timing;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// What can be asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdminRequest {
    /// Make a group.
    Create(CreateText),
    /// End a group.
    Remove {
        /// Its name.
        group: String,
    },
    /// Describe all groups.
    List,
    /// Describe a group and its members.
    Show {
        /// Its name.
        group: String,
    },
    /// Make a token for a new device.
    Enrol(Enrol),
    /// Describe all devices.
    Devices,
    /// Forget a device.
    Revoke {
        /// Its name.
        device: String,
    },
    /// Put a device out of a group.
    Evict {
        /// The group's name.
        group: String,
        /// The device's.
        device: String,
    },
    /// Let a device in again that was put out.
    Readmit {
        /// The group's name.
        group: String,
        /// The device's.
        device: String,
    },
    /// Begin another epoch.
    Rekey {
        /// The group's name.
        group: String,
        /// Use it without delay.
        at_once: bool,
    },
    /// The last entries of the log.
    Log {
        /// How many at most.
        most: usize,
        /// Those of one group.
        group: Option<String>,
        /// Those of one device.
        device: Option<String>,
    },
    /// Copy the store into a directory.
    Backup {
        /// Where to.
        directory: PathBuf,
    },
}

impl AdminRequest {
    /// Whether members hear of it, which takes a controller that runs.
    pub const fn is_announced(&self) -> bool {
        matches!(self, Self::Evict { .. } | Self::Revoke { .. } | Self::Rekey { .. })
    }
}

/// A group to be made, in names and numbers that people give.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateText {
    /// Its name.
    pub name: String,
    /// The multicast address and port.
    pub address: SocketAddr,
    /// A [`Profile`].
    pub profile: String,
    /// One of [`suites`]; none: the first.
    pub suite: Option<String>,
    /// An [`Authenticity`].
    pub authenticity: String,
    /// [`Responses`].
    pub responses: String,
    /// A [`Freshness`].
    pub freshness: String,
    /// For how long changes are gathered, in milliseconds.
    pub batch_ms: u64,
    /// From a rekey to the first record under the new keys, in milliseconds.
    pub activation_ms: u64,
    /// How long old keys are received after that, in seconds.
    pub retention_s: u64,
    /// How often keys are renewed, in seconds; 0: never.
    pub renewal_s: u64,
    /// Members at most.
    pub most_members: u32,
}

/// A group to be made.
#[derive(Clone, Debug)]
pub struct Create {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) profile: Profile,
    pub(super) suite: CipherSuiteId,
    pub(super) authenticity: Authenticity,
    pub(super) responses: Responses,
    pub(super) freshness: Freshness,
    pub(super) settings: Settings,
}

/// The suites of a profile by their names on the command line, the default first.
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

impl TryFrom<&CreateText> for Create {
    type Error = String;

    fn try_from(text: &CreateText) -> Result<Self, String> {
        fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, String>
        where
            T::Err: ToString,
        {
            text.parse().map_err(|error: T::Err| error.to_string())
        }
        let profile = parsed(&text.profile)?;
        let known = suites(profile);
        let suite = match &text.suite {
            None => known[0].1,
            Some(name) => {
                let found = known.iter().find(|(known, _)| known == name);
                let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                found.ok_or_else(|| format!("profile {profile} has the suites {names}"))?.1
            }
        };
        let timing = Timing::new(
            Duration::from_millis(text.activation_ms),
            Duration::from_secs(text.retention_s),
        );
        let renewal = Some(text.renewal_s).filter(|s| *s > 0).map(Duration::from_secs);
        let settings = Settings {
            timing: timing.ok_or("activation at most 6553 s, retention at most 60 s")?,
            batch: Duration::from_millis(text.batch_ms.min(60_000)),
            most_members: text.most_members,
            renewal,
            ..Settings::default()
        };
        Ok(Self {
            name: text.name.clone(),
            address: text.address,
            profile,
            suite,
            authenticity: parsed(&text.authenticity)?,
            responses: parsed(&text.responses)?,
            freshness: parsed(&text.freshness)?,
            settings,
        })
    }
}

/// A device to be let in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrol {
    /// Its name.
    pub device: String,
    /// Whether it may send requests.
    pub sender: bool,
    /// Whether it may answer them.
    pub listener: bool,
    /// The groups it may join; none: all.
    pub groups: Vec<String>,
    /// Where it finds the controller, as `host:port`.
    pub controller: String,
    /// How many devices can be made of the token; none: any number.
    #[serde(default)]
    pub uses: Option<u32>,
    /// For how long the token can be used, in seconds; none: for ever.
    #[serde(default)]
    pub expires_s: Option<u64>,
}

/// A group as it is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Its GroupID, in hexadecimal.
    pub id: String,
    /// Its multicast address and port.
    pub address: SocketAddr,
    /// Its profile.
    pub profile: String,
    /// Its cipher suite.
    pub suite: String,
    /// What records prove.
    pub authenticity: String,
    /// Under which keys responses are.
    pub responses: String,
    /// How late listeners learn where senders are.
    pub freshness: String,
    /// The current epoch.
    pub epoch: u64,
    /// How many members it has.
    pub members: usize,
    /// Who they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roster: Option<Vec<DescribedMember>>,
    /// What became of its announcements, if its controller runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announcements: Option<super::Announcements>,
}

/// A member as it is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DescribedMember {
    /// The device's name.
    pub device: String,
    /// Its ListenerID.
    pub listener_id: u32,
    /// Its SenderID, if it is a sender.
    pub sender_id: Option<u8>,
    /// Whether it answers.
    pub listener: bool,
    /// The address it sends from.
    pub address: IpAddr,
    /// How often a copy of it was seen.
    #[serde(default)]
    pub clones: u32,
}

/// A device as it is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DescribedDevice {
    /// Its name.
    pub device: String,
    /// Whether it may send requests.
    pub sender: bool,
    /// Whether it may answer them.
    pub listener: bool,
    /// The groups it may join; none: all.
    pub groups: Vec<String>,
    /// The groups it was put out of.
    pub evicted_from: Vec<String>,
    /// The groups it is in.
    pub member_of: Vec<String>,
    /// How often its token can still be used; none: any number of times.
    #[serde(default)]
    pub uses_left: Option<u32>,
    /// When its token ends, in seconds since 1970; none: never.
    #[serde(default)]
    pub expires_at: Option<u64>,
}
