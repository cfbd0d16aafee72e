//! Programs for macOS, linked here: `cargo xtask targets --link`.
//!
//! AWS-LC is compiled and the command linked by `ziglang`, without a Mac and without Apple's files. Whether
//! the program runs is not tested.

use crate::Failure;
use crate::cross;
use crate::process::{run, target_dir};
use crate::zig::cargo_zigbuild;
use std::path::{Path, PathBuf};

/// The processors of Macs: the target, and the number of the processor in `<mach/machine.h>`.
pub(crate) const PROCESSORS: [(&str, u32); 2] =
    [("aarch64-apple-darwin", 0x0100_000c), ("x86_64-apple-darwin", 0x0100_0007)];
/// The oldest macOS that the programs are for: the first on ARM.
const OLDEST: &str = "11.0";
/// Frameworks that a crate asks to be linked with (`whoami`, for the name of the computer) and from
/// which the command takes nothing. The linker gets them without any symbol, so it fails if the command
/// does.
const UNUSED: [&str; 2] = ["CoreFoundation", "SystemConfiguration"];

/// Builds the command with all that it has on macOS, for one of [`PROCESSORS`], and reads what the
/// linker has written.
///
/// # Errors
/// If the linker cannot be had, the build fails, or the file is no program for macOS on `processor`.
pub(crate) fn linked((target, processor): (&str, u32)) -> Result<Program, Failure> {
    let path = build(target)?;
    let failed = |why: String| Failure::Failed(format!("{}: {why}", path.display()));
    let bytes = std::fs::read(&path).map_err(|error| failed(error.to_string()))?;
    let (oldest, libraries) = read(&bytes, processor).map_err(|why| failed(why.into()))?;
    Ok(Program { target: target.into(), bytes: bytes.len(), oldest, libraries })
}

fn build(target: &str) -> Result<PathBuf, Failure> {
    cross::install(target).map_err(Failure::NotPossibleHere)?;
    let folder = target_dir().join("linked");
    let frameworks = folder.join("frameworks");
    let broken = |error| Failure::Failed(format!("{}: {error}", frameworks.display()));
    write_frameworks(&frameworks).map_err(broken)?;
    let mut link = cargo_zigbuild("rustc", target)?;
    link.env("MACOSX_DEPLOYMENT_TARGET", OLDEST);
    link.args(["--package", "lightseal", "--bin", "lightseal"]);
    link.arg("--target-dir").arg(&folder);
    link.arg("--").arg("-L").arg(format!("framework={}", frameworks.display()));
    // There is no SDK. The compiler warns that it may be needed.
    link.args(["--cap-lints", "allow"]);
    run(link).map_err(Failure::Failed)?;
    Ok(folder.join(target).join("debug/lightseal"))
}

/// Writes [`UNUSED`] in the form in which Apple's SDK has them.
fn write_frameworks(folder: &Path) -> std::io::Result<()> {
    for name in UNUSED {
        let framework = folder.join(format!("{name}.framework"));
        std::fs::create_dir_all(&framework)?;
        let text = format!(
            "--- !tapi-tbd\ntbd-version: 4\ntargets: [ x86_64-macos, arm64-macos ]\n\
             install-name: '/System/Library/Frameworks/{name}.framework/Versions/A/{name}'\n...\n"
        );
        std::fs::write(framework.join(format!("{name}.tbd")), text)?;
    }
    Ok(())
}

/// A program for macOS.
#[derive(Debug)]
pub(crate) struct Program {
    target: String,
    bytes: usize,
    /// The oldest version of macOS that it says to run on, major and minor.
    oldest: (u32, u32),
    /// The files of the libraries and frameworks that it loads.
    libraries: Vec<String>,
}

impl Program {
    pub(crate) fn text(&self) -> String {
        let Self { target, bytes, oldest: (major, minor), libraries } = self;
        let mb = *bytes as f64 / 1e6;
        let names = libraries.iter().map(|path| path.rsplit('/').next().unwrap_or(path));
        let names = names.collect::<Vec<_>>().join(", ");
        format!(
            "{target}: a Mach-O executable of {mb:.1} MB, not optimised, for macOS {major}.{minor} and newer; \
             loads {names}"
        )
    }
}

