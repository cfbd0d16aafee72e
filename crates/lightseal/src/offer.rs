//! What a proxy offers and accepts in a handshake, as flags and settings.
//!
//! Two proxies agree without these flags. The flags are for other peers, which
//! may support only a part of the protocol, and for finding out why a handshake
//! with such a peer fails.

use crate::failure::{Context, Failure};
use crate::named::{name, one_of};
use crate::provider::PROVIDER;
use crate::units::Quantity;
use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::{CipherSuiteId, NamedGroup};
use lightseal_dtls::{ConnectionId, ConnectionIds, KeyLog, Packing, ProtocolVersion, Settings};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The heading of these flags in help texts.
const HEADING: &str = "For other DTLS peers";

/// Flags that limit what is negotiated.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfferArgs {
    /// DTLS versions to offer; 1.2 is used only with a peer that lacks 1.3 [default: 1.2, 1.3].
    #[arg(help_heading = HEADING, long, value_name = "VERSION", value_parser = versions(), value_delimiter = ',')]
    dtls: Vec<ProtocolVersion>,
    /// Cipher suites of these versions, best first [default: all but CCM_8 and
    /// TLS_SHA256_SHA256, which does NOT encrypt].
    #[arg(help_heading = HEADING, long, value_name = "SUITE", value_parser = cipher_suites(), value_delimiter = ',', ignore_case = true)]
    cipher_suite: Vec<CipherSuiteId>,
    /// PSK key exchange modes, best first; psk_ke is shorter and gives no forward secrecy [default:
    /// psk_dhe_ke, psk_ke].
    #[arg(help_heading = HEADING, long, value_name = "MODE", value_parser = psk_modes(), value_delimiter = ',', ignore_case = true)]
    psk_mode: Vec<PskKeyExchangeMode>,
    /// How handshake messages are packed into records and datagrams.
    #[arg(help_heading = HEADING, long, value_name = "HOW", value_parser = packings(), default_value = "auto")]
    packing: Packing,
    /// Accept a DTLS 1.2 peer that cannot bind its keys to the whole handshake (RFC 7627).
    #[arg(help_heading = HEADING, long)]
    allow_no_extended_master_secret: bool,
    /// Length of the connection IDs in records to this end, 0 to 32 bytes, or off. A client whose
    /// address changes keeps its flows if the server gives it a connection ID [default: 4 (server),
    /// 2 (client proxy), 0 (s_client)].
    #[arg(help_heading = HEADING, long, value_name = "BYTES|off", value_parser = connection_ids)]
    connection_ids: Option<ConnectionIds>,
    /// Accept the new address of a peer with connection IDs even if it cannot be checked (RFC
    /// 9853).
    #[arg(help_heading = HEADING, long)]
    follow_unchecked: bool,
    /// Key exchange groups, best first [default: all but x25519mlkem768].
    #[arg(help_heading = HEADING, long, value_name = "GROUP", value_parser = groups(), value_delimiter = ',', ignore_case = true)]
    group: Vec<NamedGroup>,
    /// Give up a handshake that takes longer than this.
    #[arg(help_heading = HEADING, long, value_name = "TIME", default_value = "60s")]
    handshake_timeout: Quantity<Duration>,
    /// DANGER: append all traffic secrets to this file, in the format of SSLKEYLOGFILE.
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

/// Reads `off`, or how many bytes this end's own connection IDs have.
fn connection_ids(text: &str) -> Result<ConnectionIds, &'static str> {
    match text {
        "off" => Ok(ConnectionIds::Off),
        _ => match text.parse::<u8>() {
            Ok(len) if usize::from(len) <= ConnectionId::MAX_LEN => {
                Ok(ConnectionIds::of_bytes(len))
            }
            _ => Err("expected a length of 0 to 32 bytes, or off"),
        },
    }
}

fn versions() -> impl TypedValueParser<Value = ProtocolVersion> {
    one_of([("1.2", ProtocolVersion::Dtls12), ("1.3", ProtocolVersion::Dtls13)])
}

fn packings() -> impl TypedValueParser<Value = Packing> {
    one_of([
        (name("auto", "Full packing in DTLS 1.3, one message per record in 1.2"), Packing::Auto),
        (
            name("full", "As many messages per record, and records per datagram, as fit"),
            Packing::Full,
        ),
        (name("record", "One message per record"), Packing::RecordPerMessage),
        (
            name("datagram", "One message per record and one record per datagram"),
            Packing::RecordPerDatagram,
        ),
    ])
}

fn cipher_suites() -> impl TypedValueParser<Value = CipherSuiteId> {
    let suites = PROVIDER.suites.iter().map(|suite| (suite.name, suite.id));
    let suites = suites.chain(PROVIDER.suites_12.iter().map(|suite| (suite.name, suite.id)));
    one_of(suites.map(|(name, suite)| {
        let name = match name {
            "AES_128_CTR_LIGHTMAC_SHA256" => PossibleValue::new("AES_128_CTR_LIGHTMAC").alias(name),
            _ => PossibleValue::new(name),
        };
        (name, suite)
    }))
}

fn psk_modes() -> impl TypedValueParser<Value = PskKeyExchangeMode> {
    one_of([("psk_dhe_ke", PskKeyExchangeMode::PSK_DHE_KE), ("psk_ke", PskKeyExchangeMode::PSK_KE)])
}

