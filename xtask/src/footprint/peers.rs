//! Clients of other implementations, built by the C compiler for the same board. Their sources are
//! in crates that `interop` depends on; the programs are in `firmware/footprint/peers`.
//!
//! A client is measured like ours: the datagrams of its server come from a transcript, which a
//! program with both ends of the same implementation has written before.

use super::emulator::{self, Program, Run};
use super::folder;
use crate::Failure;
use crate::process::{capture, cargo, run, workspace};
use crate::toolchain::Toolchain;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A client of another implementation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The program in `firmware/footprint/peers`.
    program: &'static str,
    source: Option<Source>,
    flags: &'static [&'static str],
}

/// Where an implementation's source is.
#[derive(Clone, Copy, Debug)]
struct Source {
    /// The crate that contains it.
    package: &'static str,
    /// Its folder in the crate.
    folder: &'static str,
    /// Folders of headers, and files to compile, in that folder.
    headers: &'static [&'static str],
    files: &'static [&'static str],
    /// What a program with a server has besides.
    server_files: &'static [&'static str],
}

const TINYDTLS: Source = Source {
    package: "tinydtls-sys",
    folder: "src/tinydtls",
    headers: &["."],
    files: &[
        "dtls.c",
        "ccm.c",
        "crypto.c",
        "hmac.c",
        "netq.c",
        "peer.c",
        "session.c",
        "dtls_time.c",
        "aes/rijndael.c",
        "aes/rijndael_wrap.c",
        "sha2/sha2.c",
    ],
    server_files: &[],
};

const MBEDTLS: Source = Source {
    package: "mbedtls-rs-sys",
    folder: "mbedtls",
    headers: &["include", "library"],
    files: &[
        "library/aes.c",
        "library/block_cipher.c",
        "library/ccm.c",
        "library/cipher.c",
        "library/cipher_wrap.c",
        "library/constant_time.c",
        "library/md.c",
        "library/platform.c",
        "library/platform_util.c",
        "library/sha256.c",
        "library/ssl_ciphersuites.c",
        "library/ssl_client.c",
        "library/ssl_msg.c",
        "library/ssl_tls.c",
        "library/ssl_tls12_client.c",
    ],
    server_files: &["library/ssl_tls12_server.c"],
};

const WOLFSSL: Source = Source {
    package: "wolfssl-sys",
    folder: "wolfssl-src",
    headers: &["."],
    files: &[
        "src/dtls.c",
        "src/dtls13.c",
        "src/internal.c",
        "src/keys.c",
        "src/ssl.c",
        "src/tls.c",
        "src/tls13.c",
        "src/wolfio.c",
        "wolfcrypt/src/aes.c",
        "wolfcrypt/src/error.c",
        "wolfcrypt/src/hash.c",
        "wolfcrypt/src/hmac.c",
        "wolfcrypt/src/kdf.c",
        "wolfcrypt/src/logging.c",
        "wolfcrypt/src/memory.c",
        "wolfcrypt/src/misc.c",
        "wolfcrypt/src/random.c",
        "wolfcrypt/src/sha256.c",
        "wolfcrypt/src/wc_port.c",
    ],
    server_files: &[],
};

const WITH_SHA256: &str = "-DWITH_SHA256";
const MBEDTLS_SETTINGS: &str = "-DMBEDTLS_CONFIG_FILE=\"mbedtls_settings.h\"";
const WOLFSSL_SETTINGS: &str = "-DWOLFSSL_USER_SETTINGS";

pub(super) const PEERS: [Peer; 6] = [
    Peer {
        name: "c-base",
        about: "nothing in C: what every peer's image has",
        program: "nothing.c",
        source: None,
        flags: &[],
    },
    Peer {
        name: "tinydtls-12",
        about: "tinydtls, client of DTLS 1.2, CCM_8",
        program: "tinydtls.c",
        source: Some(TINYDTLS),
        flags: &[WITH_SHA256],
    },
    Peer {
        name: "mbedtls-12",
        about: "Mbed TLS, client of DTLS 1.2, CCM_8",
        program: "mbedtls.c",
        source: Some(MBEDTLS),
        flags: &[MBEDTLS_SETTINGS],
    },
    Peer {
        name: "wolfssl-12",
        about: "wolfSSL, client of DTLS 1.2, CCM_8",
        program: "wolfssl.c",
        source: Some(WOLFSSL),
        flags: &[WOLFSSL_SETTINGS],
    },
    Peer {
        name: "wolfssl-13",
        about: "wolfSSL, client of DTLS 1.3, CCM_8",
        program: "wolfssl.c",
        source: Some(WOLFSSL),
        flags: &[WOLFSSL_SETTINGS, "-DPEER_13"],
    },
    Peer {
        name: "wolfssl-13-fast",
        about: "wolfSSL, client of DTLS 1.3, CCM_8, with its fast SHA-256 and AES",
        program: "wolfssl.c",
        source: Some(WOLFSSL),
        flags: &[WOLFSSL_SETTINGS, "-DPEER_13", "-DPEER_FAST"],
    },
];

/// The profile that their rows name: how they are compiled.
pub(super) const PROFILE: &str = "gcc -Os";

