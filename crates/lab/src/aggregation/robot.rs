//! A sender that moves, and whose tag parameters adapt to the loss rate (Wagner et al., section
//! IV-D).

use crate::Error;
use crate::parallel::parallel;
use crate::stream::loss::{Loss, LossyLink, unit};
use crate::stream::{Accounting, Direction, Log, Stream, goodput, run};
use core::time::Duration;
use lightseal_core::{Random, math};
use lightseal_dtls::{Adapt, AdaptRule, Family};

/// Messages sent in a second.
pub const PER_SECOND: u32 = 10;

/// Payload of each message, in bytes.
pub const PAYLOAD_BYTES: usize = 30;

/// Number of messages in a running average, as in the paper.
pub const WINDOW: usize = 200;

/// Duration of the whole course in minutes: away from the receiver for 15, back in 1, a pause of 5,
/// and away again for 15.
pub const COURSE_MINUTES: f64 = OUTWARD_MINUTES + RETURN_MINUTES + PAUSE_MINUTES + OUTWARD_MINUTES;
const OUTWARD_MINUTES: f64 = 15.0;
const RETURN_MINUTES: f64 = 1.0;
const PAUSE_MINUTES: f64 = 5.0;

/// The nearest and the farthest distance of the robot from the receiver, in metres.
const NEAR: f64 = 1.9;
const FAR: f64 = 13.2;

/// Mean number of packets lost in a row. It is above 1 because other 802.11 networks interfere.
const BURST: f64 = 1.3;

/// The robot's distance from the receiver, in metres, this many minutes after its start.
pub fn distance(minutes: f64) -> f64 {
    let leg = minutes % (OUTWARD_MINUTES + RETURN_MINUTES + PAUSE_MINUTES);
    let direction = if leg < OUTWARD_MINUTES {
        leg / OUTWARD_MINUTES
    } else {
        (1.0 - (leg - OUTWARD_MINUTES) / RETURN_MINUTES).max(0.0)
    };
    // It zigzags on its way out, a turn every half minute.
    let swing =
        if leg < OUTWARD_MINUTES { 0.4 * (4.0 * (leg.fract() - 0.5).abs() - 1.0) } else { 0.0 };
    (NEAR + direction * (FAR - NEAR) + swing).clamp(NEAR, FAR)
}

/// What obstructs the radio along the robot's course, and therefore how often packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossProfile {
    /// Loss that fits what the paper reports of its drives with adaptive parameters: hardly any up
    /// to 7 minutes away, up to 2 % in running averages farther away (R2D2 stays close to 80 %
    /// goodput there), and over 8 % for a short time at 10 minutes, where R2D2 changes to plain
    /// tags.
    Usual,
    /// Loss that explains the goodput of the paper's drive with plain tags, 57.0 %: 3 % of all
    /// packets. The paper's other drives cannot have had so high a loss rate.
    Harsh,
}

impl LossProfile {
    /// The two halls.
    pub const ALL: [Self; 2] = [Self::Usual, Self::Harsh];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Harsh => "harsh",
        }
    }

    /// The share of packets lost at a distance in metres, from 0 to 1: a constant share everywhere,
    /// more where the signal fades with distance, and most where an obstacle stands in the way.
    pub fn loss_rate(self, metres: f64) -> f64 {
        let (fading, middle, shadow, width) = match self {
            Self::Usual => (0.012, 8.6, 0.12, 0.15),
            Self::Harsh => (0.045, 9.0, 0.20, 0.40),
        };
        let fading = fading / (1.0 + math::exp(-(metres - middle) / 0.7));
        0.0015 + fading + shadow * math::exp(-math::powi((metres - 9.6) / width, 2))
    }
}

/// The robot's channel. All datagrams that are sent with a message are lost together with it.
#[derive(Debug)]
pub struct RobotChannel {
    profile: LossProfile,
    lost: Vec<bool>,
    back: Random,
}

impl RobotChannel {
    /// The course through a hall, with losses drawn from this seed.
    pub fn new(profile: LossProfile, seed: u64) -> Self {
        let mut random = Random::insecure(seed);
        let mut bad = false;
        let lost = (0..Self::messages()).map(|index| {
            let rate = profile.loss_rate(distance(minutes(index)));
            let leave = 1.0 / BURST;
            let chance = if bad { 1.0 - leave } else { leave * rate / (1.0 - rate) };
            bad = unit(&mut random) < chance;
            bad
        });
        Self { profile, lost: lost.collect(), back: random.fork() }
    }

    /// Number of messages sent on the course.
    pub const fn messages() -> usize {
        (COURSE_MINUTES * 60.0) as usize * PER_SECOND as usize
    }

    /// The share of packets lost in the [`WINDOW`] messages that end with each message, from the
    /// first complete window on.
    pub fn running_loss(&self) -> Vec<f64> {
        let windows = self.lost.windows(WINDOW);
        windows.map(|w| w.iter().filter(|lost| **lost).count() as f64 / WINDOW as f64).collect()
    }
}

