//! The trials: what must work between real MACsec endpoints, whatever joins their cables.

use super::join::{Join, Joined};
use super::macsec::{Macsec, Pings, Suite};
use super::{End, Guest};
use crate::Failure;
use crate::daemon::{Daemon, Scratch};
use crate::namespace::Namespace;
use crate::station::Station;
use std::fs;
use std::time::{Duration, Instant};

/// One thing that must work.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// A unique name.
    pub name: &'static str,
    /// What must hold.
    pub about: &'static str,
    /// Whether MKA's frames must pass for this trial.
    pub needs_mka: bool,
    /// What must join the endpoints for this trial.
    pub over: Over,
    run: fn(&mut Guest, &mut dyn Joined) -> Result<String, Failure>,
}

/// What joins the endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Anything.
    Anything,
    /// A bridge, to which the trial can connect more.
    Bridge,
    /// Gateways, which can be killed and started again, with a network between them that can lose
    /// packets.
    Gateways,
}

/// The outcome of a trial.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The trial.
    pub trial: &'static Trial,
    /// Counts in words, or why it failed.
    pub outcome: Result<String, Failure>,
    /// InPktsNotValid and InPktsLate of all endpoints when the trial ended, successful or not.
    pub not_valid: u64,
    /// Wall-clock duration in seconds.
    pub seconds: f64,
}

/// All trials. Each starts with endpoints without MACsec.
pub const TRIALS: &[Trial] = &[
    Trial {
        name: "static-128",
        about: "GCM-AES-128: pings of 0 to 1400 bytes and beyond a frame, and TCP",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| everything(guest, &Macsec::default(), &[0, 1, 17, 18, 47, 56, 1400, 4000]),
    },
    Trial {
        name: "strict-order",
        about: "no frame arrives twice or after a later one; the replay window is 0, since inside of \
            a window neither is counted",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| everything(guest, &STRICT, &[0, 56, 1400]),
    },
    Trial {
        name: "oracles",
        about: "a replayed frame is counted as late, a forged one as not valid",
        needs_mka: false,
        over: Over::Bridge,
        run: |guest, _| oracles(guest),
    },
    Trial {
        name: "static-256",
        about: "GCM-AES-256",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| suite(guest, Suite::Aes256),
    },
    Trial {
        name: "static-xpn-128",
        about: "GCM-AES-XPN-128",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| suite(guest, Suite::Xpn128),
    },
    Trial {
        name: "static-xpn-256",
        about: "GCM-AES-XPN-256",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| suite(guest, Suite::Xpn256),
    },
    Trial {
        name: "without-sci",
        about: "SecTAGs of 8 bytes, without the sender's SCI",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| {
            if guest.ends().count() > 2 {
                return Ok("not with three ends, which need SCIs".into());
            }
            pings(guest, &Macsec { sci: false, ..Macsec::default() })
        },
    },
    Trial {
        name: "integrity-only",
        about: "authenticated and not encrypted",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| pings(guest, &Macsec { encrypt: false, ..Macsec::default() }),
    },
    Trial {
        name: "vlan-outside",
        about: "a VLAN tag in clear before the SecTAG",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| pings(guest, &Macsec { vlan: Some(7), ..Macsec::default() }),
    },
    Trial {
        name: "vlan-inside",
        about: "a VLAN tag that is encrypted with the rest",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| vlan_inside(guest),
    },
    Trial {
        name: "broadcast",
        about: "a broadcast reaches every other end, once",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| broadcast(guest),
    },
    Trial {
        name: "rekey",
        about: "five new associations while pings are under way: none is lost",
        needs_mka: false,
        over: Over::Anything,
        run: |guest, _| rekey(guest),
    },
    Trial {
        name: "own-end",
        about: "`lightseal macsec` and the kernel: pings and TCP, and neither refuses anything",
        needs_mka: false,
        over: Over::Bridge,
        run: |guest, _| own_end(guest),
    },
    Trial {
        name: "restart",
        about: "the gateway of the second end is killed and started again while pings are under way: they \
            are answered again, and no frame arrives twice or out of order",
        needs_mka: false,
        over: Over::Gateways,
        run: restart,
    },
    Trial {
        name: "disturbed",
        about: "every 20th packet of the tunnel is lost and every 23rd overtaken by five: TCP gets \
            through, and nothing else is lost or refused",
        needs_mka: false,
        over: Over::Gateways,
        run: disturbed,
    },
    Trial {
        name: "mka",
        about: "MKA agrees, and hands out another key when a member joins again",
        needs_mka: true,
        over: Over::Anything,
        run: |guest, _| mka(guest),
    },
];

