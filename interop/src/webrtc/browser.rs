//! Browsers without a window.

use rustix::process::{Pid, Signal, kill_process_group};
use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A browser with WebRTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Browser {
    /// Chromium: its DTLS is BoringSSL's.
    Chromium,
    /// Firefox: its DTLS is that of NSS.
    Firefox,
}

impl Browser {
    /// Every browser.
    pub const ALL: [Self; 2] = [Self::Chromium, Self::Firefox];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chromium => "Chromium",
            Self::Firefox => "Firefox",
        }
    }

    /// The program's name in Debian.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Chromium => "chromium",
            Self::Firefox => "firefox-esr",
        }
    }

    /// The version, as the program prints it.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn version(self) -> Result<String, String> {
        let output = Command::new(self.program()).arg("--version").output();
        let output =
            output.map_err(|error| format!("{} cannot be run: {error}", self.program()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        // Chromium names the distribution that it was built for as well.
        let words: Vec<_> = text.split_whitespace().collect();
        let version = words.iter().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        version
            .map(|version| format!("{} {version}", self.name()))
            .ok_or_else(|| format!("{} prints no version", self.program()))
    }

    /// Opens `page` with an empty profile in `folder`.
    pub(super) fn open(self, page: SocketAddr, folder: &Path) -> io::Result<Window> {
        let profile = folder.join(format!("{}-{}", self.program(), std::process::id()));
        fs::create_dir_all(&profile)?;
        let url = format!("http://{page}/");
        let mut command = Command::new(self.program());
        match self {
            Self::Chromium => {
                // Root has no sandbox; the only page is ours.
                command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
                command.args(["--disable-background-networking", "--disable-component-update"]);
                command.args(["--disable-sync", "--allow-loopback-in-peer-connection"]);
                command.arg(format!("--user-data-dir={}", profile.display()));
            }
            Self::Firefox => {
                fs::write(profile.join("user.js"), PREFERENCES)?;
                command.args(["--headless", "--no-remote", "--profile"]).arg(&profile);
            }
        }
        command.arg(url).env("HOME", &profile);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Its own processes end with it.
        command.process_group(0);
        command.spawn().map(|child| Window { child, profile })
    }
}

/// Firefox asks nobody else than the page's server.
const PREFERENCES: &str = r#"
user_pref("media.peerconnection.ice.obfuscate_host_addresses", false);
user_pref("app.normandy.enabled", false);
user_pref("app.update.enabled", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.safebrowsing.downloads.enabled", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("media.gmp-manager.updateEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "http://127.0.0.1:9/");
user_pref("toolkit.telemetry.enabled", false);
"#;

impl fmt::Display for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A running browser. It is killed when this value is dropped, and its profile is removed.
pub(super) struct Window {
    child: Child,
    profile: PathBuf,
}

impl Drop for Window {
    fn drop(&mut self) {
        // Errors mean that it has ended by itself, or that its other processes still write.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}
