//! `lightseal macsec`: its command line, and two ends of it with a wire between them that lies.

use crate::program;

use program::{TempDir, fails};

const KEY_A: &str = "000102030405060708090a0b0c0d0e0f";
const KEY_B: &str = "101112131415161718191a1b1c1d1e1f";
const SCI_A: &str = "02:00:00:00:00:0a/1";
const SCI_B: &str = "02:00:00:00:00:0b/1";

#[test]
fn mistakes_are_one_line_that_names_them() {
    let dir = TempDir::new();
    let keys = dir.file("keys", &format!("tx 0 1 {KEY_A}\n"));
    let base = ["macsec", "--interface", "none0", "--key-file", &keys];
    fails(&base, &["numbers file", "keys.numbers is missing", "--first-use"]);
    fails(&[&base[..], &["--first-use"]].concat(), &["there is no interface \"none0\""]);
    fails(&[&base[..], &["--first-use"]].concat(), &["start without --first-use"]);
    for (wrong, expected) in [
        (&[][..], "there is no interface \"none0\""),
        (&["--sci", "02:00:00:00:00:0a"], "expected an SCI such as 02:00:00:00:00:01/1"),
        (&["--sci", SCI_A, "--port", "2"], "cannot be used with"),
        (&["--suite", "gcm-aes-192"], "suites are gcm-aes-128, gcm-aes-256"),
        (&["--suite", "gcm-aes-256"], "line 1: keys of gcm-aes-256 have 32 bytes"),
        (&["--confidentiality-offset", "40"], "expected 0, 30 or 50"),
        (&["--replay-window", "1073741824"], "1073741824 is not in 0..=1073741823"),
        (&["--no-replay-protect", "--refuse-duplicates"], "cannot be used with"),
        (&["--send-sci", "sometimes"], "possible values: always, end-station"),
        (&["--validate", "no"], "possible values: strict, check, disabled"),
        (&["--stats-file", "/no/such/folder/x"], "statistics file /no/such/folder/x"),
        (&["--numbers-file", "/no/such/folder/x"], "numbers file /no/such/folder/x"),
    ] {
        fails(&[&base[..], wrong].concat(), &[expected]);
    }
    fails(&["macsec"], &["no --interface given"]);
    fails(&["macsec", "--interface", "none0"], &["no --key-file given"]);
    fails(&["macsec", "--interface", "none0", "--key", KEY_A], &["--key"]);
    let missing = dir.path("missing");
    fails(&["macsec", "--interface", "none0", "--key-file", &missing], &["key file", "missing"]);
    let silent = dir.file("silent", &format!("{SCI_B} 0 1 {KEY_A}\n"));
    fails(&["macsec", "--interface", "none0", "--key-file", &silent], &["no key to send with"]);
    let wrong = dir.file("wrong", &format!("tx 0 1 {KEY_A}\ntx 0 1 {KEY_B}\n"));
    let words = ["macsec", "--interface", "none0", "--key-file", &wrong];
    fails(&words, &["line 2: association 0 has a key already"]);
    let two = format!("tx 0 1 {KEY_A}\n{SCI_A} 0 1 {KEY_B}\n{SCI_B} 0 1 {KEY_B}\n");
    let two = dir.file("two", &two);
    let words = ["macsec", "--interface", "none0", "--key-file", &two, "--send-sci", "never"];
    fails(&words, &["one peer"]);
    let damaged = dir.file("keys.numbers", "tx 1\n");
    fails(&base, &["numbers file", "line 1: damaged"]);
    std::fs::remove_file(damaged).unwrap();
    let open = dir.file("open", &format!("tx 0 1 {KEY_A}\n"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
    std::fs::set_permissions(&open, mode).unwrap();
    let words = ["macsec", "--interface", "none0", "--key-file", &open];
    fails(&words, &["key file", "mode 640", "chmod 600"]);
}

#[test]
fn settings_can_stand_in_a_file() {
    let dir = TempDir::new();
    let keys = dir.file("keys", &format!("tx 0 1 {KEY_A}{KEY_B}\n"));
    let text = format!(
        "[macsec]\ninterface = \"none1\"\nkey-file = {keys:?}\nsuite = \"gcm-aes-256\"\n\
         replay-window = 64\nrefuse-duplicates = true\nno-encrypt = false\n"
    );
    let config = dir.file("macsec.toml", &text);
    dir.file("keys.numbers", "# none yet\n");
    fails(&["macsec", "--config", &config], &["there is no interface \"none1\""]);
    let typed = ["macsec", "--config", &config, "--interface", "none2"];
    fails(&typed, &["there is no interface \"none2\""]);
    let config = dir.file("wrong.toml", "[macsec]\nkey = \"x\"\n");
    fails(&["macsec", "--config", &config], &["[macsec] has no setting key"]);
}

mod wire {
    use super::{KEY_A, KEY_B, SCI_A, SCI_B};
    use crate::program::{Running, TempDir, eventually, statistics};
    use lightseal_packet_io::af_packet::{PacketPort, PacketSocketSettings};
    use lightseal_packet_io::{Frame, Interface, LanPort, Offload, Pool, PoolSettings, Waiter};
    use serde_json::Value;
    use std::net::{SocketAddr, UdpSocket};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
    use std::thread::{self, JoinHandle};
    use std::time::Duration;
    use testkit::namespace::Host;

    fn quiet(name: &str) {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    }

    const PASS: u8 = 0;
    const TAMPER: u8 = 1;
    const REPEAT: u8 = 2;

    /// Two hosts, and what is between them.
    struct Site {
        a: Host,
        b: Host,
        /// What the wire does with frames.
        mood: Arc<AtomicU8>,
        stop: Arc<AtomicBool>,
        relay: Option<JoinHandle<()>>,
        dir: TempDir,
    }

    impl Site {
        fn new() -> Option<Self> {
            if let Err(reason) = skip::tun().and_then(|()| skip::program_there("ip", "iproute2")) {
                skip::test(reason);
                return None;
            }
            let hosts: Result<Vec<_>, _> = (0..3).map(|_| Host::open()).collect();
            let [a, middle, b] = match hosts {
                Ok(hosts) => hosts.try_into().ok()?,
                Err(reason) => {
                    skip::test(reason);
                    return None;
                }
            };
            for (host, mac, ours, theirs) in
                [(&a, "02:00:00:00:00:0a", "la", "wa"), (&b, "02:00:00:00:00:0b", "lb", "wb")]
            {
                let end = format!("name {ours} address {mac} netns {}", host.thread);
                middle.ip(&format!("link add {theirs} type veth peer {end}"));
                host.call(move || quiet(ours));
                host.ip(&format!("link set {ours} up"));
                middle.call(move || quiet(theirs));
                middle.ip(&format!("link set {theirs} up"));
            }
            let (mood, stop) = (Arc::new(AtomicU8::new(PASS)), Arc::new(AtomicBool::new(false)));
            let shared = (Arc::clone(&mood), Arc::clone(&stop));
            let ports = middle.call(|| {
                ["wa", "wb"].map(|name| {
                    let interface = Interface::find(name).unwrap();
                    interface.set_offload(Offload::TransmitChecksums, false).unwrap();
                    PacketPort::open(&interface, &PacketSocketSettings::default()).unwrap()
                })
            });
            let relay = thread::spawn(move || {
                let _middle = middle;
                relay(ports, &shared.0, &shared.1);
            });
            Some(Self { a, b, mood, stop, relay: Some(relay), dir: TempDir::new() })
        }

        /// Starts the program in the namespace of A or B, and waits until it has created its
        /// interface.
        fn start(&self, name: &'static str, more: &[&str]) -> Running {
            let (host, interface, address) = match name {
                "a" => (&self.a, "la", "10.77.0.1/24"),
                _ => (&self.b, "lb", "10.77.0.2/24"),
            };
            let (keys, stats) = (self.dir.path(&format!("{name}.keys")), self.stats(name));
            let words = ["-v", "macsec", "--interface", interface, "--key-file", &keys];
            let words = [&words[..], &["--tap", "sec0", "--stats-file", &stats], more].concat();
            let first = !std::path::Path::new(&format!("{keys}.numbers")).exists();
            let words = [&words[..], if first { &["--first-use"] } else { &[] }].concat();
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            let mut program = host.call(move || {
                Running::start(&words.iter().map(String::as_str).collect::<Vec<_>>())
            });
            program.wait_for("sec0 is");
            host.call(|| quiet("sec0"));
            host.ip(&format!("addr add {address} dev sec0"));
            program
        }

        fn stats(&self, name: &str) -> String {
            self.dir.path(&format!("{name}.json"))
        }

        /// The counters of a running program.
        fn counted(&self, name: &str, program: &Running) -> Value {
            let path = self.stats(name);
            let _ = std::fs::remove_file(&path);
            program.signal("USR1");
            eventually(|| std::path::Path::new(&path).exists().then_some(()));
            statistics(&path)
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            let _ = self.relay.take().unwrap().join();
        }
    }

    /// A wire that does with frames what `mood` says.
    fn relay([mut left, mut right]: [PacketPort; 2], mood: &AtomicU8, stop: &AtomicBool) {
        let mut pool = Pool::new(PoolSettings::new(2048, 512)).unwrap();
        let mut waiter = Waiter::new(Duration::ZERO);
        let mut frames: Vec<Frame> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            for leftwards in [false, true] {
                let (from, to) =
                    if leftwards { (&mut right, &mut left) } else { (&mut left, &mut right) };
                from.receive(&mut pool, &mut frames).unwrap();
                let mood = mood.load(Ordering::Relaxed);
                let count = frames.len();
                for index in 0..count {
                    assert_eq!(
                        pool.bytes(&frames[index])[12..14],
                        [0x88, 0xe5],
                        "nothing in clear"
                    );
                    if mood == TAMPER {
                        let last = frames[index].len() - 1;
                        pool.with(&mut frames[index], |packet| packet.bytes_mut()[last] ^= 1);
                    } else if mood == REPEAT {
                        let copy = pool.copy(&frames[index]).unwrap();
                        frames.push(copy);
                    }
                }
                to.transmit(&mut pool, &mut frames).unwrap();
                pool.release_all(frames.drain(..));
            }
            waiter.wait(&[&left, &right], Some(Duration::from_millis(20))).unwrap();
        }
    }

    /// A socket for an application on a host.
    fn socket(host: &Host, address: &'static str) -> UdpSocket {
        let socket = host.call(move || UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket
    }

    /// Sends until the datagram arrives: the first ones wait for ARP, and on a busy machine one may be
    /// late.
    fn asks(from: &UdpSocket, to: &UdpSocket, at: SocketAddr, text: &[u8]) {
        let mut buffer = [0; 2000];
        eventually(|| {
            from.send_to(text, at).unwrap();
            to.recv(&mut buffer).is_ok_and(|len| &buffer[..len] == text).then_some(())
        });
    }

    /// Receives what is still waiting at a socket, and returns the number of datagrams.
    fn drain(socket: &UdpSocket) -> usize {
        (0..).take_while(|_| socket.recv(&mut [0; 2000]).is_ok()).count()
    }

    fn end(mut program: Running) {
        program.signal("TERM");
        assert_eq!(program.wait(), Some(0));
    }

    fn talk(more: &[&str], key_line: impl Fn(&str, &str) -> String, send_sci: &str) {
        let Some(site) = Site::new() else { return };
        let keys_a = format!("{}{}", key_line("tx", KEY_A), key_line(SCI_B, KEY_B));
        let keys_b = format!("{}{}", key_line("tx", KEY_B), key_line(SCI_A, KEY_A));
        site.dir.file("a.keys", &keys_a);
        site.dir.file("b.keys", &keys_b);
        let more = [more, &["--send-sci", send_sci]].concat();
        let (mut a, b) = (site.start("a", &more), site.start("b", &more));
        let (here, there) = (socket(&site.a, "10.77.0.1:7000"), socket(&site.b, "10.77.0.2:7000"));
        let (at_a, at_b) = (here.local_addr().unwrap(), there.local_addr().unwrap());

        for len in [1, 20, 100, 1400] {
            asks(&here, &there, at_b, &vec![len as u8; len]);
            asks(&there, &here, at_a, &vec![len as u8; len]);
        }
        let before = site.counted("b", &b);
        assert!(before["peers"][SCI_A]["InPktsOK"].as_u64().unwrap() >= 4, "{before}");
        assert_eq!(before["peers"][SCI_A]["InPktsNotValid"], 0);

        // A frame that is changed on its way does not arrive, and is counted.
        site.mood.store(TAMPER, Ordering::Relaxed);
        drain(&there);
        for _ in 0..5 {
            here.send_to(b"changed", at_b).unwrap();
        }
        let not_valid = eventually(|| {
            let counted = site.counted("b", &b)["peers"][SCI_A]["InPktsNotValid"].as_u64()?;
            (counted >= 5).then_some(counted)
        });
        assert_eq!(drain(&there), 0);

        // A frame that is sent twice arrives once.
        site.mood.store(REPEAT, Ordering::Relaxed);
        for nth in 0..5_u8 {
            here.send_to(&[nth; 5], at_b).unwrap();
        }
        for nth in 0..5_u8 {
            let mut buffer = [0; 9];
            let len = eventually(|| there.recv(&mut buffer).ok());
            assert_eq!((len, buffer[0]), (5, nth));
        }
        assert_eq!(drain(&there), 0);
        let counted = site.counted("b", &b);
        assert!(counted["peers"][SCI_A]["InPktsLate"].as_u64().unwrap() >= 5, "{counted}");
        site.mood.store(PASS, Ordering::Relaxed);

        // After a restart the numbers continue, and the peer accepts them.
        let next = site.counted("a", &a)["nextPN"].as_u64().unwrap();
        end(a);
        a = site.start("a", &more);
        let again = site.counted("a", &a)["nextPN"].as_u64().unwrap();
        assert!(again >= next, "{again} after {next}");
        asks(&here, &there, at_b, b"again");
        // After a crash the peer accepts them too.
        drop(a);
        let a = site.start("a", &more);
        let crashed = site.counted("a", &a)["nextPN"].as_u64().unwrap();
        assert!(crashed > again + 1000, "{crashed} after {again}");
        asks(&here, &there, at_b, b"and again");

        end(a);
        end(b);
        let last = statistics(&site.stats("b"));
        assert!(last["peers"][SCI_A]["InPktsNotValid"].as_u64().unwrap() >= not_valid);
        assert_eq!(last["OutPktsNoSA"], 0);
    }

    #[test]
    fn two_hosts_talk_over_a_wire_that_lies() {
        talk(&[], |whose, key| format!("{whose} 0 1 {key}\n"), "always");
    }

    #[test]
    fn two_hosts_talk_with_extended_numbers_in_a_window() {
        let salt = "e630e81a48de86a21c66fa6d";
        let line = |whose: &str, key: &str| {
            let ssci = if key == KEY_A { "00000001" } else { "00000002" };
            format!("{whose} 1 4294967290 {key}{key} {ssci} {salt}\n")
        };
        let more = ["--suite", "gcm-aes-xpn-256", "--replay-window", "32", "--refuse-duplicates"];
        talk(&more, line, "end-station");
    }

    #[test]
    fn a_used_up_key_makes_way_for_the_next() {
        let Some(site) = Site::new() else { return };
        let first = u64::from(u32::MAX) - 5;
        site.dir.file("a.keys", &format!("tx 0 {first} {KEY_A}\ntx 1 1 {KEY_B}\n"));
        let other = "f0".repeat(16);
        let keys_b = format!("tx 0 1 {other}\n{SCI_A} 0 1 {KEY_A}\n{SCI_A} 1 1 {KEY_B}\n");
        site.dir.file("b.keys", &keys_b);
        let (mut a, b) = (site.start("a", &[]), site.start("b", &[]));
        // A has no key of B's, so no ARP answer arrives.
        site.a.ip("neigh add 10.77.0.2 lladdr 02:00:00:00:00:0b dev sec0");
        let (here, there) = (socket(&site.a, "10.77.0.1:7000"), socket(&site.b, "10.77.0.2:7000"));
        let at_b = there.local_addr().unwrap();
        for nth in 0..10_u8 {
            asks(&here, &there, at_b, &[nth; 4]);
        }
        a.has_said("sending with 1");
        let counted = site.counted("b", &b);
        let by_sa = &counted["peers"][SCI_A]["InPktsOK by SA"];
        // A frame of the system, sent before B listened, may have taken one of the last six numbers.
        let [old, new] = [0, 1].map(|sa| by_sa[sa].as_u64().unwrap());
        assert!((1..=6).contains(&old) && new >= 4 && old + new >= 10, "{by_sa}");
        end(a);
        // The key remains used up.
        let a = site.start("a", &[]);
        assert_eq!(site.counted("a", &a)["encodingSA"], 1);
        end(a);
        end(b);
    }

    #[test]
    fn a_key_file_has_one_user() {
        let Some(site) = Site::new() else { return };
        site.dir.file("a.keys", &format!("tx 0 1 {KEY_A}\n"));
        let a = site.start("a", &[]);
        let keys = site.dir.path("a.keys");
        site.a.call(move || {
            let words = ["macsec", "--interface", "la", "--key-file", &keys, "--tap", "sec1"];
            crate::program::fails(&words, &["another process sends with it"]);
            // A copy, or another file in its place, is a different file with the same packet
            // numbers.
            std::fs::copy(&keys, format!("{keys}.copy")).unwrap();
            std::fs::rename(format!("{keys}.copy"), &keys).unwrap();
            crate::program::fails(&words, &["numbers file", "another process sends with it"]);
        });
        end(a);
    }
}
