//! `lightseal macsec`: a MACsec interface in user space, with static keys.
//!
//! - [`keys`]: the file of keys;
//! - [`numbers`]: the packet numbers that were used, so that a restart uses none twice;
//! - [`station`]: the engine between a TAP device and an interface of the LAN;
//! - [`report`]: the counters.

mod keys;
mod numbers;
mod report;
mod station;

use crate::config_args::ConfigArgs;
use crate::failure::Failure;
use crate::named::{name, one_of};
use crate::statistics;
use clap::Args;
use clap::builder::TypedValueParser;
use lightseal_macsec::secy::{SciInTag, ValidateFrames};
use lightseal_macsec::window::MAX_REPLAY_WINDOW;
use lightseal_macsec::{
    CipherSuite, ConfidentialityOffset, FrameProtection, Replay, ReplayProtection, Sci,
    SecySettings,
};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct MacsecArgs {
    #[command(flatten)]
    pub(crate) file: ConfigArgs,
    /// LAN interface that carries the protected frames, such as eth1.
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Interface to create for the frames that are to be protected. Its MTU is 32 bytes less than
    /// the LAN's.
    #[arg(long, value_name = "NAME", default_value = "macsec0", value_parser = interface_name)]
    pub(crate) tap: String,
    /// File of keys, one per line: `tx` or the SCI of a peer, association number (0 to 3), first
    /// packet number, key, and for XPN suites SSCI and salt. Key, SSCI and salt are hexadecimal.
    /// The first `tx` line is the key to send with; when its packet numbers are used up, the next
    /// `tx` line is.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// File of the packet numbers that were used [default: the key file's name and `.numbers`].
    /// Without it a restart would use numbers twice, which reveals the authentication key of GCM.
    #[arg(long, value_name = "FILE")]
    pub(crate) numbers_file: Option<PathBuf>,
    /// Create the file of packet numbers, which must not exist yet. Only for keys that have never
    /// sent anything.
    #[arg(long)]
    pub(crate) first_use: bool,
    /// SCI of this station, such as 02:00:00:00:00:01/1. Its address is also that of the new
    /// interface [default: the LAN interface's address, port 1].
    #[arg(long, value_name = "ADDRESS/PORT")]
    pub(crate) sci: Option<Sci>,
    /// Port of this station's SCI; its address is that of the LAN interface.
    #[arg(long, value_name = "PORT", conflicts_with = "sci")]
    pub(crate) port: Option<u16>,
    /// Cipher suite: gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128 or gcm-aes-xpn-256.
    #[arg(long, value_name = "NAME", default_value = "gcm-aes-128")]
    pub(crate) suite: CipherSuite,
    /// Authenticate frames, but leave them readable.
    #[arg(long)]
    pub(crate) no_encrypt: bool,
    /// Number of bytes of each frame behind the SecTAG that are not encrypted: 0, 30 or 50. Peers
    /// must have the same setting.
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = offset)]
    pub(crate) confidentiality_offset: ConfidentialityOffset,
    /// How the SecTAG names the sender.
    #[arg(long, value_name = "HOW", value_parser = send_sci(), default_value = "always")]
    pub(crate) send_sci: SciInTag,
    /// What to do with invalid frames.
    #[arg(long, value_name = "HOW", value_parser = validate(), default_value = "strict")]
    pub(crate) validate: ValidateFrames,
    /// How many packet numbers a frame may be behind the newest frame; 0 for strict order.
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_REPLAY_WINDOW)))]
    pub(crate) replay_window: u32,
    /// Accept frames of any age, and copies of frames.
    #[arg(long)]
    pub(crate) no_replay_protect: bool,
    /// Accept each packet number only once, with a replay window of at most 4096. Without this,
    /// copies inside the replay window are accepted, as the standard allows.
    #[arg(long, conflicts_with = "no_replay_protect")]
    pub(crate) refuse_duplicates: bool,
    /// Write statistics to this file on exit and on SIGUSR1 [default: standard error].
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,
}