/// When the message of this index is sent, in minutes after the start.
pub fn minutes(index: usize) -> f64 {
    index as f64 / f64::from(60 * PER_SECOND)
}

impl Loss for RobotChannel {
    fn loses(&mut self, at: Duration, direction: Direction, _: usize) -> bool {
        let index = (at.as_secs_f64() * f64::from(PER_SECOND)).round() as usize;
        match direction {
            Direction::ToReceiver => self.lost.get(index).is_some_and(|lost| *lost),
            Direction::ToSender => {
                unit(&mut self.back) < self.profile.loss_rate(distance(minutes(index)))
            }
        }
    }
}

/// A drive with plain tags, or with parameters that adapt.
#[derive(Clone, Debug)]
pub struct Drive {
    /// The family of schemes whose parameters adapt; `None` for plain tags throughout.
    pub family: Option<Family>,
    /// What happened to each message.
    pub log: Log,
}

impl Drive {
    /// Drives the same course with plain tags, with Agg and with R2D2.
    ///
    /// # Errors
    ///
    /// Fails when an association ends early.
    pub fn all(profile: LossProfile, rule: AdaptRule, seed: u64) -> Result<[Self; 3], Error> {
        let families = [None, Some(Family::Agg), Some(Family::R2d2)];
        let drives = parallel(families.len(), |i| Self::new(profile, families[i], rule, seed));
        let drives: Result<Vec<_>, _> = drives.into_iter().collect();
        drives?.try_into().map_err(|_| Error::Stream("the result of a drive is missing"))
    }

    fn new(
        profile: LossProfile,
        family: Option<Family>,
        rule: AdaptRule,
        seed: u64,
    ) -> Result<Self, Error> {
        let adapt = family.map(|family| Adapt::within(family).with_rule(rule));
        let stream = Stream {
            adapt,
            interval: Duration::from_secs(1) / PER_SECOND,
            seed,
            ..Stream::new(lightseal_dtls::Scheme::Plain, PAYLOAD_BYTES, RobotChannel::messages())
        };
        let mut air = LossyLink::new(RobotChannel::new(profile, seed), Accounting::Ours);
        Ok(Self { family, log: run(&stream, &mut air)? })
    }

    /// The delays until messages were verified, in seconds, ascending.
    pub fn delays(&self) -> Vec<f64> {
        let delivered = self.log.messages.iter().filter_map(|message| message.delivered);
        let mut delays: Vec<f64> = delivered.map(|delay| delay.time.as_secs_f64()).collect();
        delays.sort_by(f64::total_cmp);
        delays
    }

    /// The name in tables: `off`, `agg` or `r2d2`.
    pub fn name(&self) -> &'static str {
        self.family.map_or("off", Family::name)
    }

    /// Goodput over the [`WINDOW`] messages that end with each message, from the first complete
    /// window on.
    pub fn running_goodput(&self, accounting: Accounting) -> Vec<f64> {
        let windows = self.log.messages.windows(WINDOW);
        windows.map(|window| goodput(window, PAYLOAD_BYTES, accounting)).collect()
    }

    /// The ratio of this drive's goodput to that of `plain`, for each running average.
    pub fn running_gain(&self, plain: &Self, accounting: Accounting) -> Vec<f64> {
        let ours = self.running_goodput(accounting);
        let plain = plain.running_goodput(accounting);
        ours.into_iter().zip(plain).map(|(ours, plain)| ours / plain).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_course_is_the_papers() {
        assert_eq!(RobotChannel::messages(), 21_600);
        assert!(distance(0.1) < 3.0 && distance(14.9) > 12.5);
        assert!(distance(17.0) == NEAR && distance(20.9) == NEAR && distance(35.9) > 12.5);
        assert!(LossProfile::ALL.iter().all(|profile| profile.loss_rate(distance(6.0)) < 0.01));
        let share = |profile| {
            let course = RobotChannel::new(profile, 1);
            assert_eq!(course.lost, RobotChannel::new(profile, 1).lost);
            course.lost.iter().filter(|lost| **lost).count() as f64 / 21_600.0
        };
        assert!(
            (0.005..0.015).contains(&share(LossProfile::Usual)),
            "{}",
            share(LossProfile::Usual)
        );
        assert!(
            (0.025..0.036).contains(&share(LossProfile::Harsh)),
            "{}",
            share(LossProfile::Harsh)
        );
    }

    #[test]
    fn parameters_follow_and_gain() {
        let [plain, agg, r2d2] = Drive::all(LossProfile::Usual, AdaptRule::Hindsight, 3).unwrap();
        for drive in [&agg, &r2d2] {
            assert!(drive.log.schemes.len() > 4, "{:?}", drive.log.schemes);
            let [ours, base] = [drive, &plain].map(|d| d.log.goodput(Accounting::Ours));
            assert!(ours > 1.15 * base, "{ours} {base}");
        }
    }
}
