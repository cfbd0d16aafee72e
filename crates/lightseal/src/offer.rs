//! What a proxy offers and accepts in a handshake, as flags and settings.
//!
//! Two proxies agree without these flags. The flags are for other peers, which
//! may support only a part of the protocol, and for finding out why a handshake
//! with such a peer fails.

use crate::failure::{Context, Failure};
use crate::units::Quantity;
use clap::{Args, ValueEnum};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::{CipherSuiteId, NamedGroup};
use lightseal_dtls::{ConnectionId, ConnectionIds, KeyLog, Packing, ProtocolVersion, Settings};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Flags that limit what is negotiated.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "For other DTLS peers")]
pub(crate) struct OfferArgs {
    /// DTLS versions to offer; 1.2 is used only with a peer that lacks 1.3 [default: 1.2, 1.3].
    #[arg(long, value_name = "VERSION", value_enum, value_delimiter = ',')]
    dtls: Vec<Version>,
    /// Cipher suites of these versions, best first [default: all but CCM_8 and
    /// TLS_SHA256_SHA256, which does NOT encrypt].
    #[arg(long, value_name = "SUITE", value_enum, value_delimiter = ',', ignore_case = true)]
    cipher_suite: Vec<CipherSuite>,
    /// PSK key exchange modes, best first; psk_ke is shorter and gives no forward secrecy [default:
    /// psk_dhe_ke, psk_ke].
    #[arg(long, value_name = "MODE", value_enum, value_delimiter = ',', ignore_case = true)]
    psk_mode: Vec<PskMode>,
    /// How handshake messages are packed into records and datagrams.
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    packing: PackingName,
    /// Accept a DTLS 1.2 peer that cannot bind its keys to the whole handshake (RFC 7627).
    #[arg(long)]
    allow_no_extended_master_secret: bool,
    /// Length of the connection IDs in records to this end, 0 to 32 bytes, or off. A client whose
    /// address changes keeps its flows if the server gives it a connection ID [default: 4 (server),
    /// 0 (client)].
    #[arg(long, value_name = "BYTES|off")]
    connection_ids: Option<ConnectionIdLength>,
    /// Accept the new address of a peer with connection IDs even if it cannot be checked (RFC
    /// 9853).
    #[arg(long)]
    follow_unchecked: bool,
    /// Key exchange groups, best first [default: x25519, p256].
    #[arg(long, value_name = "GROUP", value_enum, value_delimiter = ',', ignore_case = true)]
    group: Vec<Group>,
    /// Give up a handshake that takes longer than this.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    handshake_timeout: Quantity<Duration>,
    /// DANGER: append all traffic secrets to this file, in the format of SSLKEYLOGFILE.
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

/// Whether connection IDs are negotiated, and how many bytes this end's own have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionIdLength(pub(crate) ConnectionIds);

impl FromStr for ConnectionIdLength {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let most = ConnectionId::MAX_LEN;
        match text {
            "off" => Ok(Self(ConnectionIds::Off)),
            _ => match text.parse::<u8>() {
                Ok(len) if usize::from(len) <= most => Ok(Self(ConnectionIds::of_bytes(len))),
                _ => Err("expected a length of 0 to 32 bytes, or off"),
            },
        }
    }
}

/// Versions of DTLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    #[value(name = "1.2")]
    Dtls12,
    #[value(name = "1.3")]
    Dtls13,
}

/// How the handshake messages of a flight are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum PackingName {
    /// Full packing in DTLS 1.3, one message per record in 1.2.
    #[default]
    Auto,
    /// As many messages per record, and records per datagram, as fit.
    Full,
    /// One message per record.
    Record,
    /// One message per record and one record per datagram.
    Datagram,
}

/// Cipher suites by their registered names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CipherSuite {
    #[value(name = "TLS_AES_128_GCM_SHA256")]
    Aes128Gcm,
    #[value(name = "TLS_CHACHA20_POLY1305_SHA256")]
    ChaCha20Poly1305,
    #[value(name = "TLS_AES_128_CCM_SHA256")]
    Aes128Ccm,
    #[value(name = "TLS_AES_128_CCM_8_SHA256")]
    Aes128Ccm8,
    #[value(name = "AES_128_CTR_LIGHTMAC", alias = "AES_128_CTR_LIGHTMAC_SHA256")]
    Aes128CtrLightMac,
    #[value(name = "TLS_SHA256_SHA256")]
    Sha256,
    #[value(name = "TLS_PSK_WITH_AES_128_GCM_SHA256")]
    PskAes128Gcm,
    #[value(name = "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256")]
    PskChaCha20Poly1305,
    #[value(name = "TLS_PSK_WITH_AES_128_CCM")]
    PskAes128Ccm,
    #[value(name = "TLS_PSK_WITH_AES_128_CCM_8")]
    PskAes128Ccm8,
    #[value(name = "TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256")]
    EcdhePskAes128Gcm,
    #[value(name = "TLS_ECDHE_PSK_WITH_AES_128_CCM_8_SHA256")]
    EcdhePskAes128Ccm8,
}

/// Ways to use a PSK by their registered names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PskMode {
    #[value(name = "psk_dhe_ke")]
    PskDheKe,
    #[value(name = "psk_ke")]
    PskKe,
}