/// MACsec with a replay window of 0. Inside of a larger window the kernel does not count frames
/// that arrive late or twice (IEEE 802.1AE).
const STRICT: Macsec =
    Macsec { suite: Suite::Aes128, sci: true, encrypt: true, window: 0, vlan: None };

impl Trial {
    /// Whether the trial is possible with this way of joining the endpoints.
    pub fn fits(&self, join: &dyn Join) -> bool {
        let over = match self.over {
            Over::Anything => true,
            Over::Bridge => join.is_bridge(),
            Over::Gateways => !join.is_bridge(),
        };
        over && (join.carries_mka() || !self.needs_mka)
    }

    /// Runs the trial and removes MACsec from the endpoints again.
    pub fn run(&'static self, guest: &mut Guest, joined: &mut dyn Joined) -> Verdict {
        let started = Instant::now();
        let outcome = guest.stop_macsec().and_then(|()| (self.run)(guest, joined));
        let mut not_valid = 0;
        for end in guest.ends() {
            // If the trial failed, an endpoint may have no MACsec.
            let counted = guest.counters(end);
            not_valid += counted.map_or(0, |counters| counters.not_valid + counters.late);
        }
        let outcome = outcome.and_then(|detail| guest.stop_macsec().map(|()| detail));
        Verdict { trial: self, outcome, not_valid, seconds: started.elapsed().as_secs_f64() }
    }
}

/// Pings of each size from the first endpoint to each other one and back; all must be answered.
/// Returns the number of answers.
fn ping_all(guest: &mut Guest, sizes: &[u32]) -> Result<u32, Failure> {
    let mut answered = 0;
    for other in guest.ends().skip(1) {
        for (from, to) in [(End::A, other), (other, End::A)] {
            for size in sizes {
                let pings = guest.ping(from, &to.ip(), 5, *size)?;
                if !pings.all() {
                    return Err(Failure::Broken(format!(
                        "{} of {} pings of {size} bytes were answered",
                        pings.answered, pings.sent
                    )));
                }
                answered += pings.answered;
            }
        }
    }
    Ok(answered)
}

/// Checks that no endpoint refused a frame and each has received some. Returns the counts in words.
fn nothing_refused(guest: &mut Guest) -> Result<String, Failure> {
    let mut received = 0;
    for end in guest.ends() {
        let counters = guest.counters(end)?;
        if let Some((name, count)) = counters.refused().first() {
            return Err(Failure::Broken(format!("end {}: {name} {count}", end.name())));
        }
        if counters.ok == 0 {
            return Err(Failure::Broken(format!("end {} received nothing", end.name())));
        }
        received += counters.ok;
    }
    Ok(format!("{received} frames received, InPktsNotValid 0, InPktsLate 0"))
}

fn pings(guest: &mut Guest, macsec: &Macsec) -> Result<String, Failure> {
    guest.start_macsec(macsec)?;
    let answered = ping_all(guest, &[0, 56, 1400])?;
    Ok(format!("{answered} pings answered, {}", nothing_refused(guest)?))
}

fn suite(guest: &mut Guest, suite: Suite) -> Result<String, Failure> {
    pings(guest, &Macsec { suite, ..Macsec::default() })
}

