//! MACsec with static keys between the guest's endpoints, and the kernel's counters.

use super::{End, Guest};
use crate::Failure;
use serde_json::Value;
use std::time::Duration;

/// The name of each endpoint's MACsec interface.
const DEVICE: &str = "macsec0";
/// A cipher suite (IEEE 802.1AE-2018, 14.5 and 14.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// GCM-AES-128, the default one.
    Aes128,
    /// GCM-AES-256.
    Aes256,
    /// GCM-AES-XPN-128: packet numbers of 64 bits, of which the lower 32 are sent.
    Xpn128,
    /// GCM-AES-XPN-256.
    Xpn256,
}

impl Suite {
    const fn name(self) -> &'static str {
        match self {
            Self::Aes128 => "gcm-aes-128",
            Self::Aes256 => "gcm-aes-256",
            Self::Xpn128 => "gcm-aes-xpn-128",
            Self::Xpn256 => "gcm-aes-xpn-256",
        }
    }

    const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128 | Self::Xpn128 => 16,
            Self::Aes256 | Self::Xpn256 => 32,
        }
    }

    const fn is_extended(self) -> bool {
        matches!(self, Self::Xpn128 | Self::Xpn256)
    }
}

/// The MACsec settings that all endpoints share.
#[derive(Clone, Copy, Debug)]
pub struct Macsec {
    /// The cipher suite.
    pub suite: Suite,
    /// Whether frames carry their SCI.
    pub sci: bool,
    /// Whether payloads are encrypted, and not only authenticated.
    pub encrypt: bool,
    /// The replay window: packet numbers below the newest one that are still accepted.
    pub window: u32,
    /// The VLAN identifier of a tag in clear before the SecTAG, if frames have one.
    pub vlan: Option<u16>,
}

impl Default for Macsec {
    fn default() -> Self {
        Self { suite: Suite::Aes128, sci: true, encrypt: true, window: 64, vlan: None }
    }
}

impl Macsec {
    /// The commands that make the interface of an endpoint in the namespace `at`.
    fn interface(&self, at: &str, end: End) -> String {
        let on = |is| if is { "on" } else { "off" };
        let (mut script, below) = match self.vlan {
            None => (String::new(), "eth0".to_owned()),
            Some(id) => (
                format!(
                    "ip -n {at} link add link eth0 name eth0.{id} type vlan id {id}\n\
                     ip -n {at} link set eth0.{id} up\n"
                ),
                format!("eth0.{id}"),
            ),
        };
        script += &format!(
            "ip -n {at} link add link {below} {DEVICE} type macsec port 1 cipher {} send_sci {} \
             encrypt {} replay on window {}\n",
            self.suite.name(),
            on(self.sci),
            on(self.encrypt),
            self.window
        );
        script + &address(at, end)
    }

    /// The options of the secure association with which `end` sends: packet number and key.
    fn association(&self, end: End, number: u8) -> String {
        let numbering = if self.suite.is_extended() {
            let salt = "e630e81a48de86a21c66fa6d";
            format!("xpn 1 salt {salt} ssci {}", 1 + end as u8)
        } else {
            "pn 1".into()
        };
        format!("{numbering} on key {:02x}{number:02x} {}", end as u8, self.key(end, number))
    }

    /// The key of that association in hex. It is no secret, and different for each association.
    pub(super) fn key(&self, end: End, number: u8) -> String {
        format!("{:02x}{number:02x}", 0xa0 + end as u8).repeat(self.suite.key_bytes() / 2)
    }
}

/// The commands that bring an endpoint's MACsec interface up with an address.
pub(super) fn address(at: &str, end: End) -> String {
    format!("ip -n {at} link set {DEVICE} up\nip -n {at} addr add {}/24 dev {DEVICE}\n", end.ip())
}

