//! MKA (IEEE 802.1X) between the guest's endpoints, by wpa_supplicant.

use super::macsec::{MacsecCounters, address};
use super::{End, Guest};
use crate::Failure;
use std::thread;
use std::time::{Duration, Instant};

/// How long MKA may take to agree. A member sends an MKPDU every two seconds, and a peer that is
/// silent for three such periods is gone (IEEE 802.1X-2020, Table 9-3); the guest's processor is
/// slow.
const PATIENCE: Duration = Duration::from_secs(30);
/// A little more than MKA's life time of six seconds, in which a key server distributes no second
/// key.
const LIFE: Duration = Duration::from_secs(8);
/// Number of attempts to agree. wpa_supplicant's key server sometimes loses a key that it must not
/// distribute yet. With three members that happens over a plain bridge as well. Then all members
/// must start again.
const ATTEMPTS: u32 = 4;

impl Guest {
    /// Starts MKA with a pre-shared CAK at every endpoint and waits until all have agreed. Returns
    /// the number of attempts.
    ///
    /// # Errors
    /// They do not agree in four attempts, or something else fails.
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

    /// Ends MKA at one endpoint other than the first, and starts it again there. The new member
    /// makes the key server distribute a new key under another association number. Returns the
    /// number of attempts.
    ///
    /// # Errors
    /// The endpoints do not agree again in four attempts, or something else fails.
    pub fn rejoin_mka(&mut self, end: End) -> Result<u32, Failure> {
        let ends: Vec<_> = self.ends().collect();
        let others: Vec<_> = ends.iter().copied().filter(|other| *other != end).collect();
        let attempts = attempts(|number| {
            if number > 1 {
                self.start_mka()?;
            }
            let before = self.counters(End::A)?.key;
            self.must(&format!("kill $(cat /tmp/mka-{}.pid)", end.name()))?;
            // Until the others have forgotten its earlier instance, they refuse the new one.
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

    /// Waits until `is_so` holds for the kernels' counters at `members`.
    fn await_mka(
        &mut self,
        members: &[End],
        is_so: impl Fn(&[MacsecCounters]) -> bool,
    ) -> Result<(), Trouble> {
        let started = Instant::now();
        loop {
            // An endpoint has no MACsec until it has heard of the others.
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

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trouble {
    /// The members did not agree, which happens with wpa_supplicant from time to time.
    Disagreement(String),
    /// Any other failure, for which another attempt would not help.
    Failed(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The command that starts MKA at an endpoint. wpa_supplicant also makes the MACsec interface.
fn supplicant(end: End) -> String {
    let at = end.name();
    format!(
        "ip netns exec {at} wpa_supplicant -B -i eth0 -D macsec_linux -c /tmp/mka.conf \
         -P /tmp/mka-{at}.pid -f /tmp/mka-{at}.log\n"
    )
}

/// Whether all endpoints send with one key and each receives from all others.
fn agreed(all: &[MacsecCounters]) -> bool {
    all.iter().all(|one| {
        one.receiving_from + 1 == all.len() && one.key.is_some() && one.key == all[0].key
    })
}

/// Repeats `attempt` while it ends in disagreement, up to [`ATTEMPTS`] times. Returns the number of
/// the attempt that succeeded.
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