fn everything(guest: &mut Guest, macsec: &Macsec, sizes: &[u32]) -> Result<String, Failure> {
    guest.start_macsec(macsec)?;
    let answered = ping_all(guest, sizes)?;
    let rate = guest.iperf(End::A, End::B, 2)?;
    let back = guest.iperf(End::B, End::A, 2)?;
    Ok(format!(
        "{answered} pings answered, TCP {rate:.0} and {back:.0} Mbit/s, {}",
        nothing_refused(guest)?
    ))
}

/// Checks the counters on which the other trials rely: repeats frames of the first endpoint to the
/// second, once unchanged and once with a flipped bit in the ICV, and checks that both are counted.
fn oracles(guest: &mut Guest) -> Result<String, Failure> {
    const FRAMES: usize = 5;
    guest.start_macsec(&STRICT)?;
    pings_begin(guest, 100)?;
    let listen = || -> Result<Vec<Vec<u8>>, Failure> {
        let mut station = Station::open(End::A.tap())?;
        let mut heard = Vec::new();
        let started = Instant::now();
        while heard.len() < FRAMES && started.elapsed() < Duration::from_secs(10) {
            station.receive(Duration::from_millis(200), |frame| {
                if frame[6..12] == End::A.address() {
                    heard.push(frame.to_vec());
                }
            })?;
        }
        Ok(heard)
    };
    let mut heard = guest.room().within(listen)??;
    heard.truncate(FRAMES);
    pings_ended(guest)?;
    nothing_refused(guest)?;
    let inject = |frames: &[Vec<u8>]| {
        let send = || Station::open(End::B.tap())?.send(frames.iter().map(Vec::as_slice));
        guest.room().within(send)?.map(drop)
    };
    inject(&heard)?;
    for frame in &mut heard {
        if let Some(last) = frame.last_mut() {
            *last ^= 1;
        }
        // The packet number is set ahead of all others, or the frame would be dropped as late
        // unchecked.
        frame[16] = 0x7f;
    }
    inject(&heard)?;
    guest.must("sleep 0.5")?;
    let counters = guest.counters(End::B)?;
    if heard.len() != FRAMES || [counters.late, counters.not_valid] != [FRAMES as u64; 2] {
        return Err(Failure::Broken(format!(
            "of {} frames InPktsLate {}, InPktsNotValid {}",
            heard.len(),
            counters.late,
            counters.not_valid
        )));
    }
    Ok(format!("{FRAMES} of {FRAMES} counted as late, {FRAMES} of {FRAMES} as not valid"))
}

fn vlan_inside(guest: &mut Guest) -> Result<String, Failure> {
    guest.start_macsec(&Macsec::default())?;
    for end in guest.ends() {
        let at = end.name();
        guest.must(&format!(
            "set -e\nip -n {at} link add link macsec0 name inside type vlan id 5\n\
             ip -n {at} link set inside up\nip -n {at} addr add 10.78.0.{}/24 dev inside",
            1 + end as u8
        ))?;
    }
    for other in guest.ends().skip(1) {
        let to = format!("10.78.0.{}", 1 + other as u8);
        if !guest.ping(End::A, &to, 10, 200)?.all() {
            return Err(Failure::Broken("pings in the VLAN are lost".into()));
        }
    }
    nothing_refused(guest)
}

fn broadcast(guest: &mut Guest) -> Result<String, Failure> {
    const COUNT: u32 = 10;
    guest.start_macsec(&Macsec::default())?;
    let before = echo_requests(guest)?;
    // The first endpoint would also answer its own broadcast.
    guest.at(End::A, "sysctl -q -w net.ipv4.icmp_echo_ignore_broadcasts=1")?;
    let pings = guest.ping(End::A, "10.77.0.255", COUNT, 56)?;
    guest.at(End::A, "sysctl -q -w net.ipv4.icmp_echo_ignore_broadcasts=0")?;
    let after = echo_requests(guest)?;
    for (end, (after, before)) in guest.ends().zip(after.into_iter().zip(before)).skip(1) {
        let came = after - before;
        if came != u64::from(COUNT) {
            return Err(Failure::Broken(format!(
                "{COUNT} broadcasts arrived {came} times at {}",
                end.name()
            )));
        }
    }
    if !pings.all() {
        return Err(Failure::Broken(format!("{} of {COUNT} were answered", pings.answered)));
    }
    Ok(format!("{COUNT} at each other end, {}", nothing_refused(guest)?))
}

