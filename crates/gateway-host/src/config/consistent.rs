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
        match check_peers(None, self.peer_ids()) {
            Err(ConfigError::SharedIdentity(peer)) => {
                let span = spans.peer.get(usize::from(peer.0));
                let at = span.map(|span| span.public_key.span().start);
                return Err((at, "public_key: it is the key of another peer already".into()));
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
    public_key: SettingSpan,
}