fn send_sci() -> impl TypedValueParser<Value = SciInTag> {
    one_of([
        (name("always", "The tag contains the SCI, which takes 8 more bytes"), SciInTag::Explicit),
        (
            name("end-station", "The ES bit says that the SCI is the source address with port 1"),
            SciInTag::EndStation,
        ),
        (
            name(
                "single-copy-broadcast",
                "The SCB bit says that the SCI is the source address with port 0",
            ),
            SciInTag::SingleCopyBroadcast,
        ),
        (
            name(
                "never",
                "The tag does not name the sender: for exactly one peer, which has no other peer",
            ),
            SciInTag::Omitted,
        ),
    ])
}

fn validate() -> impl TypedValueParser<Value = ValidateFrames> {
    one_of([
        (
            name("strict", "Discard invalid frames, and frames without a tag"),
            ValidateFrames::Strict,
        ),
        (
            name("check", "Count invalid frames, and deliver them if they are readable"),
            ValidateFrames::Check,
        ),
        (
            name("disabled", "Deliver readable frames without checking them"),
            ValidateFrames::Disabled,
        ),
    ])
}

fn interface_name(text: &str) -> Result<String, &'static str> {
    lightseal_gateway_host::config::is_interface_name(text)
        .then(|| text.to_owned())
        .ok_or("expected the name of an interface, 1 to 15 bytes")
}

fn offset(text: &str) -> Result<ConfidentialityOffset, &'static str> {
    let bytes = text.parse().ok().and_then(ConfidentialityOffset::from_bytes);
    bytes.ok_or("expected 0, 30 or 50")
}

impl MacsecArgs {
    /// The settings of the SecY with this SCI, on an interface with an MTU of `mtu` bytes.
    fn settings(&self, sci: Sci, mtu: u32) -> SecySettings {
        let mut settings = SecySettings::new(sci);
        if self.no_encrypt {
            settings.protection = FrameProtection::Integrity;
        }
        settings.sci_in_tag = self.send_sci;
        // An MTU does not include the Ethernet header of 14 bytes: two addresses and the EtherType.
        settings.max_frame_len = mtu as usize + 14;
        settings.validate_frames = self.validate;
        let protection = match (self.no_replay_protect, self.refuse_duplicates) {
            (true, _) => ReplayProtection::Off,
            (false, false) => ReplayProtection::Late,
            (false, true) => ReplayProtection::LateAndDuplicate,
        };
        settings.replay = Replay::new(protection, self.replay_window);
        settings
    }

    fn numbers_file(&self, key_file: &std::path::Path) -> PathBuf {
        self.numbers_file.clone().unwrap_or_else(|| {
            let mut name = key_file.as_os_str().to_owned();
            name.push(".numbers");
            name.into()
        })
    }
}

/// The provider of AES-GCM. It is AWS-LC, which the gateway needs in any case.
fn provider() -> &'static lightseal_macsec::GcmProvider {
    &lightseal_macsec_aws_lc::PROVIDER
}

/// Runs until a signal stops the program.
///
/// # Errors
/// If the settings, the machine or the interface do not allow it. The failure says why in one line.
pub(crate) fn run(args: &MacsecArgs) -> Result<(), Failure> {
    let interface = args.interface.as_deref().ok_or(Failure::new("no --interface given"))?;
    let key_file = args.key_file.as_deref().ok_or(Failure::new("no --key-file given"))?;
    statistics::check(args.stats_file.as_deref())?;
    let keys = keys::KeyFile::open(key_file, args.suite, args.confidentiality_offset, provider())?;
    if args.send_sci == SciInTag::Omitted && keys.peers() > 1 {
        return Err(Failure::new("--send-sci never is for one peer, and the key file has more"));
    }
    if args.refuse_duplicates
        && u64::from(args.replay_window) > lightseal_macsec::window::REMEMBERED
    {
        let most = lightseal_macsec::window::REMEMBERED;
        return Err(Failure::new(format_args!(
            "--replay-window {}: at most {most} with --refuse-duplicates",
            args.replay_window
        )));
    }
    let numbers = numbers::NumbersFile::open(&args.numbers_file(key_file), args.first_use)?;
    station::run(args, interface, keys, numbers)
}