/// The number of ICMP echo requests that each endpoint has received.
fn echo_requests(guest: &mut Guest) -> Result<Vec<u64>, Failure> {
    let mut counts = Vec::new();
    for end in guest.ends() {
        let text = guest.at(end, "grep Icmp: /proc/net/snmp")?;
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let count = lines.first().zip(lines.get(1)).and_then(|(names, values)| {
            let place = names.iter().position(|name| *name == "InEchos")?;
            values.get(place)?.parse().ok()
        });
        counts.push(count.ok_or_else(|| Failure::broken("/proc/net/snmp", &text))?);
    }
    Ok(counts)
}

fn rekey(guest: &mut Guest) -> Result<String, Failure> {
    const TIMES: u8 = 5;
    let macsec = Macsec::default();
    guest.start_macsec(&macsec)?;
    pings_begin(guest, 400)?;
    for time in 1..=TIMES {
        let number = guest.rekey(&macsec)?;
        if number != time % 4 {
            return Err(Failure::Broken(format!("association {number} followed {}", time - 1)));
        }
        guest.must("sleep 0.5")?;
    }
    let pings = pings_ended(guest)?;
    if !pings.all() {
        return Err(Failure::Broken(format!(
            "{} of {} pings were answered",
            pings.answered, pings.sent
        )));
    }
    Ok(format!("{} pings answered, {}", pings.answered, nothing_refused(guest)?))
}

/// Starts pings to the second endpoint, 50 a second, in the background. [`pings_ended`] waits for
/// them.
fn pings_begin(guest: &mut Guest, count: u32) -> Result<(), Failure> {
    let to = End::B.ip();
    let ping = format!("ip netns exec a ping -q -i 0.02 -c {count} -W 2 {to} > /tmp/pings 2>&1 &");
    guest.must(&ping).map(drop)
}

fn pings_ended(guest: &mut Guest) -> Result<Pings, Failure> {
    let text =
        guest.must("until grep -q transmitted /tmp/pings; do sleep 0.2; done; cat /tmp/pings")?;
    Pings::read(&text).ok_or_else(|| Failure::broken("ping", &text))
}

fn restart(guest: &mut Guest, joined: &mut dyn Joined) -> Result<String, Failure> {
    guest.start_macsec(&STRICT)?;
    ping_all(guest, &[56])?;
    pings_begin(guest, 500)?;
    joined.restart(End::B)?;
    let pings = pings_ended(guest)?;
    if pings.answered * 2 < pings.sent {
        return Err(Failure::Broken(format!(
            "around it {} of {} pings were answered",
            pings.answered, pings.sent
        )));
    }
    let after = ping_all(guest, &[56, 1400])?;
    Ok(format!(
        "{} of {} pings answered around it, {after} of {after} after, {}",
        pings.answered,
        pings.sent,
        nothing_refused(guest)?
    ))
}

fn disturbed(guest: &mut Guest, joined: &mut dyn Joined) -> Result<String, Failure> {
    guest.start_macsec(&Macsec::default())?;
    ping_all(guest, &[56])?;
    let mut seen = None;
    let weather = joined.disturbed(&mut || {
        let pings = guest.ping(End::A, &End::B.ip(), 200, 200)?;
        let rate = guest.iperf(End::A, End::B, 2)?;
        seen = Some((pings, rate));
        Ok(())
    })?;
    let Some((pings, rate)) = seen else {
        return Err(Failure::Broken("no trial was made".into()));
    };
    // A ping and its answer are two packets, and one that waits for others may be too late.
    let least = pings.sent - pings.sent / 4;
    if pings.answered < least || weather.lost == 0 || weather.late == 0 {
        return Err(Failure::Broken(format!(
            "{} of {} pings were answered, {weather:?}",
            pings.answered, pings.sent
        )));
    }
    let after = ping_all(guest, &[56, 1400])?;
    Ok(format!(
        "{} of {} packets lost, {} late; {} of {} pings answered, TCP {rate:.0} Mbit/s, {after} of {after} pings \
         after, {}",
        weather.lost,
        weather.came,
        weather.late,
        pings.answered,
        pings.sent,
        nothing_refused(guest)?
    ))
}

