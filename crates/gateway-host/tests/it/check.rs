//! `check` reports what is wrong with a configuration, and `run` reports the same.
#![cfg(target_os = "linux")]

use lightseal_gateway_host::check::{Severity, check};
use lightseal_gateway_host::config::Config;
use lightseal_gateway_host::identity::Identity;
use lightseal_gateway_host::privileges;
use lightseal_gateway_host::run::GatewayHost;
use lightseal_gateway_host::status::{self, GatewayStatus};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use testkit::namespace::{alone_with_xdp, ip, no_children};
use zeroize::Zeroizing;

/// The files of a gateway, in a directory that is removed on drop.
struct Files {
    directory: PathBuf,
    identity: Identity,
}

impl Files {
    fn new(name: &str) -> Self {
        let name = format!("lightseal-check-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let identity = identity(1);
        identity.store(&directory.join("a.key")).unwrap();
        Self { directory, identity }
    }

    /// A valid configuration, changed by `more`: each line is the name of a section, such as
    /// `[lan]`, or a setting of the section named before.
    fn configuration(&self, more: &str) -> Config {
        let (key, state) = (self.directory.join("a.key"), self.directory.join("state"));
        let peer = identity(2).public_key();
        let mut sections = [
            ("[gateway]", format!("name = \"a\"\nidentity = {key:?}\nstate = {state:?}\n")),
            ("[lan]", "interface = \"lan\"\nio = \"packet\"\n".to_owned()),
            ("[underlay]", "listen = \"127.0.0.1:8885\"\n".to_owned()),
            ("[metrics]", "listen = \"127.0.0.1:9431\"\n".to_owned()),
            ("[[peer]]", format!("name = \"b\"\npublic_key = \"{peer}\"\n")),
        ];
        let mut at = 0;
        for line in more.lines() {
            if let Some(section) = sections.iter().position(|(name, _)| *name == line) {
                at = section;
                continue;
            }
            let (setting, _) = line.split_once('=').unwrap();
            let (_, text) = &mut sections[at];
            let others = text.lines().filter(|line| !line.starts_with(setting));
            *text = others.fold(String::new(), |text, line| text + line + "\n");
            let _ = writeln!(text, "{line}");
        }
        let text = sections.map(|(name, text)| format!("{name}\n{text}")).concat();
        Config::parse("a.toml", &text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
    }

    /// The errors and warnings of `check`, and the reason why `run` does not start.
    async fn tried(&self, more: &str) -> (Vec<String>, Vec<String>, Option<String>) {
        let config = self.configuration(more);
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        for finding in check(&config).await {
            match finding.severity {
                Severity::Error => errors.push(finding.what),
                // Whether this warning appears depends on the user who runs the tests.
                Severity::Warning if finding.what == privileges::STAYS_ROOT => {}
                Severity::Warning => warnings.push(finding.what),
            }
        }
        let opened = GatewayHost::open(config, self.identity.clone()).await;
        (errors, warnings, opened.err().map(|error| error.to_string()))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn identity(seed: u8) -> Identity {
    Identity::from_seed(Zeroizing::new([seed; 32]))
}

/// Runs `test` in a namespace with these interfaces: a LAN with two queues, a LAN with jumbo
/// frames, an interface that is down, one whose other end is down, and an underlay.
fn beside_interfaces(test: impl AsyncFnOnce() + Send + 'static) {
    alone_with_xdp(|| {
        for (name, more) in
            [("lan", "numrxqueues 2 numtxqueues 2"), ("big", "mtu 9000"), ("wan", "")]
        {
            let words = format!("link add {name} {more} type veth peer name {name}-far {more}");
            ip(&words.split_whitespace().collect::<Vec<_>>().join(" "));
            ip(&format!("link set {name} up"));
            ip(&format!("link set {name}-far up"));
        }
        ip("link add off type veth peer name off-far");
        ip("link add cut type veth peer name cut-far");
        ip("link set cut up");
        ip("address add 10.77.0.1/24 dev wan");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _opened_again = no_children();
        runtime.block_on(test());
    });
}

#[test]
fn check_refuses_what_run_refuses_in_the_same_words() {
    beside_interfaces(async || {
        let files = Files::new("refuses");
        let (errors, _, run) = files.tried("").await;
        assert_eq!((errors, run), (vec![], None));
        let _tcp = std::net::TcpListener::bind("127.0.0.1:7001").unwrap();
        let _udp = std::net::UdpSocket::bind("127.0.0.1:7002").unwrap();
        let long = files.directory.join("long/".repeat(20));
        let long = format!("[gateway]\nstate = {long:?}");
        let own = format!("[[peer]]\npublic_key = \"{}\"", files.identity.public_key());
        let xdp = "[underlay]\nio = \"xdp\"\ninterface = \"wan\"";
        for (more, expected) in [
            ("[lan]\ninterface = \"lo\"", "[lan] interface: interface lo does not carry Ethernet"),
            ("[lan]\ninterface = \"eth77\"", "[lan] interface: there is no interface \"eth77\""),
            ("[lan]\ninterface = \"off\"", "[lan] interface: interface off is down (ip link set"),
            ("[lan]\ninterface = \"big\"\nio = \"xdp\"", "[lan] io: AF_XDP needs an MTU of"),
            ("[gateway]\nallow = [\"bpdu\"]\n[lan]\nio = \"xdp\"", "[lan] io: AF_XDP does not"),
            ("[lan]\nio = \"xdp\"\nqueues = 3", "[lan] io: interface lan receives on 2 queues"),
            (
                &format!("{xdp}\nlisten = \"[::]:8885\""),
                "[underlay] io: AF_XDP needs an address of wan in [underlay] listen",
            ),
            (
                &format!("{xdp}\nlisten = \"10.77.0.1:8885\"\n[lan]\ninterface = \"big\""),
                "[underlay] io: AF_XDP needs an MTU of the LAN of at most",
            ),
            (
                &format!("{xdp}\nlisten = \"10.77.0.1:8885\"\n[lan]\nqueues = 2"),
                "[underlay] io: interface wan receives on 1 queue and [lan] queues = 2",
            ),
            ("[underlay]\ninterface = \"eth8\"", "[underlay] interface: there is no interface"),
            (
                "[underlay]\ninterface = \"eth8\"\nio = \"udp\"",
                "[underlay] interface: there is no interface \"eth8\"",
            ),
            (
                "[underlay]\nlisten = \"192.0.2.1:8885\"",
                "[underlay] listen 192.0.2.1:8885: a UDP socket at",
            ),
            ("[underlay]\nlisten = \"127.0.0.1:7001\"", "[underlay] listen 127.0.0.1:7001 (TCP): "),
            (
                "[underlay]\nlisten = \"[::]:7002\"",
                "[underlay] listen [::]:7002: a UDP socket at 0.0.0.0:7002: ",
            ),
            ("[metrics]\nlisten = \"127.0.0.1:8885\"", "[metrics] listen 127.0.0.1:8885 (TCP): "),
            (&long, "[gateway] state /"),
            ("[gateway]\nuser = \"nosuch\"", "[gateway] user \"nosuch\": no such user"),
            (
                "[gateway]\nuser = 0",
                "[gateway] user \"0\": its rights would still be those of root",
            ),
            (&own, "peer b: its key is our own"),
        ] {
            let (errors, _, run) = files.tried(more).await;
            let run = run.unwrap_or_else(|| panic!("it runs with {more}"));
            assert!(run.starts_with(expected), "{expected:?} does not begin {run}");
            assert!(errors.contains(&run), "{run:?} is not in {errors:?}");
        }
    });
}

#[test]
fn check_warns_of_what_run_carries_badly() {
    beside_interfaces(async || {
        let files = Files::new("warns");
        let wan = "[underlay]\ninterface = \"wan\"";
        for (more, expected) in [
            ("", None),
            (
                "[underlay]\nmtu = 1501\nlisten = \"10.77.0.1:8885\"",
                Some("[underlay] mtu: 1501 is more"),
            ),
            ("[underlay]\nmtu = 1500\nlisten = \"10.77.0.1:8885\"", None),
            (
                "[underlay]\nmtu = 9000\ninterface = \"wan\"\nlisten = \"[::]:8885\"",
                Some("[underlay] mtu: 9000 is more than the 1500 of wan: longer packets are lost"),
            ),
            (
                &format!("{wan}\nio = \"xdp\""),
                Some("[underlay] listen: 127.0.0.1 is an address of lo, not of wan"),
            ),
            (&format!("{wan}\nio = \"xdp\"\nlisten = \"10.77.0.1:8885\""), None),
            ("[lan]\nio = \"xdp\"", Some("[lan] interface lan receives on 2 queues")),
            ("[underlay]\ninterface = \"off\"", Some("[underlay] interface: off has no link")),
            ("[lan]\ninterface = \"cut\"", Some("[lan] interface: cut has no link")),
            ("[[peer]]\nendpoint = \"192.0.2.1:8885\"", None),
            ("[[peer]]\nendpoint = \"localhost:8885\"", None),
            (
                "[[peer]]\nendpoint = \"[2001:db8::1]:8885\"",
                Some(
                    "peer b: [2001:db8::1]:8885: nothing can be sent to IPv6 from [underlay] listen",
                ),
            ),
            (
                "[[peer]]\nendpoint = \"192.0.2.1:8885\"\n[underlay]\nlisten = \"[::1]:8885\"",
                Some(
                    "peer b: 192.0.2.1:8885: nothing can be sent to IPv4 from [underlay] listen [::1]",
                ),
            ),
            (
                "[[peer]]\nendpoint = \"[2001:db8::1]:8885\"\n[underlay]\nlisten = \"[::]:8885\"",
                None,
            ),
            ("[[peer]]\nendpoint = \"192.0.2.1:8885\"\n[underlay]\nlisten = \"[::]:8885\"", None),
        ] {
            let (errors, warnings, run) = files.tried(more).await;
            assert_eq!((errors, run), (vec![], None), "{more}");
            let said =
                warnings.iter().any(|warning| expected.is_some_and(|e| warning.starts_with(e)));
            assert_eq!(
                (said, warnings.len()),
                (expected.is_some(), expected.iter().count()),
                "{more}: {warnings:?}"
            );
        }
    });
}

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn run_says_why_auto_is_not_af_xdp() {
    beside_interfaces(async || {
        let files = Files::new("auto");
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
        let _until_the_end = tracing::subscriber::set_default(subscriber.finish());
        for (more, why) in [
            ("[lan]\nio = \"auto\"", "interface lan receives on 2 queues"),
            ("[lan]\nio = \"auto\"\ninterface = \"big\"", "AF_XDP needs an MTU of"),
            ("[lan]\nio = \"auto\"\n[gateway]\nallow = [\"bpdu\"]", "AF_XDP does not hear"),
            (
                "[underlay]\ninterface = \"wan\"\nlisten = \"[::]:8885\"",
                "AF_XDP needs an address of wan",
            ),
        ] {
            let (errors, _, run) = files.tried(more).await;
            assert_eq!((errors, run), (vec![], None), "{more}");
            let said = String::from_utf8(std::mem::take(&mut *log.0.lock().unwrap())).unwrap();
            let one = said.lines().filter(|line| line.contains("no AF_XDP") && line.contains(why));
            assert_eq!((one.count(), said.lines().count()), (1, 1), "{more}: {said}");
        }
    });
}

#[test]
fn a_state_directory_is_one_gateway_s() {
    beside_interfaces(async || {
        let files = Files::new("state");
        let state = files.directory.join("state");
        let run_by = |key| {
            let status = GatewayStatus {
                gateway: "c".into(),
                public_key: Some(key),
                ..GatewayStatus::default()
            };
            let status = serde_json::to_value(status).unwrap();
            let answer = move |_| std::future::ready(Ok(status.clone()));
            tokio::spawn(status::serve(status::listen(&state).unwrap(), answer))
        };
        let other = run_by(identity(3).public_key());
        let (errors, warnings, run) = files.tried("").await;
        let run = run.unwrap();
        assert!(run.ends_with(": another gateway runs there"), "{run}");
        assert_eq!((errors, warnings), (vec![format!("{run} (c)")], vec![]));
        other.abort();
        let _ = other.await;
        let silent = status::listen(&state).unwrap();
        let (errors, _, run) = files.tried("").await;
        assert_eq!(errors, [format!("{} (the gateway does not answer)", run.unwrap())]);
        drop(silent);
        let junk = {
            let answer = |_| std::future::ready(Ok("gone fishing".into()));
            tokio::spawn(status::serve(status::listen(&state).unwrap(), answer))
        };
        let (errors, _, run) = files.tried("").await;
        let run = run.unwrap();
        assert!(errors.len() == 1 && errors[0].starts_with(&format!("{run} (")), "{errors:?}");
        junk.abort();
        let _ = junk.await;
        let _ourselves = run_by(files.identity.public_key());
        let _tcp = std::net::TcpListener::bind("127.0.0.1:8885").unwrap();
        let (errors, warnings, _) = files.tried("").await;
        assert_eq!((errors.len(), warnings.len()), (0, 1), "{errors:?}, {warnings:?}");
        assert!(warnings[0].starts_with("a gateway runs on "), "{warnings:?}");
    });
}