impl Guest {
    /// Removes MACsec from every endpoint, with static keys or MKA.
    ///
    /// # Errors
    /// The script fails in the guest; the text has the last line of its output.
    pub fn stop_macsec(&mut self) -> Result<(), Failure> {
        let mut script = String::from("killall -q wpa_supplicant && sleep 0.5\n");
        for end in self.ends() {
            let at = end.name();
            // The interface has ended with wpa_supplicant, or never existed.
            script += &format!(
                "ip -n {at} link del {DEVICE} 2> /dev/null\n\
                 for tagged in $(ip netns exec {at} ls /sys/class/net); do\n\
                 case $tagged in eth0.*) ip -n {at} link del $tagged;; esac\ndone\n"
            );
        }
        self.must(&(script + "true")).map(drop)
    }

    /// Starts MACsec with static keys: every endpoint sends with its own association 0 and can
    /// receive with those of all others.
    ///
    /// # Errors
    /// The script fails in the guest, for example because MACsec is running
    /// ([`Self::stop_macsec`]).
    pub fn start_macsec(&mut self, macsec: &Macsec) -> Result<(), Failure> {
        let mut script = String::from("set -e\n");
        for end in self.ends() {
            let at = end.name();
            script += &macsec.interface(at, end);
            for other in self.ends().filter(|other| *other != end) {
                script += &format!(
                    "ip -n {at} macsec add {DEVICE} rx port 1 address {}\n",
                    other.address_text()
                );
            }
        }
        script += &self.associations(macsec, 0);
        self.must(&script).map(drop)
    }

    /// Installs new keys under the next association number without a gap: first every endpoint can
    /// receive with them, then every endpoint sends with them. Returns that number.
    ///
    /// # Errors
    /// The script fails in the guest; the text has the last line of its output.
    pub fn rekey(&mut self, macsec: &Macsec) -> Result<u8, Failure> {
        let next = (self.counters(End::A)?.sending_with + 1) % 4;
        let mut script = String::new();
        for end in self.ends() {
            let of = format!("ip -n {} macsec", end.name());
            // The associations that had this number four keys ago.
            let mut old = vec![format!("tx sa {next}")];
            for other in self.ends().filter(|other| *other != end) {
                old.push(format!("rx port 1 address {} sa {next}", other.address_text()));
            }
            for old in old {
                script += &format!(
                    "{of} set {DEVICE} {old} off 2> /dev/null && {of} del {DEVICE} {old}\n"
                );
            }
        }
        script += "set -e\n";
        script += &self.associations(macsec, next);
        self.must(&script)?;
        Ok(next)
    }

    /// The commands that add association `number` everywhere and send with it.
    fn associations(&self, macsec: &Macsec, number: u8) -> String {
        let mut script = String::new();
        for end in self.ends() {
            for other in self.ends().filter(|other| *other != end) {
                script += &format!(
                    "ip -n {} macsec add {DEVICE} rx port 1 address {} sa {number} {}\n",
                    end.name(),
                    other.address_text(),
                    macsec.association(other, number)
                );
            }
        }
        for end in self.ends() {
            let at = end.name();
            script += &format!(
                "ip -n {at} macsec add {DEVICE} tx sa {number} {}\n\
                 ip -n {at} link set {DEVICE} type macsec encodingsa {number}\n",
                macsec.association(end, number)
            );
        }
        script
    }

    /// The kernel's MACsec counters at an endpoint.
    ///
    /// # Errors
    /// The endpoint has no MACsec.
    pub fn counters(&mut self, end: End) -> Result<MacsecCounters, Failure> {
        let text = self.must(&format!("ip -n {} -j -s macsec show {DEVICE}", end.name()))?;
        MacsecCounters::read(&text).ok_or_else(|| Failure::broken("ip macsec show", text))
    }

    /// Sends pings, 50 a second, with `payload_bytes` after the ICMP header. `to` may be a
    /// broadcast address.
    ///
    /// # Errors
    /// The output of `ping` cannot be understood.
    pub fn ping(
        &mut self,
        from: End,
        to: &str,
        count: u32,
        payload_bytes: u32,
    ) -> Result<Pings, Failure> {
        let at = from.name();
        let ping =
            format!("ip netns exec {at} ping -q -i 0.02 -W 2 -c {count} -s {payload_bytes} {to}");
        let patience = Duration::from_millis(u64::from(count) * 40) + Duration::from_secs(30);
        // Lost pings are counted and are no error.
        let text = self.run_for(&ping, patience)?.text;
        Pings::read(&text).ok_or_else(|| Failure::broken("ping", text))
    }

