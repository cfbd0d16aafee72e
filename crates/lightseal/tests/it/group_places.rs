//! Groups whose members are on machines of their own. Multicast leaves by the named interface
//! whatever the routes say, announcements that cannot be sent are reported, and members and
//! controller follow an interface that is created again and an address that is replaced.
//! Applications behind an interface speak to the group and to single members, and continue when
//! their member is killed.
#![cfg(target_os = "linux")]

use crate::program;

use program::{Running, TempDir, eventually, lightseal};
use serde_json::Value;
use std::io::ErrorKind;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::namespace::{Host, alone, ip};

/// The addresses of one family.
#[derive(Clone, Copy)]
struct Family {
    group: &'static str,
    listen: &'static str,
    /// What comes before a host's number, and behind it.
    host: (&'static str, &'static str),
    default: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family {
        group: "239.1.2.3:5684",
        listen: "0.0.0.0:5780",
        host: ("10.9.0.", "/24"),
        default: "route add default via 10.10.0.254",
    },
    Family {
        group: "[ff15::abcd]:5684",
        listen: "[::]:5780",
        host: ("fd09::", "/64"),
        default: "-6 route add default via fd10::254",
    },
];

/// A controller, a switch that sends and a lamp that listens, each on a machine of its own, on one
/// bridge.
struct Site {
    dir: Arc<TempDir>,
    family: Family,
    controller: Host,
    switch: Host,
    lamp: Host,
}

impl Site {
    fn new(family: Family) -> Self {
        ip("link add br0 type bridge mcast_snooping 0");
        ip("link set br0 up");
        let new = Host::new;
        let dir = Arc::new(TempDir::new());
        Self { dir, family, controller: new(), switch: new(), lamp: new() }
    }

    fn address(&self, host: u8) -> String {
        format!("{}{host}", self.family.host.0)
    }

    /// Connects a machine to the bridge, as the host with this number.
    fn plug(&self, machine: &Host, port: &str, host: u8) {
        let address = format!("{}{}", self.address(host), self.family.host.1);
        machine.wire(port, "eth0");
        machine.address("eth0", &address);
        // The address is the old one, as for a radio that is plugged in again: other hosts have it
        // in their tables.
        machine.ip(&format!("link set eth0 address 02:00:00:00:00:{host:02x}"));
        ip(&format!("link set {port} master br0"));
    }

    /// Removes the machine's interface and creates it again with another number.
    fn replug(&self, machine: &Host, port: &str, host: u8) {
        machine.ip("link del eth0");
        // The extra interface takes the old number, so that the new interface cannot have it by
        // chance.
        machine.ip("link add other0 type bridge");
        self.plug(machine, port, host);
        machine.ip("link del other0");
    }

