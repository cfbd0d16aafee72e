//! The image that the guest boots: Debian's kernel, and a root file system in memory made of
//! Debian's packages.

use crate::Failure;
use crate::daemon::{on_path, output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on Debian's newest kernel for virtual machines.
const KERNEL: &str = "linux-image-cloud-amd64";
/// Packages with programs. The libraries that they depend on come in addition.
const PACKAGES: [&str; 4] = ["busybox-static", "iproute2", "iperf3", "wpasupplicant"];
/// The programs except busybox, by their paths in the packages.
const PROGRAMS: [&str; 4] = ["bin/ip", "usr/bin/iperf3", "sbin/wpa_supplicant", "sbin/wpa_cli"];
/// Kernel modules that are loaded at boot. Modules that they depend on come in addition.
const MODULES: [&str; 14] = [
    "virtio_pci",
    "virtio_net",
    "virtio_console",
    "aesni_intel",
    "ghash_clmulni_intel",
    "ghash_generic",
    "gcm",
    "ctr",
    "ccm",
    "cmac",
    "macsec",
    "8021q",
    "veth",
    "bridge",
];
/// The folder where the loader looks for libraries.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";
const LOADER: &str = "ld-linux-x86-64.so.2";
const INIT: &str = include_str!("init.sh");

/// A kernel and its root file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The kernel's file.
    pub kernel: PathBuf,
    /// The root file system, a `cpio` archive that the kernel unpacks.
    pub initrd: PathBuf,
    /// The name of the kernel's package, which contains its version.
    pub package: String,
}

impl Image {
    /// The image in the directory `cache`. It is made there from Debian's packages if there is
    /// none, or if that one has another kernel or other contents.
    ///
    /// # Errors
    /// [`Failure::NotHere`] if the packages cannot be fetched, as on a system other than Debian.
    pub fn prepare(cache: &Path) -> Result<Self, Failure> {
        let package = newest_kernel()?;
        let image = Self { kernel: cache.join("vmlinuz"), initrd: cache.join("initrd"), package };
        // The recipe names everything that the image is made of: another recipe needs another
        // image.
        let recipe = format!("{} {PACKAGES:?} {PROGRAMS:?} {MODULES:?}\n{INIT}", image.package);
        let stamp = cache.join("recipe");
        if fs::read_to_string(&stamp).is_ok_and(|made| made == recipe) {
            return Ok(image);
        }
        let failed = |error: std::io::Error| Failure::broken("the guest's image", error);
        // This removes an earlier image, if there is one.
        let _ = fs::remove_dir_all(cache);
        fs::create_dir_all(cache).map_err(failed)?;
        let parts = cache.join("parts");
        unpack(&image.package, &cache.join("packages"), &parts)?;
        let root = cache.join("root");
        fill(&parts, &root).map_err(failed)?;
        libraries(&parts, &root)?;
        let version = image.package.trim_start_matches("linux-image-");
        modules(&parts, &root, version)?;
        fs::rename(parts.join(format!("boot/vmlinuz-{version}")), &image.kernel).map_err(failed)?;
        archive(&root, &image.initrd)?;
        for scaffold in ["packages", "parts", "root"] {
            fs::remove_dir_all(cache.join(scaffold)).map_err(failed)?;
        }
        fs::write(stamp, recipe).map_err(failed)?;
        Ok(image)
    }
}

/// The package of the newest kernel for virtual machines in this machine's package lists.
fn newest_kernel() -> Result<String, Failure> {
    for program in ["apt-get", "apt-cache", "dpkg-deb"] {
        if !on_path(program) {
            return Err(Failure::NotHere(format!("{program} is missing: no Debian packages")));
        }
    }
    let text = output(Command::new("apt-cache").args(["depends", KERNEL]))
        .map_err(|why| Failure::not_here("no kernel for the guest", why))?;
    depended_on(&text).ok_or_else(|| {
        Failure::NotHere(format!("no package {KERNEL} is known here: apt-get update"))
    })
}

/// The first package that `apt-cache depends` names.
fn depended_on(text: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    lines.next().map(str::to_owned)
}

/// Downloads the kernel, the programs and all libraries that they depend on into `packages`, and
/// unpacks them into `parts`.
fn unpack(kernel: &str, packages: &Path, parts: &Path) -> Result<(), Failure> {
    let mut depends = Command::new("apt-cache");
    depends.args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts"]);
    depends.args(["--no-breaks", "--no-replaces", "--no-enhances"]).args(PACKAGES);
    let needed = output(&mut depends)?;
    for folder in [packages, parts] {
        fs::create_dir_all(folder).map_err(|error| Failure::broken(folder.display(), error))?;
    }
    let mut download = Command::new("apt-get");
    download.args(["download", "--quiet", kernel]).args(PACKAGES).args(libraries_in(&needed));
    output(download.current_dir(packages))
        .map_err(|why| Failure::not_here("the guest's packages", why))?;
    let listed = fs::read_dir(packages).map_err(|error| Failure::broken("packages", error))?;
    for package in listed.flatten() {
        output(Command::new("dpkg-deb").arg("-x").arg(package.path()).arg(parts))?;
    }
    Ok(())
}

