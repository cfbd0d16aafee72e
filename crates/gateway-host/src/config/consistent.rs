//! Checks that concern several settings, or limits that no type expresses.

use super::{Config, MOST_ALLOWED, Scheme};
use lightseal_gateway::set::PeerSet;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use toml::Spanned;

impl Config {
    /// Checks the configuration as a whole. The error has the position in `text` of the setting
    /// that is wrong, if there is one, and the reason.
    pub(super) fn consistent(&self, text: &str) -> Result<(), (Option<usize>, String)> {
        let places: Places = toml::from_str(text).unwrap_or_default();
        let most = PeerSet::MOST;
        if self.peers.len() > most {
            return Err((None, format!("{} peers: at most {most} are possible", self.peers.len())));
        }
        let (mut names, mut keys) = (BTreeSet::new(), BTreeSet::new());
        for (index, peer) in self.peers.iter().enumerate() {
            let place = places.peer.get(index);
            if !names.insert(&peer.name) || peer.name == self.gateway.name {
                let at = place.map(|place| place.name.span().start);
                return Err((
                    at,
                    format!("name: {:?} is the name of another gateway already", peer.name),
                ));
            }
            if !keys.insert(peer.public_key) {
                let at = place.map(|place| place.public_key.span().start);
                return Err((at, "public_key: it is the key of another peer already".into()));
            }
        }
        let at = |place: Option<Place>| place.map(|place| place.span().start);
        let Places { gateway, underlay, .. } = places;
        if self.gateway.allow.len() > MOST_ALLOWED {
            let what = format!("allow: at most {MOST_ALLOWED} kinds of frames are possible");
            return Err((at(gateway.allow), what));
        }
        if self.gateway.compress && self.gateway.scheme != Scheme::Sealed {
            let what = "compress: only scheme \"sealed\" has short headers".into();
            return Err((at(gateway.compress), what));
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
struct Places {
    gateway: GatewayPlaces,
    underlay: UnderlayPlaces,
    peer: Vec<PeerPlaces>,
}

type Place = Spanned<IgnoredAny>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct GatewayPlaces {
    allow: Option<Place>,
    compress: Option<Place>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UnderlayPlaces {
    listen: Option<Place>,
    io: Option<Place>,
    interface: Option<Place>,
}

#[derive(Deserialize)]
struct PeerPlaces {
    name: Place,
    public_key: Place,
}