    fn admin(&self, words: &[&str]) -> Result<Value, String> {
        let state = self.dir.path("controller");
        let words = [&["group", "admin", "--json", "--state", &state], words].concat();
        let output = lightseal(&words).output().unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    fn epoch(&self) -> u64 {
        self.admin(&["show", "lights"]).unwrap()["epoch"].as_u64().unwrap()
    }

    /// Runs the program on a machine.
    fn run(&self, machine: &Host, words: &[&str]) -> Running {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        machine.call(move || Running::start(&words.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    fn serve(&self) -> Running {
        self.serve_group(&[])
    }

    /// Starts a controller with a group that has these options.
    fn serve_group(&self, more: &[&str]) -> Running {
        let group = self.family.group;
        let create = ["create", "lights", "--address", group, "--activation", "200ms"];
        self.admin(&[&create[..], more].concat()).unwrap();
        let address = self.address(1);
        let host = if address.contains(':') { format!("[{address}]") } else { address };
        let controller = format!("{host}:5780");
        for (device, role) in [("lamp", "--listener"), ("switch", "--sender")] {
            let token = self.admin(&["enrol", device, role, "--controller", &controller]).unwrap();
            self.dir.file(&format!("{device}.token"), token["token"].as_str().unwrap());
        }
        let state = self.dir.path("controller");
        let words = ["-v", "group", "controller", "--state", &state, "--interface", "eth0"];
        let words = [&words[..], &["--listen", self.family.listen]].concat();
        let mut running = self.run(&self.controller, &words);
        running.wait_for("listening for devices on");
        running
    }

    fn join(&self, machine: &Host, verb: &str, device: &str, more: &[&str]) -> Running {
        let (state, token) = (self.dir.path(device), self.dir.path(&format!("{device}.token")));
        let words = ["-v", "group", verb, "lights", "--interface", "eth0", "--state", &state];
        self.run(machine, &[&words[..], &["--token", &token], more].concat())
    }
}

/// Asks the group through the switch until the lamp answers, for a few seconds.
fn is_answered(switch: &Host) {
    let answered = switch.call(|| {
        let application = UdpSocket::bind("127.0.0.1:0").unwrap();
        application.set_read_timeout(Some(Duration::from_millis(250))).unwrap();
        (0..40).any(|_| {
            application.send_to(b"on?", "127.0.0.1:5683").unwrap();
            application.recv(&mut [0; 64]).is_ok_and(|len| len == 3)
        })
    });
    assert!(answered, "nobody answers");
}

#[test]
fn rekeys_leave_by_the_interface_that_was_named() {
    for family in FAMILIES {
        for has_default in [false, true] {
            alone(move || {
                let site = Site::new(family);
                site.plug(&site.controller, "port1", 1);
                site.plug(&site.lamp, "port3", 3);
                // All other traffic takes this other network.
                site.controller.ip("link add eth1 type veth peer name eth2");
                site.controller.ip("link set eth2 up");
                site.controller.ip("link set eth1 up");
                site.controller.address("eth1", "10.10.0.1/24");
                site.controller.address("eth1", "fd10::1/64");
                if has_default {
                    site.controller.ip(family.default);
                }
                let _controller = site.serve();
                let mut lamp = site.join(&site.lamp, "listen", "lamp", &[]);
                lamp.wait_for("listening to");
                for _ in 0..2 {
                    let shown = site.admin(&["rekey", "lights"]).unwrap();
                    lamp.wait_for(&format!("epoch {}", shown["epoch"]));
                }
                let announcements = &site.admin(&["show", "lights"]).unwrap()["announcements"];
                assert!(announcements["sent"].as_u64().unwrap() >= 2, "{announcements}");
                assert_eq!(announcements["failed"], 0, "{announcements}");
            });
        }
    }
}

#[test]
fn keys_that_cannot_be_announced_are_said_and_announced_later() {
    for family in FAMILIES {
        alone(move || {
            let site = Site::new(family);
            site.plug(&site.controller, "port1", 1);
            site.plug(&site.switch, "port2", 2);
            site.plug(&site.lamp, "port3", 3);
            let mut controller = site.serve();
            let mut lamp = site.join(&site.lamp, "listen", "lamp", &[]);
            lamp.wait_for("listening to");
            let mut switch =
                site.join(&site.switch, "join", "switch", &["--listen", "127.0.0.1:5683"]);
            switch.wait_for("applications send to");
            site.controller.ip("link del eth0");
            controller.wait_for("interface eth0 is gone");
            for words in [&["rekey", "lights"][..], &["evict", "lights", "switch"]] {
                let said = site.admin(words).unwrap_err();
                assert!(said.contains("has not heard of its new keys"), "{said}");
                assert!(said.contains("eth0: "), "{said}");
            }
            controller.has_said("new keys were not announced over eth0");
            let shown = site.admin(&["show", "lights"]).unwrap();
            assert!(shown["announcements"]["failed"].as_u64().unwrap() >= 2, "{shown}");
            assert!(shown["announcements"]["failure"].is_string(), "{shown}");
            site.plug(&site.controller, "port1", 1);
            controller.wait_for("interface eth0 was recreated");
            controller.wait_for("sent a delayed announcement");
            lamp.wait_for(&format!("epoch {}", shown["epoch"]));
            let shown = site.admin(&["show", "lights"]).unwrap();
            assert!(shown["announcements"]["failure"].is_null(), "{shown}");
        });
    }
}

#[test]
fn members_and_controller_follow_their_interface_and_its_address() {
    for family in FAMILIES {
        alone(move || {
            let site = Site::new(family);
            site.plug(&site.controller, "port1", 1);
            let mut controller = site.serve();
            // A missing interface is waited for.
            let mut lamp = site.join(&site.lamp, "listen", "lamp", &["--reply", "yes"]);
            lamp.wait_for("--interface eth0: ");
            site.plug(&site.lamp, "port3", 3);
            lamp.wait_for("listening to");
            site.plug(&site.switch, "port2", 2);
            let more = ["--listen", "127.0.0.1:5683"];
            let mut switch = site.join(&site.switch, "join", "switch", &more);
            switch.wait_for("applications send to");
            is_answered(&site.switch);
            let epoch = site.epoch();

            site.replug(&site.lamp, "port3", 3);
            lamp.wait_for("interface eth0 was recreated");
            is_answered(&site.switch);
            site.replug(&site.switch, "port2", 2);
            switch.wait_for("interface eth0 was recreated");
            is_answered(&site.switch);

            let [old, new] = [2, 4].map(|host| format!("{}{}", site.address(host), family.host.1));
            site.switch.ip(&format!("addr del {old} dev eth0"));
            site.switch.address("eth0", &new);
            switch.wait_for(&format!("sends from {}", site.address(4)));
            is_answered(&site.switch);
            assert_eq!(site.epoch(), epoch, "nothing was missed");

            site.replug(&site.controller, "port1", 1);
            controller.wait_for("interface eth0 was recreated");
            let shown = eventually(|| site.admin(&["rekey", "lights"]).ok());
            lamp.wait_for(&format!("epoch {}", shown["epoch"]));
        });
    }
}

/// A service on a machine that sends back what it receives, on the group's address behind the
/// interface `group0` and on all other addresses of the machine. Dropping it ends the service.
struct Service(Arc<AtomicBool>);

impl Service {
    fn start(machine: &Host) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        machine.call(move || {
            let socket = UdpSocket::bind("[::]:5683").unwrap();
            let interface = lightseal_net::interface::Interface::named("group0").unwrap().index();
            socket.join_multicast_v6(&"ff15::abcd".parse().unwrap(), interface).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            std::thread::spawn(move || {
                let mut buf = [0; 100];
                while !told.load(Ordering::Relaxed) {
                    if let Ok((len, from)) = socket.recv_from(&mut buf) {
                        let _ = socket.send_to(&buf[..len], from);
                    }
                }
            });
        });
        Self(ends)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn application(machine: &Host) -> Arc<UdpSocket> {
    machine.call(|| {
        let socket = UdpSocket::bind("[::]:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(250))).unwrap();
        Arc::new(socket)
    })
}

/// Asks at an address until this question is answered, and returns the source of the answer.
fn asks(application: &UdpSocket, to: SocketAddr, said: &[u8]) -> SocketAddr {
    let mut buf = [0; 100];
    let answer = (0..100).find_map(|_| {
        let _ = application.send_to(said, to);
        let (len, from) = application.recv_from(&mut buf).ok()?;
        (buf[..len] == *said).then_some(from)
    });
    answer.expect("it is answered")
}

const GROUP: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0xabcd)), 5683);

/// Whether a sender to this address is told that nobody is there.
fn is_refused(machine: &Host, to: SocketAddr) -> bool {
    let application = application(machine);
    application.connect(to).unwrap();
    (0..20).any(|_| {
        let sent = application.send(b"anybody?").map(drop);
        let heard = application.recv(&mut [0; 100]).map(drop);
        sent.and(heard).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
}

/// The site with both members behind `--tun` interfaces, everything that runs, and an application.
fn behind_interfaces(more: &[&str]) -> (Site, [Running; 3], Service, Arc<UdpSocket>) {
    let site = Site::new(FAMILIES[1]);
    site.plug(&site.controller, "port1", 1);
    site.plug(&site.switch, "port2", 2);
    site.plug(&site.lamp, "port3", 3);
    let controller = site.serve_group(more);
    let mut lamp = site.join(&site.lamp, "join", "lamp", &LAMP);
    lamp.wait_for("are answered by");
    let service = Service::start(&site.lamp);
    let stats = site.dir.path("stats");
    let switch = [&SWITCH[..], &["--stats-file", &stats]].concat();
    let mut switch = site.join(&site.switch, "join", "switch", &switch);
    switch.wait_for("leave from");
    let application = application(&site.switch);
    (site, [controller, lamp, switch], service, application)
}

const LAMP: [&str; 5] = ["--tun", "group0", "--as", "listener", "--keep-tun"];
const SWITCH: [&str; 5] = ["--tun", "group0", "--as", "sender", "--keep-tun"];

#[test]
fn a_sender_speaks_to_one_member_through_the_interface() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    alone(|| {
        let pairwise = ["--responses", "pairwise"];
        let (site, [_controller, _lamp, switch], _service, application) =
            behind_interfaces(&pairwise);
        let lamp = asks(&application, GROUP, b"on");
        assert_eq!(asks(&application, lamp, b"you alone"), lamp);
        let (SocketAddr::V6(mut nobody), SocketAddr::V6(mut beyond)) = (lamp, lamp) else {
            panic!("not of IPv6")
        };
        let bits = u128::from(*nobody.ip());
        nobody.set_ip((bits + 5).into());
        beyond.set_ip((bits | 1 << 40).into());
        assert!(is_refused(&site.switch, nobody.into()));
        assert!(is_refused(&site.switch, beyond.into()));
        assert_eq!(asks(&application, lamp, b"still there"), lamp);
        switch.signal("USR1");
        let counted = eventually(|| {
            let text = std::fs::read_to_string(site.dir.path("stats")).ok()?;
            serde_json::from_str::<Value>(&text).ok()
        });
        assert!(counted["unreachable"].as_u64().unwrap() >= 2, "{counted}");
        assert_eq!(counted["waited_too_long"], 0, "{counted}");
    });
}

#[test]
fn without_keys_of_two_members_alone_who_sends_to_one_is_told() {
    for more in [&["--profile", "axiom-1.2"][..], &["--profile", "compact"]] {
        alone(move || {
            let (site, _running, _service, application) = behind_interfaces(more);
            let lamp = asks(&application, GROUP, b"on");
            assert!(is_refused(&site.switch, lamp));
            assert_eq!(asks(&application, GROUP, b"off"), lamp);
        });
    }
}

#[test]
fn applications_behind_an_interface_go_on_when_their_member_is_killed_and_started_again() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    alone(|| {
        let pairwise = ["--responses", "pairwise"];
        let (site, [_controller, lamp, switch], _service, application) =
            behind_interfaces(&pairwise);
        let address = asks(&application, GROUP, b"on");
        assert_eq!(asks(&application, address, b"one"), address);
        // The service keeps the socket that it opened at the beginning, and so does its client.
        drop(lamp);
        let mut lamp = site.join(&site.lamp, "join", "lamp", &LAMP);
        lamp.wait_for("are answered by");
        assert_eq!(asks(&application, GROUP, b"two"), address);
        assert_eq!(asks(&application, address, b"three"), address);
        drop(switch);
        let mut switch = site.join(&site.switch, "join", "switch", &SWITCH);
        switch.wait_for("leave from");
        assert_eq!(asks(&application, address, b"four"), address);
        // An orderly end has the same result.
        switch.signal("TERM");
        assert_eq!(switch.wait(), Some(0));
        let _switch = site.join(&site.switch, "join", "switch", &SWITCH);
        assert_eq!(asks(&application, address, b"five"), address);
        site.switch.ip("link delete group0");
    });
}
