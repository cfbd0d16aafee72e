//! The images of `firmware/footprint` and `firmware/no-alloc`, and how they are built.

use super::{folder, frames};
use crate::Failure;
use crate::process::{cargo, run, workspace};
use crate::toolchain::Toolchain;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// An image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Its package, and the features with which the package is built.
    package: &'static str,
    features: &'static str,
    pub(super) input: Input,
    /// The only profile in which it is measured; empty if it is measured in all.
    profile: &'static str,
}

/// What an image needs to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing.
    None,
    /// The transcripts that these images write, which have both ends of an association or all
    /// members of a group.
    Transcripts(&'static [&'static str]),
    /// Keys or datagrams that nothing makes here: the image is sized and not run.
    Absent,
}

const fn image(name: &'static str, about: &'static str) -> Image {
    let (package, features, profile) = ("footprint", "", "");
    Image { name, about, package, features, input: Input::None, profile }
}

const fn solo(name: &'static str, about: &'static str, ends: &'static [&'static str]) -> Image {
    Image { input: Input::Transcripts(ends), ..image(name, about) }
}

const fn unfed(name: &'static str, about: &'static str) -> Image {
    Image { input: Input::Absent, ..image(name, about) }
}

impl Image {
    const fn with(self, features: &'static str) -> Self {
        Self { features, ..self }
    }

    /// An image of the package that has no allocator.
    const fn without_allocator(self, features: &'static str) -> Self {
        Self { package: "no-alloc", features, ..self }
    }

    /// An image for tables of RAM, which hardly depends on the profile.
    const fn small(self) -> Self {
        Self { profile: "small", ..self }
    }

    /// Whether the image is measured in this profile.
    pub(super) fn is_in(&self, profile: Profile) -> bool {
        self.profile.is_empty() || self.profile == profile.name
    }
}

/// The features of a group's sender and of its listeners. Images that do not open sessions have them
/// too, without effect, so that fewer builds are needed.
const SENDER: &str = "client,dtls12,group-pairwise";
const LISTENER: &str = "server,dtls12,group-pairwise";

/// The image with both ends that have raw public keys.
const RAW_KEYS: &[&str] = &["ends-raw-keys"];