/// The first word of `mach_header_64` in `<mach-o/loader.h>`.
const MAGIC: u32 = 0xfeed_facf;
/// The kind of file that is a program, `MH_EXECUTE`.
const EXECUTABLE: u32 = 2;
/// Load commands: a library that is loaded (`LC_LOAD_DYLIB`), the entry point (`LC_MAIN`), and the
/// systems that the program is for (`LC_BUILD_VERSION`).
const LIBRARY: u32 = 0xc;
const ENTRY_POINT: u32 = 0x8000_0028;
const SYSTEM: u32 = 0x32;
/// macOS among these systems.
const MACOS: u32 = 1;

/// Reads the header of a program for macOS and `processor`: the oldest version of macOS that it says to
/// run on, and the libraries that it loads.
///
/// # Errors
/// What the file is not.
fn read(bytes: &[u8], processor: u32) -> Result<((u32, u32), Vec<String>), &'static str> {
    let word = |at: usize| {
        let four = bytes.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*four))
    };
    if word(0) != Some(MAGIC) || word(4) != Some(processor) || word(12) != Some(EXECUTABLE) {
        return Err("no Mach-O executable for this processor");
    }
    let commands = word(16).unwrap_or_default();
    let (mut begins, mut oldest, mut libraries) = (false, None, Vec::new());
    // The header has 32 bytes; each command begins with its kind and its length.
    let mut at = 32;
    for _ in 0..commands {
        let Some((kind, length)) = word(at).zip(word(at + 4)) else { break };
        let length = length.max(8) as usize;
        let command = bytes.get(at..at + length).ok_or("a load command goes beyond the end")?;
        match kind {
            ENTRY_POINT => begins = true,
            SYSTEM if word(at + 8) == Some(MACOS) => {
                // The version's number has 16 bits for the major part, and 8 for each other.
                oldest = word(at + 12).map(|version| (version >> 16, version >> 8 & 0xff));
            }
            LIBRARY => {
                let name = word(at + 8).and_then(|offset| command.get(offset as usize..));
                let name = name.unwrap_or_default().split(|byte| *byte == 0).next();
                libraries.push(String::from_utf8_lossy(name.unwrap_or_default()).into_owned());
            }
            _ => {}
        }
        at += length;
    }
    match oldest {
        Some(oldest) if begins => Ok((oldest, libraries)),
        Some(_) => Err("a Mach-O executable without an entry point"),
        None => Err("a Mach-O executable that does not say that it is for macOS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARM: u32 = PROCESSORS[0].1;

    fn file(kind: u32, commands: &[&[u32]]) -> Vec<u8> {
        let head = [MAGIC, ARM, 0, kind, commands.len() as u32, 0, 0, 0];
        let words = head.into_iter().chain(commands.iter().copied().flatten().copied());
        words.flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn a_program_has_its_processor_its_system_and_an_entry_point() {
        let (entry, system) = ([ENTRY_POINT, 8], [SYSTEM, 16, MACOS, 11 << 16 | 3 << 8]);
        let library = [LIBRARY, 16, 12, u32::from_le_bytes(*b"/a/b")];
        let good = file(EXECUTABLE, &[&system, &library, &entry]);
        assert_eq!(read(&good, ARM), Ok(((11, 3), vec!["/a/b".into()])));
        for cut in 0..good.len() {
            assert!(read(&good[..cut], ARM).is_err(), "cut at {cut}");
        }
        assert!(read(&good, PROCESSORS[1].1).is_err(), "another processor");
        assert!(read(&file(EXECUTABLE, &[&system]), ARM).is_err(), "no entry point");
        let other = [SYSTEM, 16, MACOS + 1, 11 << 16];
        assert!(read(&file(EXECUTABLE, &[&other, &entry]), ARM).is_err(), "another system");
        assert!(read(&file(6, &[&system, &entry]), ARM).is_err(), "a library");
        let endless = [LIBRARY, u32::MAX, 12, 0];
        assert!(read(&file(EXECUTABLE, &[&system, &endless, &entry]), ARM).is_err());
        let outside = [LIBRARY, 16, 99, 0];
        let nameless = read(&file(EXECUTABLE, &[&system, &outside, &entry]), ARM);
        assert_eq!(nameless, Ok(((11, 3), vec![String::new()])));
    }
}