/// The library packages in the output of `apt-cache depends --recurse`, where the name of each
/// package is at the start of a line. Perl's libraries are left out: only package configuration
/// scripts need them.
fn libraries_in(depends: &str) -> Vec<&str> {
    let mut names: Vec<_> = depends
        .lines()
        .filter(|line| ["lib", "zlib"].iter().any(|start| line.starts_with(start)))
        .filter(|line| !line.contains("perl"))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Writes the programs, the first process and the list of modules below `root`.
fn fill(parts: &Path, root: &Path) -> std::io::Result<()> {
    for program in PROGRAMS.into_iter().chain(["bin/busybox"]) {
        let to = root.join(program);
        fs::create_dir_all(to.parent().unwrap_or(root))?;
        fs::copy(parts.join(program), to)?;
    }
    fs::write(root.join("modules"), MODULES.map(|module| format!("{module}\n")).concat())?;
    let init = root.join("init");
    fs::write(&init, INIT)?;
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(init, fs::Permissions::from_mode(0o755))
}

/// Copies the loader and the libraries of each program from the packages, none from this machine.
fn libraries(parts: &Path, root: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::broken("the guest's libraries", error);
    let folder = root.join(LIBRARIES);
    fs::create_dir_all(&folder).map_err(failed)?;
    fs::create_dir_all(root.join("lib64")).map_err(failed)?;
    let loader = parts.join(LIBRARIES).join(LOADER);
    fs::copy(&loader, root.join("lib64").join(LOADER)).map_err(failed)?;
    let path = [LIBRARIES, "usr/lib/x86_64-linux-gnu"].map(|folder| parts.join(folder));
    let path = path.map(|folder| folder.display().to_string()).join(":");
    for program in PROGRAMS {
        let mut list = Command::new(&loader);
        list.args(["--library-path", &path, "--list"]).arg(parts.join(program));
        let listed = output(&mut list)?;
        for (name, found) in found_libraries(&listed) {
            if !Path::new(found).starts_with(parts) {
                return Err(Failure::Broken(format!("{program}: {name} is in no package")));
            }
            fs::copy(found, folder.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}

/// The name and the file in lines like `libnl-3.so.200 => /lib/libnl-3.so.200 (0x7f00)`.
fn found_libraries(listed: &str) -> impl Iterator<Item = (&str, &str)> {
    let arrows = listed.lines().filter_map(|line| line.split_once(" => "));
    arrows.filter_map(|(name, rest)| {
        let name = name.trim();
        // The loader's own line begins with a path.
        (!name.starts_with('/')).then_some((name, rest.split_whitespace().next()?))
    })
}

/// Copies the kernel modules that are loaded and those that they depend on, and makes their index.
fn modules(parts: &Path, root: &Path, version: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::broken("the guest's modules", error);
    let busybox = parts.join("bin/busybox");
    output(Command::new(&busybox).args(["depmod", "-b"]).arg(parts).arg(version))?;
    let folder = Path::new("lib/modules").join(version);
    let index = fs::read_to_string(parts.join(&folder).join("modules.dep")).map_err(failed)?;
    for file in needed_modules(&index)? {
        let to = root.join(&folder).join(file);
        fs::create_dir_all(to.parent().unwrap_or(root)).map_err(failed)?;
        fs::copy(parts.join(&folder).join(file), to).map_err(failed)?;
    }
    for name in ["modules.builtin", "modules.order"] {
        fs::copy(parts.join(&folder).join(name), root.join(&folder).join(name)).map_err(failed)?;
    }
    output(Command::new(&busybox).args(["depmod", "-b"]).arg(root).arg(version)).map(drop)
}

/// The files of [`MODULES`] and of the modules that they depend on. A line of `modules.dep` has the
/// form `FILE: FILE...`, with all direct and indirect dependencies.
fn needed_modules(index: &str) -> Result<Vec<&str>, Failure> {
    let mut files = Vec::new();
    for module in MODULES {
        let is = |file: &str| {
            let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
            name.replace('-', "_") == module
        };
        let lines = index.lines().filter_map(|line| line.split_once(':'));
        let found = lines.into_iter().find(|(file, _)| is(file));
        // Other kernels may have the module built in.
        let Some((file, needed)) = found else { continue };
        files.push(file);
        files.extend(needed.split_whitespace());
    }
    if !files.iter().any(|file| file.ends_with("/macsec.ko")) {
        return Err(Failure::NotHere("the guest's kernel has no module macsec".into()));
    }
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// Packs `root` as the archive that the kernel unpacks. It is not compressed, because an emulated
/// processor takes longer to decompress it than to read more bytes.
fn archive(root: &Path, to: &Path) -> Result<(), Failure> {
    let mut pack = Command::new("sh");
    pack.args(["-c", "find . | ./bin/busybox cpio -o -H newc > \"$1\"", "sh"]);
    output(pack.arg(to).current_dir(root)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_what_apt_says() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n    x\n";
        assert_eq!(depended_on(text).as_deref(), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(depended_on("linux-image-cloud-amd64\n"), None);
        let text = "iproute2\n  Depends: libc6\nlibc6\nlibperl5.36\n <x>\nzlib1g\nlibc6\n";
        assert_eq!(libraries_in(text), ["libc6", "zlib1g"]);
    }

    #[test]
    fn libraries_are_read_from_what_the_loader_says() {
        let text = "\tlinux-vdso.so.1 (0x7f)\n\tliba.so.1 => /p/lib/liba.so.1 (0x7f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 => /p/ld (0x7f)\n";
        let found: Vec<_> = found_libraries(text).collect();
        assert_eq!(found, [("liba.so.1", "/p/lib/liba.so.1")]);
    }

    #[test]
    fn modules_come_with_what_they_need_and_macsec_must_be_there() {
        let index = "kernel/net/macsec.ko: kernel/crypto/gcm.ko kernel/x.ko\n\
                     kernel/crypto/gcm.ko: kernel/x.ko\nkernel/other.ko:\nkernel/x.ko:\n";
        let expected = ["kernel/crypto/gcm.ko", "kernel/net/macsec.ko", "kernel/x.ko"];
        assert_eq!(needed_modules(index).unwrap(), expected);
        assert!(matches!(needed_modules("kernel/x.ko:\n"), Err(Failure::NotHere(_))));
    }
}