/// Connects an endpoint of our own program to the bridge and exchanges traffic with the first
/// endpoint's kernel.
fn own_end(guest: &mut Guest) -> Result<String, Failure> {
    const SCI: &str = "02:4d:53:01:00:0c";
    const KEY: &str = "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf";
    const IP: &str = "10.77.0.12";
    let macsec = Macsec::default();
    guest.start_macsec(&macsec)?;
    guest.must(&format!(
        "set -e\nip -n a macsec add macsec0 rx port 1 address {SCI}\n\
         ip -n a macsec add macsec0 rx port 1 address {SCI} sa 0 pn 1 on key 0c00 {KEY}"
    ))?;
    let place = Namespace::new("own")?;
    place.cable("lan", guest.room(), "to-own", 1500)?;
    guest.room().ip("link set to-own master lan")?;
    let scratch = Scratch::new("own")?;
    let keys = scratch.file("keys");
    let theirs = macsec.key(End::A, 0);
    let text = format!("tx 0 1 {KEY}\n{}/1 0 1 {theirs}\n", End::A.address_text());
    let written = fs::write(&keys, text).and_then(|()| crate::ends::owner_alone(&keys));
    written.map_err(|error| Failure::broken(keys.display(), error))?;
    let mut command = place.command(guest.lightseal());
    command.args(["macsec", "--interface", "lan", "--tap", "macsec0", "--sci"]);
    command.arg(format!("{SCI}/1")).arg("--first-use").arg("--key-file").arg(&keys);
    let mut end = Daemon::start(&mut command, &scratch.file("log"))?;
    let is_up = || place.ip("link show macsec0 up").is_ok_and(|shown| !shown.is_empty());
    end.wait_until("a MACsec interface", Duration::from_secs(10), is_up)?;
    place.ip(&format!("addr add {IP}/24 dev macsec0"))?;
    let mut answered = 0;
    for size in [0, 1, 17, 18, 47, 56, 1400] {
        let pings = guest.ping(End::A, IP, 5, size)?;
        if !pings.all() {
            return Err(Failure::Broken(format!(
                "{} of {} pings of {size} bytes were answered",
                pings.answered, pings.sent
            )));
        }
        answered += pings.answered;
    }
    guest.at(End::A, "iperf3 -s -1 -D")?;
    guest.must("sleep 0.5")?;
    place.run("iperf3", &format!("-c {} -t 2", End::A.ip()))?;
    answered += ping_all(guest, &[56])?;
    let detail = nothing_refused(guest)?;
    guest.room().ip("link set to-own nomaster")?;
    Ok(format!("{answered} pings answered, TCP, {detail}"))
}

fn mka(guest: &mut Guest) -> Result<String, Failure> {
    let first = guest.start_mka()?;
    let answered = ping_all(guest, &[56, 1400])?;
    let before = guest.counters(End::A)?.sending_with;
    let detail = nothing_refused(guest)?;
    let second = guest.rejoin_mka(End::B)?;
    let after = guest.counters(End::A)?.sending_with;
    let again = ping_all(guest, &[56])?;
    Ok(format!(
        "{answered} pings answered with association {before} (agreed on in attempt {first}), {again} with \
         {after} (attempt {second}); before the second key {detail}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (i, trial) in TRIALS.iter().enumerate() {
            assert!(TRIALS[..i].iter().all(|other| other.name != trial.name));
        }
    }
}