/// Key exchange groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    X25519,
    #[value(alias = "secp256r1")]
    P256,
}

impl From<CipherSuite> for CipherSuiteId {
    fn from(suite: CipherSuite) -> Self {
        match suite {
            CipherSuite::Aes128Gcm => Self::AES_128_GCM_SHA256,
            CipherSuite::ChaCha20Poly1305 => Self::CHACHA20_POLY1305_SHA256,
            CipherSuite::Aes128Ccm => Self::AES_128_CCM_SHA256,
            CipherSuite::Aes128Ccm8 => Self::AES_128_CCM_8_SHA256,
            CipherSuite::Aes128CtrLightMac => Self::AES_128_CTR_LIGHTMAC_SHA256,
            CipherSuite::Sha256 => Self::SHA256_SHA256,
            CipherSuite::PskAes128Gcm => Self::PSK_WITH_AES_128_GCM_SHA256,
            CipherSuite::PskChaCha20Poly1305 => Self::PSK_WITH_CHACHA20_POLY1305_SHA256,
            CipherSuite::PskAes128Ccm => Self::PSK_WITH_AES_128_CCM,
            CipherSuite::PskAes128Ccm8 => Self::PSK_WITH_AES_128_CCM_8,
            CipherSuite::EcdhePskAes128Gcm => Self::ECDHE_PSK_WITH_AES_128_GCM_SHA256,
            CipherSuite::EcdhePskAes128Ccm8 => Self::ECDHE_PSK_WITH_AES_128_CCM_8_SHA256,
        }
    }
}

impl From<Version> for ProtocolVersion {
    fn from(version: Version) -> Self {
        match version {
            Version::Dtls12 => Self::Dtls12,
            Version::Dtls13 => Self::Dtls13,
        }
    }
}

impl From<PackingName> for Packing {
    fn from(name: PackingName) -> Self {
        match name {
            PackingName::Auto => Self::Auto,
            PackingName::Full => Self::Full,
            PackingName::Record => Self::RecordPerMessage,
            PackingName::Datagram => Self::RecordPerDatagram,
        }
    }
}

impl From<PskMode> for PskKeyExchangeMode {
    fn from(mode: PskMode) -> Self {
        match mode {
            PskMode::PskDheKe => Self::PSK_DHE_KE,
            PskMode::PskKe => Self::PSK_KE,
        }
    }
}

impl From<Group> for NamedGroup {
    fn from(group: Group) -> Self {
        match group {
            Group::X25519 => Self::X25519,
            Group::P256 => Self::P256,
        }
    }
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
        if self.cipher_suite.contains(&CipherSuite::Sha256) {
            tracing::warn!(
                "TLS_SHA256_SHA256 does NOT encrypt: anybody on the path reads everything"
            );
        }
        settings.packing = self.packing.into();
        settings.require_extended_master_secret = !self.allow_no_extended_master_secret;
        replace_if_given(&self.psk_mode, &mut settings.psk_modes);
        replace_if_given(&self.group, &mut settings.groups);
        settings.connection_ids =
            self.connection_ids.map_or(ConnectionIds::of_bytes(id_bytes), |ids| ids.0);
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
fn replace_if_given<T: Copy + Into<U>, U: PartialEq>(asked: &[T], setting: &mut Vec<U>) {
    if asked.is_empty() {
        return;
    }
    setting.clear();
    for value in asked {
        let value = (*value).into();
        if !setting.contains(&value) {
            setting.push(value);
        }
    }
}

/// A file that traffic secrets are appended to.
struct KeyLogFile(Mutex<File>);

impl KeyLogFile {
    fn open(path: &Path) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let name = path.display();
        let file = options.open(path).context(format_args!("key log {name}"))?;
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
        replace_if_given::<Group, _>(&[], &mut setting);
        assert_eq!(setting, [NamedGroup::X25519, NamedGroup::P256]);
        replace_if_given(&[Group::P256, Group::X25519, Group::P256], &mut setting);
        assert_eq!(setting, [NamedGroup::P256, NamedGroup::X25519]);
    }

    #[test]
    fn connection_ids_have_a_length_or_are_off() {
        let ids = |text: &str| text.parse::<ConnectionIdLength>().map(|ids| ids.0);
        assert_eq!(ids("off"), Ok(ConnectionIds::Off));
        assert_eq!(
            (ids("0"), ids("32")),
            (Ok(ConnectionIds::SendOnly), Ok(ConnectionIds::Bytes(32)))
        );
        assert!(["33", "-1", "", "on", "256"].into_iter().all(|text| ids(text).is_err()));
    }

    #[test]
    fn suites_are_called_as_the_engine_calls_them() {
        for suite in CipherSuite::value_variants() {
            let (provider, id) = (&lightseal_dtls::crypto::rustcrypto::PROVIDER, (*suite).into());
            let newer = provider.suite(id).map(|suite| suite.name);
            let name = newer.or(provider.suite_12(id).map(|suite| suite.name)).unwrap();
            let ours = suite.to_possible_value().unwrap();
            assert!(ours.matches(name, false), "{name}");
        }
    }
}