    /// Measures TCP from one endpoint to another, in Mbit/s that arrived. The processor is
    /// emulated, so the value only shows that TCP works.
    ///
    /// # Errors
    /// The connection fails.
    pub fn iperf(&mut self, from: End, to: End, seconds: u32) -> Result<f64, Failure> {
        let text = self.must(&format!(
            "ip netns exec {} iperf3 -s -1 -D && sleep 0.5 && \
             ip netns exec {} iperf3 -c {} -t {seconds} -J",
            to.name(),
            from.name(),
            to.ip()
        ))?;
        let value: Value =
            serde_json::from_str(&text).map_err(|error| Failure::broken("iperf3", error))?;
        let rate = value.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
        rate.map(|rate| rate / 1e6).ok_or_else(|| Failure::broken("iperf3", &value["error"]))
    }
}

/// MACsec counters of a kernel (IEEE 802.1AE-2018, 10.7.9, and Figure 10-4), summed over all
/// channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MacsecCounters {
    /// The association number with which frames are sent.
    pub sending_with: u8,
    /// The identifier of the key with which frames are sent; `None` before MKA has agreed on one.
    pub key: Option<String>,
    /// Number of other endpoints with an active receive association.
    pub receiving_from: usize,
    /// Frames sent, encrypted or only authenticated.
    pub sent: u64,
    /// InPktsOK: received and delivered.
    pub ok: u64,
    /// InPktsNotValid: the ICV was wrong, and the frame was dropped.
    pub not_valid: u64,
    /// InPktsInvalid: the ICV was wrong, and the frame was delivered because validation is not
    /// strict.
    pub invalid: u64,
    /// InPktsLate: the packet number was below the replay window or already received.
    pub late: u64,
    /// InPktsDelayed: the packet number was below the window, and replay protection is off.
    pub delayed: u64,
    /// InPktsBadTag: the SecTAG was malformed.
    pub bad_tag: u64,
    /// InPktsNoTag: a frame without a SecTAG where one is required.
    pub no_tag: u64,
    /// InPktsUnknownSCI and InPktsNoSCI: the frame was of an unknown secure channel.
    pub unknown_channel: u64,
    /// InPktsNotUsingSA and InPktsUnusedSA: the frame was of an association that is not active.
    pub unused_association: u64,
}

impl MacsecCounters {
    /// Reads the output of `ip -j -s macsec show`.
    fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let device = value.get(0)?;
        let own = |name: &str| device[name].as_u64();
        let channels: Vec<&Value> = device["rx_sc"].as_array().into_iter().flatten().collect();
        let sum = |name: &str| channels.iter().map(|channel| channel[name].as_u64()).sum();
        let is_on = |part: &&Value| part["active"] == true;
        let associations = |of: &Value| of["sa_list"].as_array().cloned().unwrap_or_default();
        let sending_with = own("encoding_sa")?;
        let key = associations(device)
            .iter()
            .find(|one| one["an"] == sending_with && is_on(one))
            .and_then(|one| one["key"].as_str().map(str::to_owned));
        let receiving_from = channels
            .iter()
            .filter(|channel| associations(channel).iter().any(|one| is_on(&one)))
            .count();
        let add = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Some(Self {
            sending_with: sending_with.try_into().ok()?,
            key,
            receiving_from,
            sent: add(own("OutPktsProtected"), own("OutPktsEncrypted"))?,
            ok: sum("InPktsOK")?,
            not_valid: sum("InPktsNotValid")?,
            invalid: sum("InPktsInvalid")?,
            late: sum("InPktsLate")?,
            delayed: sum("InPktsDelayed")?,
            bad_tag: own("InPktsBadTag")?,
            no_tag: own("InPktsNoTag")?,
            unknown_channel: add(own("InPktsUnknownSCI"), own("InPktsNoSCI"))?,
            unused_association: add(sum("InPktsNotUsingSA"), sum("InPktsUnusedSA"))?,
        })
    }

    /// Counters of refused frames that are not zero, by the standard's names.
    pub fn refused(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("InPktsNotValid", self.not_valid),
            ("InPktsInvalid", self.invalid),
            ("InPktsLate", self.late),
            ("InPktsDelayed", self.delayed),
            ("InPktsBadTag", self.bad_tag),
            ("InPktsUnknownSCI or InPktsNoSCI", self.unknown_channel),
            ("InPktsNotUsingSA or InPktsUnusedSA", self.unused_association),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// The outcome of pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pings {
    /// Number of requests sent.
    pub sent: u32,
    /// Number of requests that were answered.
    pub answered: u32,
    /// Number of answers beyond the first of a request: every other endpoint answers a broadcast.
    pub more: u32,
}

