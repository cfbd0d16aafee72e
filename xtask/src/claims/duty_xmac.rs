//! X-MAC under loss, reckoned by hand: the duration of tinydtls's handshake that follows from the
//! rules of the MAC and of its timers alone. This model uses no code of the lab; the claim compares
//! the two.
//!
//! # The MAC
//!
//! A node listens for 6.25 ms in each check interval *T*. A sender that knows the receiver's
//! schedule begins 12.5 ms before and repeats its strobe every 7/8 of 6.25 ms, so that one strobe
//! falls into the listening period (Contiki's `cxmac.c`: `DEFAULT_STROBE_WAIT_TIME`). With a
//! delivery ratio *p*:
//!
//! - the strobe is lost with probability 1 − *p*, and the next chance is one *T* later; strobes go
//!   on until then, and after them the sender tries again within a *T*. A frame waits for another Σ
//!   (1 − *p*)^*k* = (1 − *p*)/*p* intervals;
//! - a receiver that has heard a strobe stays awake, so a lost acknowledgement costs strobes, not
//!   intervals. The first acknowledgement is lost with probability 1 − *p*, and after that a strobe
//!   and its acknowledgement must both arrive: another (1 − *p*)/*p*² strobes;
//! - the data frame is not acknowledged: it is lost with probability 1 − *p*, and only a DTLS timer
//!   repairs that.
//!
//! # The handshake
//!
//! The handshake has ten frames. The listening periods of the two ends are at random. The client's
//! first frame waits for *T*/2 on average; the next three frames together wait for *T* less the
//! distance between the two listening periods, and for that distance; the other waiting times
//! follow from the queue of one frame an interval. The sum is 7 *T* on average. All ten frames are
//! needed, so each adds the MAC's two terms once. Timers of 2 s, doubled after each loss, add to
//! that, after *k* losses 2 s · (2^*k* − 1):
//!
//! - **first hello and HelloVerifyRequest**: the client repeats its hello until both have arrived,
//!   each try with probability *p*²;
//! - **second hello**: each try succeeds with probability *p*;
//! - **ServerHello and ServerHelloDone**: each record has a timer of its own, so the later of the
//!   two counts. If that is the first record, the handshake continues one *T* earlier than if it is
//!   the second;
//! - **ClientKeyExchange, ChangeCipherSpec, Finished**: sent in one round, and all three again in
//!   the next, because nothing has arrived from the server. The server accepts them in order only,
//!   and keeps those that it has accepted: a Markov chain of three states;
//! - **ChangeCipherSpec and Finished of the server**: never sent again. Handshakes in which one is
//!   lost (probability 1 − *p*²) never end and count in no mean.
//!
//! # Another simulator's times
//!
//! At 500 ms another simulator had 1.3, 1.3 and 2.3 times the lab's 4.5, 5.9 and 11.1 s at delivery
//! ratios of 95, 90 and 80 %. At that time the lab's strobes were 2.3 ms apart, two in a listening
//! period, so that a lost strobe cost nothing. With that mistake corrected, the lab's times are
//! 1.05 times as long. The MAC does not explain the rest. Variants of the rules above show what
//! could explain it: a server that answers a repeated last flight (its late handshakes then count)
//! takes 1.04, 1.07 and 1.2 times as long, a timer that keeps its back-off from flight to flight
//! 1.01, 1.08 and 1.4 times. tinydtls does neither. All three effects together come to 1.1, 1.3 and
//! 1.9 times. The other simulator is not available, so which of them it has is not known.

use super::duty::handshake;
use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Largest deviation, in %, of tinydtls's simulated handshake time over lossy X-MAC from a \
            model reckoned by hand: delivery ratios 95, 90 and 80 %, check intervals 125 and 500 \
            ms. Bar: an estimate of what the model leaves out"
            // The model leaves out answers that are late by two intervals and make timers fire
            // needlessly, the duration of frames on the air (10 ms), and nodes that strobe while they
            // should listen. At 80 % the statistical error of 40 000 handshakes is another 1.3 %.
            .claim("duty-xmac-loss", AtMost(5.0), Seconds(60))
            .by(simulated()),
    ]
}

/// tinydtls's first retransmission timeout, in seconds.
const TIMEOUT: f64 = 2.0;
/// How many times tinydtls sends a record at most.
const SENDINGS: u32 = 8;

/// Time from one strobe to the next, in seconds.
const STROBE_PERIOD: f64 = 7.0 / 8.0 * 6.25e-3;

const FRAMES: f64 = 10.0;

/// Average duration of a handshake without loss, in check intervals.
const INTERVALS: f64 = 7.0;

/// Seconds that retransmission timers add after this number of losses.
fn timers(losses: u32) -> f64 {
    TIMEOUT * (f64::from(1_u32 << losses) - 1.0)
}

/// The probabilities of 0, 1, 2 ... losses before the first success, if each of [`SENDINGS`] tries
/// is lost with probability `loss` and one of them succeeds.
fn losses(loss: f64) -> Vec<f64> {
    let all: Vec<f64> = (0..SENDINGS).map(|count| loss.powi(count as i32) * (1.0 - loss)).collect();
    let sum: f64 = all.iter().sum();
    all.into_iter().map(|one| one / sum).collect()
}

