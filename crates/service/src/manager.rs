//! Notifications to the service manager: the protocol of `sd_notify(3)`.

use crate::system;
use std::ffi::OsStr;
use std::io;
use std::time::Duration;

/// A change of this process's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The process is ready: it does its work now.
    Ready,
    /// The process reads its configuration again; `Ready` marks the end of this.
    Reloading,
    /// The process ends.
    Stopping,
    /// The process is alive. A service manager that was asked to watch it
    /// ([`watchdog_interval`]) restarts it when this notification does not come.
    Alive,
    /// What the process does, in one line for people.
    Status(String),
}

/// How long a notification waits for a service manager that has not read those before it. The caller
/// does its work in the same thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// Notifies the service manager that started this process, if there is one.
///
/// # Errors
/// Errors of the operating system. They may be ignored: a service manager that misses a
/// notification only runs into its timeout.
pub fn notify(notice: &Notice) -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(socket) => send(&socket, notice),
        None => Ok(()),
    }
}

fn text(notice: &Notice) -> String {
    match notice {
        Notice::Ready => "READY=1".into(),
        // The clock tells the service manager (`Type=notify-reload`) which reload this is about.
        Notice::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}", system::monotonic_us()),
        Notice::Stopping => "STOPPING=1".into(),
        Notice::Alive => "WATCHDOG=1".into(),
        // A second line would be read as another variable.
        Notice::Status(line) => format!("STATUS={}", line.replace(['\n', '\r'], " ")),
    }
}

/// How often the service manager expects [`Notice::Alive`] at least; `None` if it does not watch this
/// process. See `sd_watchdog_enabled(3)`.
pub fn watchdog_interval() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    // The variables of a watched process may reach its children, which are not watched.
    let watched = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|usec| watched && *usec > 0).map(Duration::from_micros)
}

fn send(socket: &OsStr, notice: &Notice) -> io::Result<()> {
    // Another `Alive` follows soon.
    let patience = (*notice != Notice::Alive).then_some(PATIENCE);
    system::send(socket, text(notice).as_bytes(), patience)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn notices_arrive_as_systemd_reads_them() {
        let path = std::env::temp_dir().join(format!("lightseal-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let manager = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), &Notice::Ready).unwrap();
        send(path.as_os_str(), &Notice::Stopping).unwrap();
        let two_lines = Notice::Status("draining\nREADY=1".into());
        send(path.as_os_str(), &two_lines).unwrap();
        let mut buf = [0; 100];
        let mut read = || {
            let len = manager.recv(&mut buf).unwrap();
            String::from_utf8(buf[..len].to_vec()).unwrap()
        };
        assert_eq!((read(), read()), ("READY=1".into(), "STOPPING=1".into()));
        assert_eq!(read(), "STATUS=draining READY=1");
        // A manager that reads nothing does not hold up the work of the service.
        let full = |result: io::Result<()>| {
            result.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        assert!((0..10_000).any(|_| full(send(path.as_os_str(), &Notice::Alive))));
        assert!(full(send(path.as_os_str(), &Notice::Ready)));
        std::fs::remove_file(&path).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn abstract_sockets_do_too() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("lightseal-notify-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), &Notice::Ready).unwrap();
        assert_eq!(manager.recv(&mut [0; 100]).unwrap(), 7);
        assert!(text(&Notice::Reloading).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    }
}
