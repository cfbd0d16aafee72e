//! Checks that concern several settings, or limits that no type expresses.

use super::{Config, MOST_ALLOWED};
use lightseal_gateway::config::{ConfigError, check_peers};
use lightseal_gateway::schemes::SchemeName;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use toml::Spanned;

impl Config {
    /// Checks the configuration as a whole. The error has the position in `text` of the setting
    /// that is wrong, if there is one, and the reason.
    pub(super) fn check_consistency(&self, text: &str) -> Result<(), (Option<usize>, String)> {
        let spans: SettingSpans = toml::from_str(text).unwrap_or_default();
        for (index, peer) in self.peers.iter().enumerate() {
            let span = spans.peer.get(index);
            let known_by = peer.written_identity().map_err(|why| {
                let at = span.and_then(|span| span.identity.as_ref().or(Some(&span.name)));
                (at.map(|at| at.span().start), why.to_owned())
            })?;
            if !known_by.is_raw() && self.gateway.ca.is_empty() {
                let at = span.and_then(|span| Some(span.identity.as_ref()?.span().start));
                let what = "identity: [gateway] ca is needed to verify certificates of peers";
                return Err((at, what.into()));
            }
        }
        match check_peers(None, self.peer_ids()) {
            Err(ConfigError::SharedIdentity(peer)) => {
                let span = spans.peer.get(usize::from(peer.0));
                let key = span.and_then(|span| span.public_key.as_ref());
                let at = key.or_else(|| span.and_then(|span| span.identity.as_ref()));
                let setting = if key.is_some() { "public_key" } else { "identity" };
                let what = format!("{setting}: it is the key of another peer already");
                return Err((at.map(|at| at.span().start), what));
            }
            checked => checked.map_err(|error| (None, error.to_string()))?,
        }
        let mut names = BTreeSet::new();
        for (index, peer) in self.peers.iter().enumerate() {
            let span = spans.peer.get(index);
            if !names.insert(&peer.name) || peer.name == self.gateway.name {
                let at = span.map(|span| span.name.span().start);
                return Err((
                    at,
                    format!("name: {:?} is the name of another gateway already", peer.name),
                ));
            }
        }
        let at = |span: Option<SettingSpan>| span.map(|span| span.span().start);
        let SettingSpans { gateway, underlay, .. } = spans;
        match (&self.gateway.identity, &self.gateway.credential) {
            (Some(_), None) | (None, Some(_)) => {}
            (None, None) => {
                return Err((None, "[gateway]: missing field `identity` or `credential`".into()));
            }
            (Some(_), Some(_)) => {
                let what = "credential: there is an identity too; give one of them";
                return Err((at(gateway.credential), what.into()));
            }
        }
        if !self.gateway.crl.is_empty() && self.gateway.ca.is_empty() {
            return Err((at(gateway.crl), "crl: [gateway] ca is needed beside it".into()));
        }
        if self.gateway.allow.len() > MOST_ALLOWED {
            let what = format!("allow: at most {MOST_ALLOWED} kinds of frames are possible");
            return Err((at(gateway.allow), what));
        }
        if self.gateway.compress && self.gateway.scheme != SchemeName::Sealed {
            let what = "compress: only scheme \"sealed\" has short headers".into();
            return Err((at(gateway.compress), what));
        }
        match (self.gateway.scheme, self.gateway.nothing_is_protected) {
            (SchemeName::Plain, false) => {
                let what = "scheme: under \"plain\" anybody on the path reads and forges frames; \
                            use \"sealed\", or accept it with nothing_is_protected = true";
                return Err((at(gateway.scheme), what.into()));
            }
            (SchemeName::Plain, true) | (_, false) => {}
            (_, true) => {
                let what = "nothing_is_protected: only scheme \"plain\" protects nothing".into();
                return Err((at(gateway.nothing_is_protected), what));
            }
        }
        if self.underlay.io.wants_xdp() && self.underlay.interface.is_none() {
            return Err((at(underlay.io), "[underlay] io: AF_XDP needs an interface".into()));
        }
        if self.underlay.interface.as_ref() == Some(&self.lan.interface) {
            let what = "[underlay] interface: it is the interface of [lan]".into();
            return Err((at(underlay.interface), what));
        }
        if self.underlay.listen.port() == 0 {
            let what = "[underlay] listen: a port is needed, such as 8885".into();
            return Err((at(underlay.listen), what));
        }
        Ok(())
    }
}

/// The positions of the settings that are compared with others, or whose limits no type expresses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SettingSpans {
    gateway: GatewaySpans,
    underlay: UnderlaySpans,
    peer: Vec<PeerSpans>,
}

type SettingSpan = Spanned<IgnoredAny>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct GatewaySpans {
    credential: Option<SettingSpan>,
    crl: Option<SettingSpan>,
    allow: Option<SettingSpan>,
    compress: Option<SettingSpan>,
    scheme: Option<SettingSpan>,
    nothing_is_protected: Option<SettingSpan>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UnderlaySpans {
    listen: Option<SettingSpan>,
    io: Option<SettingSpan>,
    interface: Option<SettingSpan>,
}

#[derive(Deserialize)]
struct PeerSpans {
    name: SettingSpan,
    public_key: Option<SettingSpan>,
    identity: Option<SettingSpan>,
}