fn groups() -> impl TypedValueParser<Value = NamedGroup> {
    one_of([
        ("x25519".into(), NamedGroup::X25519),
        (PossibleValue::new("p256").alias("secp256r1"), NamedGroup::P256),
        (PossibleValue::new("p384").alias("secp384r1"), NamedGroup::P384),
        (
            name(
                "x25519mlkem768",
                "Also safe from quantum computers; for DTLS 1.3, in two datagrams",
            ),
            NamedGroup::X25519_MLKEM768,
        ),
    ])
}

impl OfferArgs {
    /// Changes the settings that flags were given for, and leaves the others at their defaults.
    /// Connection IDs have `id_bytes` bytes unless a flag says otherwise.
    ///
    /// # Errors
    ///
    /// If the key log cannot be opened, or the handshake timeout is 0.
    pub(crate) fn apply(&self, settings: &mut Settings, id_bytes: u8) -> Result<(), Failure> {
        replace_if_given(&self.dtls, &mut settings.versions);
        replace_if_given(&self.cipher_suite, &mut settings.suites);
        if self.cipher_suite.contains(&CipherSuiteId::SHA256_SHA256) {
            tracing::warn!(
                "TLS_SHA256_SHA256 does NOT encrypt: anybody on the path reads everything"
            );
        }
        settings.packing = self.packing;
        settings.require_extended_master_secret = !self.allow_no_extended_master_secret;
        replace_if_given(&self.psk_mode, &mut settings.psk_modes);
        replace_if_given(&self.group, &mut settings.groups);
        settings.connection_ids = self.connection_ids.unwrap_or(ConnectionIds::of_bytes(id_bytes));
        settings.unchecked_address_change = self.follow_unchecked;
        if self.handshake_timeout.0.is_zero() {
            return Err(Failure::new("--handshake-timeout must be longer than 0"));
        }
        settings.handshake_deadline = self.handshake_timeout.0;
        if let Some(path) = &self.key_log {
            settings.key_log = Some(Arc::new(KeyLogFile::open(path)?));
        }
        Ok(())
    }
}

/// Replaces `setting` by the values that were asked for, if there are any. A value that is named
/// twice counts once, at its first place.
fn replace_if_given<T: Copy + PartialEq>(asked: &[T], setting: &mut Vec<T>) {
    if asked.is_empty() {
        return;
    }
    setting.clear();
    for value in asked {
        if !setting.contains(value) {
            setting.push(*value);
        }
    }
}

/// A file that traffic secrets are appended to.
struct KeyLogFile(Mutex<File>);

impl KeyLogFile {
    fn open(path: &Path) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let name = path.display();
        let file = lightseal_owner_only::file::open_private(&mut options, path)
            .context(format_args!("key log {name}"))?;
        tracing::warn!("KEY LOG: whoever reads {name} reads EVERYTHING; for debugging only");
        Ok(Self(Mutex::new(file)))
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, line: &str) {
        let line = zeroize::Zeroizing::new(format!("{line}\n"));
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::error!("key log: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_for_stays_and_nothing_is_listed_twice() {
        let mut setting = vec![NamedGroup::X25519, NamedGroup::P256];
        replace_if_given(&[], &mut setting);
        assert_eq!(setting, [NamedGroup::X25519, NamedGroup::P256]);
        replace_if_given(&[NamedGroup::P256, NamedGroup::X25519, NamedGroup::P256], &mut setting);
        assert_eq!(setting, [NamedGroup::P256, NamedGroup::X25519]);
    }

    #[test]
    fn connection_ids_have_a_length_or_are_off() {
        let ids = connection_ids;
        assert_eq!(ids("off"), Ok(ConnectionIds::Off));
        assert_eq!(
            (ids("0"), ids("32")),
            (Ok(ConnectionIds::SendOnly), Ok(ConnectionIds::Bytes(32)))
        );
        assert!(["33", "-1", "", "on", "256"].into_iter().all(|text| ids(text).is_err()));
    }

    #[test]
    fn all_groups_of_the_provider_have_a_name() {
        let parser = groups();
        let named = parser.possible_values().expect("names").map(|value| {
            let command = clap::Command::new("test").no_binary_name(true);
            let command = command.arg(clap::Arg::new("group").value_parser(groups()));
            let matches = command.try_get_matches_from([value.get_name()]).expect("a name");
            *matches.get_one::<NamedGroup>("group").expect("a group")
        });
        let all: Vec<_> = PROVIDER.groups.iter().map(|group| group.id()).collect();
        assert_eq!(named.collect::<Vec<_>>(), all);
    }

    #[test]
    fn suites_are_called_as_the_engine_calls_them() {
        let parser = cipher_suites();
        for shown in parser.possible_values().expect("names") {
            for name in shown.get_name_and_aliases() {
                let arg = clap::Arg::new("suite").value_parser(cipher_suites());
                let command = clap::Command::new("test").no_binary_name(true).arg(arg);
                let matches = command.try_get_matches_from([name]).expect(name);
                let suite = matches.get_one::<CipherSuiteId>("suite").copied().expect(name);
                let of_13 = PROVIDER.suite(suite).map(|suite| suite.name);
                let called = of_13.or(PROVIDER.suite_12(suite).map(|suite| suite.name));
                assert!(shown.matches(called.expect(name), false), "{name}");
            }
        }
    }
}
