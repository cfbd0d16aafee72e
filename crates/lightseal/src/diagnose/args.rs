//! The flags of `lightseal s_client` and `lightseal s_server`.

use super::exporter::Exporter;
use crate::credential::Credentials;
use crate::credential::args::{CredentialArgs, HEADING as CREDENTIALS};
use crate::failure::{Context, Failure};
use crate::offer::OfferArgs;
use crate::units::{Bytes, Quantity};
use clap::Args;
use lightseal_dtls::Settings;
use lightseal_pki::file::CredentialForm;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

const CLIENT_EXAMPLES: &str = "\
Examples:
  lightseal psk sensor-7 --out keys.psk
  lightseal s_client 192.0.2.1:5684 --psk-file keys.psk
  echo hello | lightseal s_client 192.0.2.1:5684 --psk-file keys.psk
  lightseal s_client 192.0.2.1:5684 --psk-file keys.psk --json < /dev/null
  lightseal s_client a.example:5684 --ca ca.pem --cert me.pem --key me.key
  lightseal s_client a.example:5684 --ca ca.pem --session-file session

Exit code: 0 if the association was closed in order, 1 if the handshake failed or the server \
ended the association with an alert, 2 if this end could not do its work.";

const SERVER_EXAMPLES: &str = "\
Examples:
  lightseal psk sensor-7 --out keys.psk
  lightseal s_server --listen 127.0.0.1:5684 --psk-file keys.psk --echo
  lightseal s_server --listen '[::]:5684' --psk-file keys.psk --once --json
  lightseal s_server --listen 127.0.0.1:5684 --cert me.pem --key me.key

Exit code: 0 if a signal stopped the server, or with --once if the association was closed in \
order; 1 with --once if the handshake failed or the client ended the association with an alert; \
2 if this end could not do its work.";

/// What either end has of its own.
#[derive(Clone, Debug, Args)]
pub(crate) struct OwnArgs {
    /// Chain of X.509 certificates of this end: with --key, the same as --credential
    /// cert:FILE,key:FILE.
    #[arg(long, value_name = "FILE", help_heading = CREDENTIALS, requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of this end. Without --cert its public key is its own credential.
    #[arg(long, value_name = "FILE", help_heading = CREDENTIALS)]
    pub(crate) key: Option<PathBuf>,
    /// Application protocols to offer or accept (ALPN, RFC 7301), best first, such as co for CoAP.
    #[arg(long, value_name = "PROTOCOL", value_delimiter = ',')]
    pub(crate) alpn: Vec<String>,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = CLIENT_EXAMPLES)]
pub(crate) struct SClientArgs {
    /// The server.
    #[arg(value_name = "HOST:PORT")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    #[command(flatten)]
    pub(crate) own: OwnArgs,
    /// Name that the server's certificate must have, which is also sent to the server (SNI)
    /// [default: HOST].
    #[arg(long, value_name = "NAME", help_heading = CREDENTIALS)]
    pub(crate) name: Option<String>,
    /// DANGER: accept every certificate and raw public key of the server.
    #[arg(long, help_heading = CREDENTIALS)]
    pub(crate) no_verify: bool,
    /// Connect a second time with the session of the first association, and print what that saved.
    #[arg(long)]
    pub(crate) reconnect: bool,
    /// Resume the session that this file has, and store the session of this association there for
    /// the next run. The file has a secret, so only this user can read it.
    #[arg(long, value_name = "FILE")]
    pub(crate) session_file: Option<PathBuf>,
    /// Send the lines of this file with the first datagrams, before the server has answered (0-RTT),
    /// if a session is resumed that allows it, and otherwise after the handshake. DANGER: whoever
    /// records early data can repeat it to the server.
    #[arg(long, value_name = "FILE")]
    pub(crate) early_data: Option<PathBuf>,
    /// Identity of the key to use [default: the identity in the first line of the PSK file].
    #[arg(long, value_name = "NAME", help_heading = CREDENTIALS)]
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
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    #[command(flatten)]
    pub(crate) own: OwnArgs,
    /// Ask clients without a PSK for a certificate or raw public key, and accept those that have
    /// none.
    #[arg(long, help_heading = CREDENTIALS, conflicts_with = "require_client")]
    pub(crate) request_client: bool,
    /// Refuse clients without a PSK that have no certificate or raw public key.
    #[arg(long, help_heading = CREDENTIALS)]
    pub(crate) require_client: bool,
    /// Largest UDP payload to send, 80 to 9216 bytes [default: 1200].
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_datagram: Option<Quantity<Bytes>>,
    /// Send each payload back to its client.
    #[arg(long)]
    pub(crate) echo: bool,
    /// End after the first association, or the first handshake that fails.
    #[arg(long)]
    pub(crate) once: bool,
    /// Accept up to this many bytes of early data (0-RTT) of clients that resume a session, and give
    /// tickets for it also to clients with a PSK. Clients are then not asked for a cookie, so that
    /// forged addresses cost memory and answers. DANGER: whoever records early data can repeat it.
    #[arg(long, value_name = "BYTES")]
    pub(crate) early_data: Option<Quantity<Bytes>>,
    /// Maximum number of associations at a time, unfinished handshakes included.
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) max_sessions: NonZeroUsize,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
    #[command(flatten)]
    pub(crate) offer: OfferArgs,
}

/// The heading of the flags for output in help texts.
const HEADING: &str = "Output";

/// What is printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShownArgs {
    /// Print what was negotiated in one line.
    #[arg(help_heading = HEADING, long, conflicts_with = "json")]
    pub(crate) brief: bool,
    /// Print one JSON object for each association, when it has ended, and nothing else.
    #[arg(help_heading = HEADING, long)]
    pub(crate) json: bool,
    /// Print keying material of this label and length in bytes (RFC 8446, section 7.5), in
    /// hexadecimal. May be given several times.
    #[arg(help_heading = HEADING, short, long, value_name = "LABEL:LENGTH")]
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
    alpn: &[String],
    id_bytes: u8,
) -> Result<Settings, Failure> {
    let mut settings = crate::provider::settings().context("settings")?;
    if let Some(Quantity(Bytes(bytes))) = max_datagram {
        settings.datagram_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    settings.application_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    offer.apply(&mut settings, id_bytes)?;
    settings.check().context("settings")?;
    Ok(settings)
}

/// The credentials that the flags of one end name.
pub(super) fn credentials(
    credentials: &CredentialArgs,
    (cert, key): (&Option<PathBuf>, &Option<PathBuf>),
    settings: &Settings,
) -> Result<Credentials, Failure> {
    let mut credentials = credentials.clone();
    match (cert.clone(), key.clone()) {
        (Some(chain), Some(key)) => {
            credentials.credential.push(CredentialForm::Certificate { chain, key });
        }
        (None, Some(key)) => credentials.credential.push(CredentialForm::RawKey(key)),
        _ => {}
    }
    Credentials::open(&credentials, settings.provider)
}
