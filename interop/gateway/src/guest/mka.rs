//! MKA (IEEE 802.1X) between the guest's ends, by wpa_supplicant.

use super::macsec::{MacsecCounters, address};
use super::{End, Guest};
use crate::Failure;
use std::thread;
use std::time::{Duration, Instant};

/// MKA tells that it lives every two seconds, and three silent periods are a peer's end (IEEE
/// 802.1X-2020, Table 9-3); the guest's processor is slow.
const PATIENCE: Duration = Duration::from_secs(30);
/// A little more than MKA's life time of six seconds, in which a key server hands out no second key.
const LIFE: Duration = Duration::from_secs(8);
/// wpa_supplicant's key server forgets a key that it must not hand out yet, and with three members
/// that happens over a bridge as well. Then all have to come anew.
const ATTEMPTS: u32 = 4;

impl Guest {
    /// MKA with a pre-shared CAK at every end, until each has agreed with all others. How many
    /// attempts it took.
    ///
    /// # Errors
    /// When they do not agree in four attempts, or something else fails.
    pub fn start_mka(&mut self) -> Result<u32, Failure> {
        self.must(&format!(
            "cat > /tmp/mka.conf <<END\neapol_version=3\nap_scan=0\nnetwork={{\nkey_mgmt=NONE\n\
             eapol_flags=0\nmacsec_policy=1\nmacsec_replay_protect=1\nmacsec_replay_window=64\n\
             mka_cak={}\nmka_ckn={}\n}}\nEND\n",
            "0123456789abcdef".repeat(2),
            "6162636465666768".repeat(4)
        ))?;
        let ends: Vec<_> = self.ends().collect();
        let attempts = attempts(|_| {
            self.stop_macsec()?;
            self.must(&ends[..2].iter().copied().map(supplicant).collect::<String>())?;
            self.await_mka(&ends[..2], agreed)?;
            for members in 3..=ends.len() {
                thread::sleep(LIFE);
                self.must(&supplicant(ends[members - 1]))?;
                self.await_mka(&ends[..members], agreed)?;
            }
            Ok(())
        })?;
        for end in ends {
            self.must(&address(end.name(), end))?;
        }
        Ok(attempts)
    }

    /// Ends MKA at one end, not the first, and begins it again there. A member that is new makes the
    /// key server hand out a new key, under another association number. How many attempts it took.
    ///
    /// # Errors
    /// When the ends do not agree again in four attempts, or something else fails.
    pub fn rejoin_mka(&mut self, end: End) -> Result<u32, Failure> {
        let ends: Vec<_> = self.ends().collect();
        let others: Vec<_> = ends.iter().copied().filter(|other| *other != end).collect();
        let attempts = attempts(|number| {
            if number > 1 {
                self.start_mka()?;
            }
            let before = self.counters(End::A)?.key;
            self.must(&format!("kill $(cat /tmp/mka-{}.pid)", end.name()))?;
            // Until its former self is forgotten the others take it for an impostor.
            self.await_mka(&others, |all| {
                all.iter().all(|one| one.receiving_from + 1 == others.len())
            })?;
            thread::sleep(LIFE);
            self.must(&supplicant(end))?;
            self.await_mka(&ends, |all| agreed(all) && all[0].key != before)
        })?;
        self.must(&address(end.name(), end))?;
        Ok(attempts)
    }

    /// Waits until what the kernel has counted at `members` is as it should be.
    fn await_mka(
        &mut self,
        members: &[End],
        is_so: impl Fn(&[MacsecCounters]) -> bool,
    ) -> Result<(), Trouble> {
        let started = Instant::now();
        loop {
            // Before an end has heard of the others it has no MACsec.
            let all: Vec<_> =
                members.iter().map(|end| self.counters(*end).unwrap_or_default()).collect();
            if is_so(&all) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                let said = self.run("tail -n 3 /tmp/mka-*.log")?.text;
                let said = said.replace('\n', "; ");
                return Err(Trouble::Disagreement(format!("MKA does not agree: {said}")));
            }
            thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Why an attempt did not go well.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trouble {
    /// The members do not agree, as wpa_supplicant's at times do not.
    Disagreement(String),
    /// Anything else: no other attempt would be better.
    Failed(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What starts MKA at an end; the interface comes with it.
fn supplicant(end: End) -> String {
    let at = end.name();
    format!(
        "ip netns exec {at} wpa_supplicant -B -i eth0 -D macsec_linux -c /tmp/mka.conf \
         -P /tmp/mka-{at}.pid -f /tmp/mka-{at}.log\n"
    )
}

/// Whether all send with one key and receive from all others.
fn agreed(all: &[MacsecCounters]) -> bool {
    all.iter().all(|one| {
        one.receiving_from + 1 == all.len() && one.key.is_some() && one.key == all[0].key
    })
}

/// Which attempt went well, of those that end in disagreement.
fn attempts(mut attempt: impl FnMut(u32) -> Result<(), Trouble>) -> Result<u32, Failure> {
    let mut number = 1;
    loop {
        match attempt(number) {
            Ok(()) => return Ok(number),
            Err(Trouble::Disagreement(_)) if number < ATTEMPTS => number += 1,
            Err(Trouble::Disagreement(why)) => return Err(Failure::Broken(why)),
            Err(Trouble::Failed(failure)) => return Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disagrees_is_tried_again_so_often() {
        let no = || Err(Trouble::Disagreement("no".into()));
        let mut left = ATTEMPTS;
        let mut all_but_the_last = |_| {
            left -= 1;
            if left == 0 { Ok(()) } else { no() }
        };
        assert_eq!(attempts(&mut all_but_the_last), Ok(ATTEMPTS));
        let mut times = 0;
        let always = |_| {
            times += 1;
            no()
        };
        assert_eq!(attempts(always), Err(Failure::Broken("no".into())));
        assert_eq!(times, ATTEMPTS);
    }

    #[test]
    fn what_is_broken_is_not_tried_again() {
        let mut times = 0;
        let broken = |_| {
            times += 1;
            Err(Failure::Broken("the guest is gone".into()).into())
        };
        assert_eq!(attempts(broken), Err(Failure::Broken("the guest is gone".into())));
        assert_eq!(times, 1);
    }

    #[test]
    fn ends_agree_that_have_one_key_and_hear_all_others() {
        let end = |key: &str, receiving_from| MacsecCounters {
            key: Some(key.into()),
            receiving_from,
            ..MacsecCounters::default()
        };
        assert!(agreed(&[end("1", 1), end("1", 1)]));
        assert!(!agreed(&[end("1", 1), end("2", 1)]));
        assert!(!agreed(&[end("1", 1), end("1", 0)]));
        let without_key = || MacsecCounters { receiving_from: 1, ..MacsecCounters::default() };
        assert!(!agreed(&[without_key(), without_key()]));
    }
}
