//! The flags of `lightseal s_client` and `lightseal s_server`.

use super::exporter::Exporter;
use crate::failure::{Context, Failure};
use crate::keys::KeyFile;
use crate::offer::OfferArgs;
use crate::units::{Bytes, Quantity};
use clap::Args;
use lightseal_dtls::Settings;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

const CLIENT_EXAMPLES: &str = "\
Examples:
  lightseal psk sensor-7 --out keys.psk
  lightseal s_client 192.0.2.1:5684 --psk-file keys.psk
  echo hello | lightseal s_client 192.0.2.1:5684 --psk-file keys.psk
  lightseal s_client 192.0.2.1:5684 --psk-file keys.psk --dtls 1.2 --json < /dev/null

Exit code: 0 if the association was closed in order, 1 if the handshake failed or the server
ended the association with an alert, 2 if this end could not do its work.";

const SERVER_EXAMPLES: &str = "\
Examples:
  lightseal psk sensor-7 --out keys.psk
  lightseal s_server --listen 127.0.0.1:5684 --psk-file keys.psk --echo
  lightseal s_server --listen '[::]:5684' --psk-file keys.psk --once --json

Exit code: 0 if a signal stopped the server, or with --once if the association was closed in
order; 1 with --once if the handshake failed or the client ended the association with an alert;
2 if this end could not do its work.";

#[derive(Clone, Debug, Args)]
#[command(after_help = CLIENT_EXAMPLES)]
pub(crate) struct SClientArgs {
    /// The server.
    #[arg(value_name = "HOST:PORT")]
    pub(crate) server: String,
    /// File of pre-shared keys, one identity:hexkey per line.
    #[arg(long, value_name = "FILE")]
    pub(crate) psk_file: Option<PathBuf>,
    /// Identity of the key to use [default: the identity in the first line of the PSK file].
    #[arg(long, value_name = "NAME")]
    pub(crate) identity: Option<String>,
    /// Largest UDP payload to send, 80 to 9216 bytes [default: 1200].
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_datagram: Option<Quantity<Bytes>>,
    /// How long to wait for further answers after the end of input, counted from the last datagram
    /// in either direction. If nothing was sent, this does not wait; 0 for never.
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub(crate) wait: Quantity<Duration>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
    #[command(flatten)]
    pub(crate) offer: OfferArgs,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = SERVER_EXAMPLES)]
pub(crate) struct SServerArgs {
    /// Address to receive on.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: String,
    /// File of pre-shared keys, one identity:hexkey per line.
    #[arg(long, value_name = "FILE")]
    pub(crate) psk_file: Option<PathBuf>,
    /// Largest UDP payload to send, 80 to 9216 bytes [default: 1200].
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_datagram: Option<Quantity<Bytes>>,
    /// Send each payload back to its client.
    #[arg(long)]
    pub(crate) echo: bool,
    /// End after the first association, or the first handshake that fails.
    #[arg(long)]
    pub(crate) once: bool,
    /// Maximum number of associations at a time, unfinished handshakes included.
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) max_sessions: NonZeroUsize,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
    #[command(flatten)]
    pub(crate) offer: OfferArgs,
}

/// What is printed.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShownArgs {
    /// Print what was negotiated in one line.
    #[arg(long, conflicts_with = "json")]
    pub(crate) brief: bool,
    /// Print one JSON object for each association, when it has ended, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print keying material of this label and length in bytes (RFC 8446, section 7.5), in
    /// hexadecimal. May be given several times.
    #[arg(short, long, value_name = "LABEL:LENGTH")]
    pub(crate) exporter: Vec<Exporter>,
}

/// How much is printed about an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// A line for each fact, and the payloads.
    Full,
    /// One line, and the payloads.
    Brief,
    /// The payloads.
    Payloads,
    /// One JSON object with everything.
    Json,
}

impl ShownArgs {
    /// The style that the flags ask for. `quiet` is the flag that all commands have.
    pub(super) const fn style(&self, quiet: bool) -> Style {
        match (self.json, quiet, self.brief) {
            (true, ..) => Style::Json,
            (false, true, _) => Style::Payloads,
            (false, false, true) => Style::Brief,
            (false, false, false) => Style::Full,
        }
    }
}

/// The settings of one end whose connection IDs have `id_bytes` bytes unless a flag says otherwise.
pub(super) fn settings(
    offer: &OfferArgs,
    max_datagram: Option<Quantity<Bytes>>,
    id_bytes: u8,
) -> Result<Settings, Failure> {
    let mut settings = crate::proxy::settings().context("settings")?;
    if let Some(Quantity(Bytes(bytes))) = max_datagram {
        settings.datagram_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    offer.apply(&mut settings, id_bytes)?;
    settings.check().context("settings")?;
    Ok(settings)
}

/// The keys of the file that `--psk-file` names.
pub(super) fn keys(file: Option<&PathBuf>) -> Result<KeyFile, Failure> {
    let missing = "no --psk-file given; `lightseal psk NAME` prints a line for one";
    KeyFile::open(file.ok_or_else(|| Failure::new(missing))?)
}
