//! The Engset loss formula for a finite number of sources and of servers, without a queue.

/// Clients that come and go at a server with few session slots: M/M/R/R/N in Kendall's notation. A
/// client that is refused becomes idle again, as if it had made no attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Engset {
    /// R: the number of session slots of the server.
    pub slots: u64,
    /// N: the number of clients.
    pub clients: u64,
    /// ρ = λ/μ: the mean duration of a session divided by that of a client's idle time.
    pub load: f64,
}

impl Engset {
    /// The share of time in which all slots are taken, from 0 to 1. It is the paper's `P_B`.
    ///
    /// It equals w(R) / (w(0) + … + w(R)) with w(i) = C(N, i) ρ^i.
    pub fn time_congestion(&self) -> f64 {
        blocking(self.slots, self.clients, self.load)
    }

    /// The share of attempts that find all slots taken, from 0 to 1. It is the time congestion with
    /// the other N − 1 clients.
    pub fn call_congestion(&self) -> f64 {
        match self.clients.checked_sub(1) {
            Some(others) => blocking(self.slots, others, self.load),
            None => 0.0,
        }
    }

    /// The mean number of taken slots.
    pub fn mean_taken(&self) -> f64 {
        self.distribution().iter().map(|(taken, chance)| *taken as f64 * chance).sum()
    }

    /// The probability that i slots are taken, for every i for which it is distinguishable from 0.
    pub(super) fn distribution(&self) -> Vec<(u64, f64)> {
        let Self { slots, clients, load } = *self;
        let most = slots.min(clients);
        // The most probable number. Probabilities decrease on both sides of it.
        let middle = ((clients as f64 + 1.0) * load / (1.0 + load)).floor().min(most as f64) as u64;
        let up = |taken: u64| (clients - taken) as f64 * load / (taken as f64 + 1.0);
        let told = |(_, weight): &(u64, f64)| *weight > f64::EPSILON * f64::EPSILON;
        let mut weight = 1.0;
        let below = (0..middle).rev().map(|taken| {
            weight /= up(taken);
            (taken, weight)
        });
        let mut all: Vec<_> = below.take_while(told).collect();
        all.reverse();
        let mut weight = 1.0;
        let above = (middle..=most).map(|taken| {
            let this = (taken, weight);
            weight *= up(taken);
            this
        });
        all.extend(above.take_while(told));
        let sum: f64 = all.iter().map(|(_, weight)| weight).sum();
        all.into_iter().map(|(taken, weight)| (taken, weight / sum)).collect()
    }
}