/// For the processor of the board, with one section for each function, of which the linker drops
/// those that nothing uses. Warnings about the peers' sources are not ours.
const COMPILE: [&str; 10] = [
    "-mcpu=cortex-m3",
    "-mthumb",
    "-Os",
    "-std=gnu11",
    "-ffunction-sections",
    "-fdata-sections",
    "-DNDEBUG",
    "-w",
    "-nostartfiles",
    "-nodefaultlibs",
];

/// Calls of the heap go through the meter.
const METERED: &str = "-Wl,--wrap=malloc,--wrap=free,--wrap=calloc,--wrap=realloc";
/// Leaves the meter out.
const BARE: &str = "-DPEER_BARE";

/// The libraries, which use each other.
const LINK: [&str; 6] =
    ["-Wl,--gc-sections", "-Wl,--start-group", "-lc_nano", "-lgcc", "-lnosys", "-Wl,--end-group"];

/// The forms in which a peer's program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A client, or nothing of an association.
    Client,
    /// That client without instruments, whose flash is measured.
    Bare,
    /// Client and server.
    Both,
}

/// The folders of crates, as cargo names them.
pub(super) struct Sources(Value);

impl Sources {
    /// Asks cargo, which downloads crates that are not there.
    pub(super) fn find() -> Result<Self, Failure> {
        let text = capture(cargo(&["metadata", "--format-version", "1", "--locked"]))
            .map_err(Failure::NotPossibleHere)?;
        let json = serde_json::from_str(&text)
            .map_err(|error| Failure::Failed(format!("cargo metadata: {error}")))?;
        Ok(Self(json))
    }

    fn folder(&self, source: Source) -> Result<PathBuf, Failure> {
        let packages = self.0["packages"].as_array().map_or(&[][..], Vec::as_slice);
        let package = packages.iter().find(|package| package["name"] == source.package);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let folder = manifest.and_then(|path| Path::new(path).parent());
        folder.map(|folder| folder.join(source.folder)).ok_or_else(|| {
            Failure::NotPossibleHere(format!("the crate {} was not found", source.package))
        })
    }
}

/// Builds a peer's client and returns its path.
pub(super) fn build(
    toolchain: &Toolchain,
    sources: &Sources,
    peer: Peer,
) -> Result<PathBuf, Failure> {
    compile(toolchain, sources, peer, Form::Client)
}

/// Builds a peer's client without instruments and returns its path.
pub(super) fn build_bare(
    toolchain: &Toolchain,
    sources: &Sources,
    peer: Peer,
) -> Result<PathBuf, Failure> {
    compile(toolchain, sources, peer, Form::Bare)
}

/// Runs a peer's client that was built, after a program with both ends.
pub(super) fn measure(
    toolchain: &Toolchain,
    sources: &Sources,
    plugin: &Path,
    peer: Peer,
    client: &Path,
) -> Result<Run, Failure> {
    let place = folder().join("runs").join("peers").join(peer.name);
    let ends = place.join("ends");
    if peer.source.is_some() {
        let both = compile(toolchain, sources, peer, Form::Both)?;
        emulator::measure(plugin, Program { path: &both, folder: &ends, after: &[] })?;
    }
    let after: &[PathBuf] = if peer.source.is_some() { &[ends] } else { &[] };
    emulator::measure(plugin, Program { path: client, folder: &place, after })
}

fn compile(
    toolchain: &Toolchain,
    sources: &Sources,
    peer: Peer,
    form: Form,
) -> Result<PathBuf, Failure> {
    let out = folder().join("peers");
    fs::create_dir_all(&out).map_err(|error| Failure::Failed(error.to_string()))?;
    let out = out.join(match form {
        Form::Client => peer.name.to_owned(),
        Form::Bare => format!("{}-bare", peer.name),
        Form::Both => format!("{}-ends", peer.name),
    });
    let ours = workspace().join("firmware/footprint/peers");
    let mut gcc = toolchain.gnu("gcc", &COMPILE);
    gcc.args(peer.flags);
    match form {
        Form::Client => {}
        Form::Bare => drop(gcc.arg(BARE)),
        Form::Both => drop(gcc.arg("-DPEER_SERVER")),
    }
    for header in [ours.clone(), ours.join("include")] {
        gcc.arg("-I").arg(header);
    }
    if let Some(source) = peer.source {
        let folder = sources.folder(source)?;
        for header in source.headers {
            gcc.arg("-I").arg(folder.join(header));
        }
        let server = if form == Form::Both { source.server_files } else { &[] };
        gcc.args(source.files.iter().chain(server).map(|file| folder.join(file)));
    }
    for headers in toolchain.c_headers() {
        gcc.arg("-idirafter").arg(headers);
    }
    let driver = peer.source.map(|_| if form == Form::Both { "ends.c" } else { "client.c" });
    let meter = (form != Form::Bare).then_some("meter.c");
    let programs = [Some(peer.program), driver, Some("board.c"), meter];
    gcc.args(programs.into_iter().flatten().map(|file| ours.join(file)));
    gcc.args(meter.map(|_| METERED));
    gcc.arg("-T").arg(ours.join("board.ld")).arg("-L").arg(toolchain.c_library());
    gcc.args(LINK).arg("-o").arg(&out);
    run(gcc).map_err(Failure::Failed)?;
    Ok(out)
}