impl Pings {
    /// Reads a line like `3 packets transmitted, 3 packets received, 2 duplicates, 0% packet loss`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.contains("packets transmitted"))?;
        let number = |what: &str| {
            let part = line.split(", ").find(|part| part.ends_with(what))?;
            part.split(' ').next()?.trim_start_matches('+').parse().ok()
        };
        Some(Self {
            sent: number("packets transmitted")?,
            answered: number("packets received")?,
            more: number("duplicates").unwrap_or(0),
        })
    }

    /// Whether every request was answered.
    pub fn all(&self) -> bool {
        self.sent == self.answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of Debian's `ip` of 2022 with two channels, shortened.
    const SHOWN: &str = r#"[{"ifindex":2,"ifname":"macsec0","encoding_sa":1,"InPktsNoTag":7,
        "InPktsBadTag":0,"InPktsUnknownSCI":1,"InPktsNoSCI":2,"OutPktsProtected":0,
        "OutPktsEncrypted":9,"sa_list":[{"an":0,"active":true,"key":"00"},
        {"an":1,"active":true,"key":"01"}],"rx_sc":[
        {"sci":"0x1","active":true,"InPktsDelayed":0,"InPktsOK":4,"InPktsInvalid":0,"InPktsLate":0,
        "InPktsNotValid":1,"InPktsNotUsingSA":0,"InPktsUnusedSA":0,"sa_list":[{"an":0,"active":true}]},
        {"sci":"0x2","active":true,"InPktsDelayed":0,"InPktsOK":5,"InPktsInvalid":0,"InPktsLate":3,
        "InPktsNotValid":1,"InPktsNotUsingSA":0,"InPktsUnusedSA":0,"sa_list":[]}]}]"#;

    #[test]
    fn counters_are_those_of_all_channels() {
        let counters = MacsecCounters::read(SHOWN).unwrap();
        assert_eq!((counters.sending_with, counters.key.as_deref()), (1, Some("01")));
        assert_eq!((counters.receiving_from, counters.sent, counters.ok), (1, 9, 9));
        let refused =
            [("InPktsNotValid", 2), ("InPktsLate", 3), ("InPktsUnknownSCI or InPktsNoSCI", 3)];
        assert_eq!(counters.refused(), refused);
        assert_eq!(MacsecCounters::read("[]"), None);
        assert_eq!(MacsecCounters::read(&SHOWN.replace("InPktsLate", "X")), None);
    }

    #[test]
    fn pings_are_counted_with_answers_of_many() {
        let read = |text| Pings::read(text).unwrap();
        let text = "3 packets transmitted, 2 packets received, 33% packet loss";
        assert_eq!(read(text), Pings { sent: 3, answered: 2, more: 0 });
        assert!(!read(text).all());
        let text = "--\n2 packets transmitted, 2 packets received, 2 duplicates, 0% packet loss\n";
        assert_eq!(read(text), Pings { sent: 2, answered: 2, more: 2 });
        assert_eq!(Pings::read("ping: bad address"), None);
    }

    #[test]
    fn keys_are_as_long_as_the_suite_wants_and_differ() {
        let macsec = Macsec { suite: Suite::Xpn256, ..Macsec::default() };
        let one = macsec.association(End::A, 0);
        assert_eq!(one.split(' ').next_back().unwrap().len(), 64);
        assert_ne!(one, macsec.association(End::B, 0));
        assert_ne!(one, macsec.association(End::A, 1));
    }
}