/// The time congestion, by recursion over the slots on the reciprocal:
/// 1/B(i) = 1 + i / ((N − i + 1) ρ) / B(i − 1). All terms are positive, so each step adds only one or two rounding errors.
/// Where the reciprocal overflows, the congestion is below 10^-308.
fn blocking(slots: u64, clients: u64, load: f64) -> f64 {
    if slots > clients {
        return 0.0;
    }
    let step = |reciprocal: f64, slot: u64| {
        let offered = (clients - slot + 1) as f64 * load;
        1.0 + slot as f64 / offered * reciprocal
    };
    1.0 / (1..=slots).fold(1.0, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::math;

    const fn engset(slots: u64, clients: u64, load: f64) -> Engset {
        Engset { slots, clients, load }
    }

    /// The example in section IV of the paper.
    #[test]
    fn the_papers_example_is_time_congestion() {
        let example = engset(3, 5, 0.5);
        // 1.25 / 7.25 for time congestion, and 0.5 / 5 of the four other clients for call
        // congestion.
        assert!((example.time_congestion() - 5.0 / 29.0).abs() < 1e-15);
        assert!((example.call_congestion() - 0.1).abs() < 1e-15);
        assert_eq!((100.0 * example.time_congestion()).round(), 17.0);
    }

    /// The sums of the formula, exactly in integers, for ρ = p/q.
    fn exact(slots: u64, clients: u64, p: u128, q: u128) -> f64 {
        let mut binomial = 1u128;
        let (mut sum, mut last) = (0, 0);
        for i in 0..=slots {
            if i > 0 {
                binomial = binomial * u128::from((clients + 1).saturating_sub(i)) / u128::from(i);
            }
            last = binomial * p.pow(i as u32) * q.pow((slots - i) as u32);
            sum += last;
        }
        last as f64 / sum as f64
    }

    #[test]
    fn the_recursion_is_the_sum() {
        for clients in 0..=20 {
            for slots in 0..=20 {
                for (p, q) in [(1, 10), (1, 2), (1, 1), (7, 3)] {
                    let formula = engset(slots, clients, p as f64 / q as f64);
                    let sum = exact(slots, clients, p, q);
                    let error = (formula.time_congestion() - sum).abs();
                    assert!(error <= 1e-14 * sum, "{formula:?}: {sum}");
                }
            }
        }
    }

    /// The formula as a series: 1/B is the sum of the products of R/((N − R + 1) ρ), (R − 1)/((N −
    /// R + 2) ρ), and so on.
    fn series(slots: u64, clients: u64, load: f64) -> f64 {
        let (mut term, mut sum) = (1.0, 1.0);
        for i in 0..slots {
            term *= (slots - i) as f64 / ((clients - slots + 1 + i) as f64 * load);
            sum += term;
        }
        1.0 / sum
    }

    #[test]
    fn many_clients_are_no_trouble() {
        for load in [0.01, 0.1, 0.111, 0.12, 1.0, 50.0] {
            let (slots, clients) = (100_000, 1_000_000);
            let time = engset(slots, clients, load).time_congestion();
            let sum = series(slots, clients, load);
            assert!((time - sum).abs() <= 1e-9 * sum, "ρ = {load}: {time} and {sum}");
            assert!((0.0..1.0).contains(&time));
        }
        // The load is so high that each slot is taken again at once: B is about 1 − R / (Nρ).
        let crowded = engset(100_000, 1_000_000, 1.0).time_congestion();
        assert!((crowded - (1.0 - 1.0 / 9.0)).abs() < 1e-4, "{crowded}");
        assert_eq!(engset(100_000, 1_000_000, 1e-9).time_congestion(), 0.0, "below any f64");
    }

    /// With infinitely many sources whose load tends to 0, the formula becomes Erlang's B formula:
    /// B(3, 2.5) = 0.2822.
    #[test]
    fn many_sources_of_little_load_are_erlangs() {
        let engset = engset(3, 1_000_000, 2.5e-6);
        assert!((engset.time_congestion() - 0.282_162).abs() < 1e-5);
        assert!((engset.call_congestion() - engset.time_congestion()).abs() < 1e-5);
    }

    #[test]
    fn the_ends_of_the_scale() {
        // Where each client has a slot, no attempt is refused, and yet all slots may be taken.
        let all = engset(5, 5, 0.5);
        assert_eq!(all.call_congestion(), 0.0);
        assert!((all.time_congestion() - math::powi(1.0 / 3.0, 5)).abs() < 1e-16);
        assert_eq!(engset(6, 5, 0.5).time_congestion(), 0.0);
        let none = engset(0, 5, 0.5);
        assert_eq!((none.time_congestion(), none.call_congestion()), (1.0, 1.0));
        let nobody = engset(3, 0, 0.5);
        assert_eq!((nobody.time_congestion(), nobody.call_congestion()), (0.0, 0.0));
        let idle = engset(3, 5, 0.0);
        assert_eq!((idle.time_congestion(), idle.call_congestion()), (0.0, 0.0));
        assert!(engset(3, 5, 1e300).time_congestion() > 0.999);
    }

    /// The last probability is the time congestion. In equilibrium as many sessions begin as end: λ
    /// (N − i) without the refused ones equals μ i.
    #[test]
    fn the_distribution_agrees_with_the_formula() {
        for formula in [
            engset(3, 5, 0.5),
            engset(9, 4, 2.0),
            engset(100, 1000, 0.2),
            engset(10_000, 100_000, 0.11),
            engset(10_000, 100_000, 0.01),
        ] {
            let states = formula.distribution();
            let full = states.last().filter(|(taken, _)| *taken == formula.slots);
            let chance = full.map_or(0.0, |(_, chance)| *chance);
            assert!((chance - formula.time_congestion()).abs() < 1e-12, "{formula:?}");
            let come = formula.load * (formula.clients as f64 - formula.mean_taken());
            let stay = come * (1.0 - formula.call_congestion());
            assert!((stay / formula.mean_taken() - 1.0).abs() < 1e-10, "{formula:?}");
        }
    }
}
