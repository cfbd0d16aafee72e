//! Which settings can change while a gateway runs.

use super::Config;

impl Config {
    /// The first setting that differs in `new` and cannot change while the gateway runs, since it
    /// is used only when sockets are opened and privileges are given up. All other settings take
    /// effect when the configuration is read again.
    pub fn first_fixed_change(&self, new: &Self) -> Option<&'static str> {
        let (gateway, lan, underlay) = (&self.gateway, &self.lan, &self.underlay);
        let settings = [
            ("[gateway] name", gateway.name == new.gateway.name),
            ("[gateway] state", self.state() == new.state()),
            ("[gateway] user", gateway.user == new.gateway.user),
            // The AF_XDP program depends on it. Packet sockets receive all frames, so that the
            // frames that are not carried are counted.
            ("[gateway] allow", gateway.allow == new.gateway.allow),
            ("[lan] interface", lan.interface == new.lan.interface),
            ("[lan] io", lan.io == new.lan.io),
            ("[lan] queues", lan.queues == new.lan.queues),
            ("[underlay] listen", underlay.listen == new.underlay.listen),
            ("[underlay] io", underlay.io == new.underlay.io),
            ("[underlay] interface", underlay.interface == new.underlay.interface),
            ("[metrics]", self.metrics == new.metrics),
        ];
        settings.into_iter().find_map(|(name, same)| (!same).then_some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::SAMPLE;
    use super::*;

    #[test]
    fn peers_and_limits_may_change_and_sockets_not() {
        let sample = Config::parse("a", SAMPLE).unwrap();
        let with = |from: &str, to: &str| {
            assert!(SAMPLE.contains(from), "{from}");
            sample.first_fixed_change(&Config::parse("a", &SAMPLE.replace(from, to)).unwrap())
        };
        assert_eq!(sample.first_fixed_change(&sample), None);
        for (from, to) in [
            ("\"plant-b\"", "\"plant-c\""),
            ("b.example.org", "c.example.org"),
            ("plant-a.key", "plant-c.key"),
            ("#flows = 65536", "flows = 16"),
            ("#busy_wait_us = 100", "busy_wait_us = 0"),
            ("#mka = \"tunnel\"", "mka = \"drop\""),
            ("#scheme = \"sealed\"", "scheme = \"identifier\""),
        ] {
            assert_eq!(with(from, to), None, "{to}");
        }
        for (from, to, name) in [
            ("\"plant-a\"", "\"plant-c\"", "[gateway] name"),
            ("#allow = []", "allow = [\"arp\"]", "[gateway] allow"),
            ("\"eth1\"", "\"eth2\"", "[lan] interface"),
            ("#queues = 1", "queues = 2", "[lan] queues"),
            ("#listen = \"[::]:8885\"", "listen = \"[::]:8886\"", "[underlay] listen"),
            ("#[metrics]\n#listen", "[metrics]\nlisten", "[metrics]"),
        ] {
            assert_eq!(with(from, to), Some(name), "{to}");
        }
    }
}
