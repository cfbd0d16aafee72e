//! The crates of this workspace that are published, and those that others build upon.

use crate::process::{capture, cargo};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A crate that others build upon.
#[derive(Debug)]
pub(crate) struct PublicCrate {
    /// The name of the package.
    pub(crate) name: &'static str,
    /// The features of the package that are part of its API.
    pub(crate) features: &'static [&'static str],
    /// The example that shows that the package stands alone.
    pub(crate) example: Example,
    /// Other packages of ours that the example uses, with a feature of each.
    pub(crate) with: &'static [(&'static str, Option<&'static str>)],
    /// Whether a library in C is built with the package.
    pub(crate) builds_c: bool,
}

/// The example of a crate.
#[derive(Debug)]
pub(crate) enum Example {
    /// One program, which ends by itself.
    Alone(&'static str),
    /// A server, whose first line of output ends in its address, and a client, which gets this
    /// address as its argument and ends by itself.
    Pair(&'static str, &'static str),
}

impl Example {
    /// The names of the example's programs.
    pub(crate) fn programs(&self) -> Vec<&'static str> {
        match self {
            Self::Alone(program) => vec![program],
            Self::Pair(server, client) => vec![server, client],
        }
    }
}

const fn alone(name: &'static str, example: &'static str) -> PublicCrate {
    PublicCrate {
        name,
        features: &[],
        example: Example::Alone(example),
        with: &[],
        builds_c: false,
    }
}

/// The crates that others build upon, those without dependencies on others first.
pub(crate) const PUBLIC: &[PublicCrate] = &[
    PublicCrate { features: &["texts"], ..alone("lightseal-core", "engine") },
    alone("lightseal-aes-table", "encrypt"),
    alone("lightseal-present", "kernels"),
    PublicCrate { features: &["present"], ..alone("lightmac", "mac") },
    PublicCrate { with: &[("lightmac", None)], ..alone("lightseal-aggregation", "stream") },
    PublicCrate { features: &["rustcrypto"], ..alone("lightseal-macsec", "frames") },
    PublicCrate {
        with: &[("lightseal-macsec", Some("rustcrypto"))],
        builds_c: true,
        ..alone("lightseal-macsec-aws-lc", "providers")
    },
    PublicCrate { features: &["serde", "tokio"], ..alone("lightseal-net", "echo") },
    PublicCrate {
        features: &["full", "passive", "rustcrypto"],
        example: Example::Pair("server", "client"),
        ..alone("lightseal-dtls", "server")
    },
    PublicCrate {
        with: &[("lightseal-dtls", Some("rustcrypto"))],
        builds_c: true,
        ..alone("lightseal-dtls-aws-lc", "providers")
    },
    PublicCrate {
        features: &["std"],
        with: &[("lightseal-dtls", Some("rustcrypto"))],
        ..alone("lightseal-pki", "verify")
    },
    PublicCrate {
        features: &["full"],
        with: &[("lightseal-dtls", Some("rustcrypto"))],
        ..alone("lightseal-group", "member")
    },
    PublicCrate {
        with: &[("lightseal-macsec", Some("rustcrypto"))],
        ..alone("lightseal-gateway", "tunnel")
    },
];

/// The crate that others build upon with this name.
pub(crate) fn public(name: &str) -> Option<&'static PublicCrate> {
    PUBLIC.iter().find(|public| public.name == name)
}

/// A package of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) folder: PathBuf,
    /// Whether it is allowed to be published.
    pub(crate) published: bool,
    /// Whether it has a library.
    pub(crate) library: bool,
    /// The packages of this workspace that it needs from a registry, those of its tests included.
    pub(crate) needs: Vec<String>,
}

/// The packages of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>, String> {
    let text = capture(cargo(&["metadata", "--format-version", "1", "--no-deps", "--quiet"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    packages.iter().map(read).collect()
}

fn read(package: &Value) -> Result<Package, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = text(&package["name"]);
    let folder = Path::new(package["manifest_path"].as_str().unwrap_or_default()).parent();
    let folder = folder.ok_or_else(|| format!("{name} has no folder"))?.to_path_buf();
    let is_library = |target: &Value| {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib"))
    };
    // A dependency without a version is one of tests alone, which cargo leaves out of packages.
    let needs = all(&package["dependencies"])
        .iter()
        .filter(|needed| needed["path"].is_string() && needed["req"] != "*")
        .map(|needed| text(&needed["name"]))
        .collect();
    Ok(Package {
        version: text(&package["version"]),
        published: package["publish"].is_null(),
        library: all(&package["targets"]).iter().any(is_library),
        name,
        folder,
        needs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_public_crate_is_published_and_has_its_example() {
        let packages = packages().expect("cargo metadata works here");
        for public in PUBLIC {
            let package = packages.iter().find(|package| package.name == public.name);
            let package = package.unwrap_or_else(|| panic!("there is no {}", public.name));
            assert!(package.published && package.library, "{}", public.name);
            for program in public.example.programs() {
                let path = package.folder.join("examples").join(format!("{program}.rs"));
                assert!(path.is_file(), "there is no {}", path.display());
            }
        }
    }
}