/// All images. An image with both ends stands before those that read its transcript.
pub(super) const IMAGES: &[Image] = &[
    image("base", "nothing: what every image has"),
    image("ends-13", "client and server of DTLS 1.3, CCM_8").with("client,server"),
    image("ends-12", "client and server of DTLS 1.2, CCM_8").with("client,server,dtls12"),
    image("ends-both", "client and server of both versions, CCM_8").with("client,server,dtls12"),
    image("ends-ccm", "client and server of DTLS 1.3, CCM").with("client,server"),
    image("ends-agg", "client and server of DTLS 1.3, CCM, the client's records under agg:16")
        .with("client,server,agg-sender,agg-receiver"),
    image("ends-r2d2", "client and server of DTLS 1.3, CCM, the client's records under r2d2:50")
        .with("client,server,r2d2-sender,r2d2-receiver"),
    solo("client-13", "client of DTLS 1.3, CCM_8", &["ends-13"]).with("client"),
    solo("client-12", "client of DTLS 1.2, CCM_8", &["ends-12"]).with("client,dtls12"),
    solo("client-both", "client of both versions, CCM_8", &["ends-both"]).with("client,dtls12"),
    solo("client-ccm", "client of DTLS 1.3, CCM", &["ends-ccm"]).with("client"),
    solo("client-agg", "client of DTLS 1.3, CCM, sends under agg:16", &["ends-agg"])
        .with("client,agg-sender"),
    solo("client-r2d2", "client of DTLS 1.3, CCM, sends under r2d2:50", &["ends-r2d2"])
        .with("client,r2d2-sender"),
    solo("server-13", "server of DTLS 1.3, CCM_8", &["ends-13"]).with("server"),
    solo(
        "client-asleep",
        "client of DTLS 1.3, CCM_8, which sleeps between its events",
        &["ends-13"],
    )
    .with("client,sleep"),
    solo("client-saved", "client of DTLS 1.3, CCM_8, saved before deep sleep", &["ends-13"])
        .with("client,persistence"),
    solo("server-asleep", "server of DTLS 1.3, CCM_8, whose associations sleep", &["ends-13"])
        .with("server,sleep"),
    solo("server-both", "server of both versions, CCM_8", &["ends-both"]).with("server,dtls12"),
    image("ends-sessions", "client and server of DTLS 1.3, CCM_8, one session after another")
        .with("client,server")
        .small(),
    solo("sessions-24", "server of DTLS 1.3, CCM_8, with many sessions", &["ends-sessions"])
        .with("server")
        .small(),
    solo(
        "sessions-asleep",
        "server of DTLS 1.3, CCM_8, with many sessions that sleep between their events",
        &["ends-sessions"],
    )
    .with("server,sleep")
    .small(),
    unfed("group-member", "member of a group, sender and listener, all of it")
        .with("group-pairwise"),
    image("members-axiom", "all members of a group, Axiom").with("dtls12,group-writer").small(),
    image("members-compact", "all members of a group, compact").with("dtls12,group-writer").small(),
    image("coap-uni-sender", "sender, CoAP Uni").small(),
    image("coap-mul-sender", "sender, CoAP Mul").small(),
    image("coap-listener", "listener, CoAP Uni and CoAP Mul").small(),
    solo("uni-uni-sender", "sender, DTLS Uni-Uni", &["ends-12"]).with(SENDER).small(),
    solo("uni-uni-listener", "listener, DTLS Uni-Uni", &["ends-12"]).with(LISTENER).small(),
    solo("mul-uni-sender", "sender, DTLS Mul-Uni", &["ends-12", "members-axiom"])
        .with(SENDER)
        .small(),
    solo("mul-uni-listener", "listener, DTLS Mul-Uni", &["ends-12", "members-axiom"])
        .with(LISTENER)
        .small(),
    solo("mul-mul-sender", "sender, DTLS Mul-Mul (Axiom)", &["members-axiom"]).with(SENDER).small(),
    solo("mul-mul-listener", "listener, DTLS Mul-Mul (Axiom)", &["members-axiom"])
        .with(LISTENER)
        .small(),
    solo("uni-uni-13-sender", "sender, DTLS 1.3 Uni-Uni", &["ends-13"]).with("client").small(),
    solo(
        "uni-uni-13-asleep",
        "sender, DTLS 1.3 Uni-Uni, whose sessions sleep between their events",
        &["ends-13"],
    )
    .with("client,sleep")
    .small(),
    solo("uni-uni-13-listener", "listener, DTLS 1.3 Uni-Uni", &["ends-13"]).with("server").small(),
    solo("compact-sender", "sender, compact Mul-Mul", &["members-compact"]).with(SENDER).small(),
    solo("compact-listener", "listener, compact Mul-Mul", &["members-compact"])
        .with(LISTENER)
        .small(),
    image("tags-agg-sender", "sender of tags that Agg shares").with("tags-agg-sender"),
    solo("tags-agg-receiver", "receiver of tags that Agg shares", &["tags-agg-sender"])
        .with("tags-agg-receiver"),
    image("tags-r2d2-sender", "sender of tags that R2D2 shares").with("tags-r2d2-sender"),
    solo("tags-r2d2-receiver", "receiver of tags that R2D2 shares", &["tags-r2d2-sender"])
        .with("tags-r2d2-receiver"),
    image("aes", "AES-128: one block"),
    image("lightmac-aes", "LightMAC over AES-128, 32 B"),
    image("lightmac-present", "LightMAC over PRESENT-80, 32 B"),
    image("cmac-aes", "CMAC over AES-128, 32 B"),
    image("hmac-sha256", "HMAC with SHA-256, 32 B"),
    unfed("group-axiom", "symmetric member of a group in axiom-1.2, CCM_8")
        .without_allocator("axiom"),
    unfed("group-compact", "symmetric member of a group in compact, CCM_8")
        .without_allocator("compact"),
    unfed(
        "group-signed",
        "member of a group in compact, CCM_8, with signatures and rekey messages",
    )
    .with("group-signed"),
    image("ends-agg-both", "client and server of DTLS 1.3, CCM, all records under agg:16")
        .with("client,server,agg-sender,agg-receiver"),
    solo(
        "client-agg-both",
        "client of DTLS 1.3, CCM, sends and receives under agg:16",
        &["ends-agg-both"],
    )
    .with("client,agg-sender,agg-receiver"),
    image("ends-r2d2-both", "client and server of DTLS 1.3, CCM, all records under r2d2:50")
        .with("client,server,r2d2-sender,r2d2-receiver"),
    solo(
        "client-r2d2-both",
        "client of DTLS 1.3, CCM, sends and receives under r2d2:50",
        &["ends-r2d2-both"],
    )
    .with("client,r2d2-sender,r2d2-receiver"),
    unfed("client-senders", "client of DTLS 1.3, CCM, sends under agg:16 or r2d2:50")
        .with("client,agg-sender,r2d2-sender"),
    image("ends-p256", "client and server of DTLS 1.3, CCM_8, key exchange over P-256")
        .with("client,key-exchange,server"),
    solo("client-p256", "client of DTLS 1.3, CCM_8, key exchange over P-256", &["ends-p256"])
        .with("client,key-exchange"),
    image("ends-raw-keys", "client and server of DTLS 1.3, CCM_8, raw public keys of P-256")
        .with("certificates,client,server"),
    solo("client-raw-keys", "client of DTLS 1.3, CCM_8, raw public keys of P-256", RAW_KEYS)
        .with("certificates,client"),
    solo("server-raw-keys", "server of DTLS 1.3, CCM_8, raw public keys of P-256", RAW_KEYS)
        .with("certificates,server"),
    image(
        "no-alloc",
        "symmetric members of groups, shared tags, LightMAC, PRESENT and AES, without an allocator",
    )
    .without_allocator("axiom,compact"),
];