fn expected(weights: &[f64], value: impl Fn(u32) -> f64) -> f64 {
    (0..).zip(weights).map(|(count, weight)| weight * value(count)).sum()
}

/// Seconds that timers add for a flight of two records: the later record counts, and the first one
/// arrives an interval before the second.
fn two_records(loss: f64, interval: f64) -> f64 {
    let each = losses(loss);
    expected(&each, |first| {
        let earlier = |second| if first > second { interval } else { 0.0 };
        expected(&each, |second| timers(first.max(second)) - earlier(second))
    })
}

/// Seconds that timers add for a flight of three records that the server accepts in order only.
fn three_in_order(delivery: f64) -> f64 {
    let (p, loss) = (delivery, 1.0 - delivery);
    // Probabilities that none, the first, and the first two have been accepted.
    let mut taken = [1.0, 0.0, 0.0];
    let (mut sum, mut ended) = (0.0, 0.0);
    for round in 0..SENDINGS {
        let [none, one, two] = taken;
        let ends = none * p.powi(3) + one * p.powi(2) + two * p;
        sum += ends * timers(round);
        ended += ends;
        taken = [
            none * loss,
            none * p * loss + one * loss,
            none * p * p * loss + one * p * loss + two * loss,
        ];
    }
    sum / ended
}

/// Mean seconds of a handshake that ends.
fn by_hand(delivery: f64, interval: f64) -> f64 {
    let loss = 1.0 - delivery;
    let mac = loss / delivery * interval + loss / delivery.powi(2) * STROBE_PERIOD;
    INTERVALS * interval
        + FRAMES * mac
        + expected(&losses(1.0 - delivery.powi(2)), timers)
        + expected(&losses(loss), timers)
        + two_records(loss, interval)
        + three_in_order(delivery)
}

fn simulated() -> Reading {
    let cases = [125.0, 500.0].map(|interval| [0.95, 0.9, 0.8].map(|share| (interval, share)));
    let runs = cases.into_iter().flatten().map(|(interval_ms, delivery)| {
        let link = format!("x-mac,check_interval_ms={interval_ms}");
        let run = handshake(&link, "tinydtls", &format!("--delivery {delivery} --runs 40000"));
        let hand = by_hand(delivery, interval_ms / 1e3);
        (json!({ "link": link, "delivery": delivery, "by_hand": hand }), run)
    });
    let found = |what: &str| format!("found/profiles/tinydtls/{what}");
    let (seconds, error) = (found("duration_s"), found("duration_error_s"));
    let (off, ended) = (format!("100 * {seconds} / by_hand - 100"), found("success_percent"));
    read(series(runs))
        .each(
            "runs[]",
            format!(
                "{{link}}, {{100 * delivery:.0}} %: {{{seconds}:.3}} ± {{{error}:.3}} s, \
                 {{by_hand:.3}} s by hand, {{{off}:+.1}} %; {{{ended}:.1}} % completed, {{100 * \
                 delivery * delivery:.1}} % by hand"
            ),
        )
        .reduced(greatest, "runs[]", format!("|{off}|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_loss_there_are_seven_intervals() {
        assert!((by_hand(1.0, 0.5) - 3.5).abs() < 1e-12);
    }

    /// For rare losses the extra time is the sum over single losses, each weighted by its
    /// probability.
    #[test]
    fn rare_losses_add_up() {
        let loss = 1e-6;
        let share = (by_hand(1.0 - loss, 0.5) - 3.5) / loss;
        // Ten strobes and acknowledgements; 2 s for each of the eight data frames that are sent
        // again, less an interval if the frame is ServerHello.
        let expected = 10.0 * (0.5 + STROBE_PERIOD) + 8.0 * TIMEOUT - 0.5;
        assert!((share - expected).abs() < 1e-3, "{share} {expected}");
    }

    #[test]
    fn three_in_order_are_what_counting_every_course_gives() {
        // Two rounds, each with the eight ways in which three records can be delivered or lost.
        let p: f64 = 0.9;
        let weight = |course: u32| {
            (0..3)
                .map(|record| if course >> record & 1 == 1 { p } else { 1.0 - p })
                .product::<f64>()
        };
        let take = |taken: u32, course: u32| {
            (0..3).fold(taken, |taken, record| {
                taken + u32::from(record == taken && course >> record & 1 == 1)
            })
        };
        let mut ends = [0.0; 2];
        for first in 0..8 {
            let after = take(0, first);
            match after {
                3 => ends[0] += weight(first),
                _ => (0..8).filter(|second| take(after, *second) == 3).for_each(|second| {
                    ends[1] += weight(first) * weight(second);
                }),
            }
        }
        let direct = ends[1] * TIMEOUT;
        // The model also has later rounds, which end after 6 s and more.
        let rest = 1.0 - ends[0] - ends[1];
        let model = three_in_order(p);
        assert!(model > direct + rest * 6.0 && model < direct + rest * 9.0, "{model} {direct}");
    }
}