/// The named images, or all, with the images whose transcripts they read.
pub(super) fn named(names: &[String]) -> Vec<Image> {
    let named = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let reads = |image: &Image, name| match image.input {
        Input::Transcripts(writers) => writers.contains(&name),
        Input::None | Input::Absent => false,
    };
    let is_read = |name| IMAGES.iter().any(|image| reads(image, name) && named(image.name));
    IMAGES.iter().copied().filter(|image| named(image.name) || is_read(image.name)).collect()
}

/// How images are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) name: &'static str,
    flags: &'static str,
    /// A feature of the packages that are built, or nothing.
    feature: &'static str,
}

/// Symbols are mangled so that `nm` shows for which types a generic function was made.
const SYMBOLS: &str = "-Csymbol-mangling-version=v0";

/// The profiles of `firmware/Cargo.toml`.
pub(super) const PROFILES: [Profile; 2] = [
    Profile { name: "small", flags: "--cfg sha2_backend_soft=\"compact\"", feature: "" },
    Profile { name: "fast", flags: "", feature: "fast" },
];

/// The Rust target of the board, which the settings of `firmware/` choose: the folder of its builds.
const TARGET: &str = "thumbv7m-none-eabi";

/// The folder of builds of another work tree.
fn earlier() -> PathBuf {
    folder().join("build-earlier")
}

/// Removes the builds of another work tree.
pub(super) fn remove_earlier() {
    // What is not removed is overwritten by the next build.
    let _ = fs::remove_dir_all(earlier());
}

/// The package whose images have instruments, the feature that leaves them out, and the folder of the
/// images without.
const INSTRUMENTED: &str = "footprint";
const BARE: &str = "bare";

/// The image whose flash is measured, of an image that was built: the one without instruments, if
/// there is one.
pub(super) fn bare(built: &Path) -> PathBuf {
    let bare = built.with_file_name(BARE).join(built.file_name().unwrap_or_default());
    if bare.exists() { bare } else { built.to_owned() }
}

/// Builds images of the workspace in `source`, with and without instruments, and returns the folder
/// in which they are.
pub(super) fn build(
    toolchain: &Toolchain,
    source: &Path,
    profile: Profile,
    images: &[Image],
) -> Result<PathBuf, Failure> {
    // Cargo tells packages apart by their place in the workspace, and would mix two work trees.
    let target = if source == workspace() { folder().join("build") } else { earlier() };
    let set = |image: &Image| (image.package, image.features);
    let built = target.join(TARGET).join(profile.name);
    let with_features = |package, features: &str, names: &[&str]| {
        let mut build = cargo(&["build", "--quiet", "--package", package, "--features", features]);
        if has_feature(source, package, profile.feature) {
            build.args(["--features", profile.feature]);
        }
        build.args(["--profile", profile.name, "--target-dir"]).arg(&target);
        build.args(names.iter().flat_map(|name| ["--bin", name]));
        build.env("RUSTFLAGS", format!("{SYMBOLS} {} {}", frames::FLAG, profile.flags));
        build.current_dir(source.join("firmware"));
        toolchain.use_rust(&mut build);
        run(build).map_err(Failure::Failed)
    };
    let has_bare = has_feature(source, INSTRUMENTED, BARE);
    let sets: BTreeSet<_> = images.iter().map(set).collect();
    for (package, features) in sets {
        let of_set = images.iter().filter(|image| set(image) == (package, features));
        let names: Vec<_> = of_set.map(|image| image.name).collect();
        if package == INSTRUMENTED && has_bare {
            with_features(package, &format!("{features},{BARE}"), &names)?;
            keep(&built, &names).map_err(|error| Failure::Failed(error.to_string()))?;
        }
        with_features(package, features, &names)?;
    }
    Ok(built)
}

/// Whether a package of a work tree's firmware has this feature.
fn has_feature(source: &Path, package: &str, feature: &str) -> bool {
    let manifest = source.join("firmware").join(package).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap_or_default();
    manifest.lines().any(|line| line.starts_with(&format!("{feature} =")))
}

/// Moves images without instruments out of the way of those with instruments.
fn keep(built: &Path, names: &[&str]) -> std::io::Result<()> {
    let folder = built.join(BARE);
    fs::create_dir_all(&folder)?;
    for name in names {
        fs::copy(built.join(name), folder.join(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_measured_after_the_one_whose_transcript_it_reads() {
        for (at, image) in IMAGES.iter().enumerate() {
            let Input::Transcripts(writers) = image.input else { continue };
            for writer in writers {
                let before = IMAGES[..at].iter().find(|before| before.name == *writer);
                let writer = before.expect(image.name);
                assert!(PROFILES.iter().all(|p| writer.is_in(*p) || !image.is_in(*p)));
            }
        }
        let names = named(&["client-12".into()]).into_iter().map(|image| image.name);
        assert_eq!(names.collect::<Vec<_>>(), ["ends-12", "client-12"]);
    }
}
