//! The phases of a service.

use crate::manager::{self, Notice};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the loop that does a service's work calls [`Lifecycle::beat`].
pub const BEAT: Duration = Duration::from_secs(1);

/// How long that loop may be silent before the service counts as stuck: ten beats, so that a busy
/// machine makes no service look dead.
const STUCK: Duration = Duration::from_secs(10);

/// What a service does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// It reads its files and opens its sockets.
    Starting,
    /// It does its work.
    Ready,
    /// It takes nothing new, and ends when what it has is over.
    Draining,
    /// It ends.
    Stopping,
}

impl Phase {
    /// The name of the phase in metrics and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
        }
    }
}

/// How many times files were read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reloads {
    /// All that was read could be used.
    pub succeeded: u64,
    /// Something could not be used, and what was read before remains in use.
    pub failed: u64,
    /// Whether the last one succeeded; `true` if there was none.
    pub last_succeeded: bool,
}

/// What an orchestrator asks of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether the loop that does the work runs. A service that is not alive is to be restarted.
    pub alive: bool,
    /// Whether the service takes new clients.
    pub ready: bool,
    /// The reason in one line.
    pub why: String,
}

/// The phase of a service, shared by the tasks of a process. Each change is notified to the service
/// manager.
#[derive(Debug)]
pub struct Lifecycle {
    state: Mutex<State>,
    started: Instant,
    /// How often the service manager is notified that the process is alive.
    notify_every: Option<Duration>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    beat: Instant,
    notified: Option<Instant>,
    reloads: Reloads,
    /// Why a service that is ready otherwise takes no clients.
    obstacle: Option<String>,
}

impl Lifecycle {
    /// The lifecycle of a service that starts now.
    pub fn start() -> Self {
        let now = Instant::now();
        let reloads = Reloads { last_succeeded: true, ..Reloads::default() };
        let state =
            State { phase: Phase::Starting, beat: now, notified: None, reloads, obstacle: None };
        // Half of what is allowed, as sd_watchdog_enabled(3) recommends.
        let notify_every = manager::watchdog_interval().map(|most| most / 2);
        Self { state: Mutex::new(state), started: now, notify_every }
    }

    /// The service does its work from now on.
    pub fn ready(&self) {
        self.enter(Phase::Ready);
        self.beat();
    }

    /// The service takes nothing new from now on; `what` says so in one line for people.
    pub fn drain(&self, what: &str) {
        self.enter(Phase::Draining);
        notify(&Notice::Status(format!("draining: {what}")));
    }

    /// The service ends.
    pub fn stop(&self) {
        self.enter(Phase::Stopping);
    }

    /// Says what the service does, in one line for people.
    pub fn say(&self, what: &str) {
        notify(&Notice::Status(what.to_owned()));
    }

    /// Reads files again. `reload` returns its result and whether everything could be used. The
    /// service manager is notified of the beginning and the end.
    pub fn reload<T>(&self, reload: impl FnOnce() -> (T, bool)) -> T {
        self.begin_reload();
        let (result, succeeded) = reload();
        self.end_reload(succeeded);
        result
    }

    /// The beginning of a reload that is not one call; [`end_reload`](Self::end_reload) follows.
    pub fn begin_reload(&self) {
        notify(&Notice::Reloading);
    }

    /// The end of a reload, and whether everything could be used.
    pub fn end_reload(&self, succeeded: bool) {
        self.count_reload(succeeded);
        notify(&Notice::Ready);
    }

    /// Counts a reload that the service made without being told to, because a file had changed.
    pub fn count_reload(&self, succeeded: bool) {
        let mut state = self.state();
        let reloads = &mut state.reloads;
        reloads.last_succeeded = succeeded;
        match succeeded {
            true => reloads.succeeded += 1,
            false => reloads.failed += 1,
        }
    }

    /// Notes that the loop that does the work runs. To be called there every [`BEAT`]. This also
    /// feeds the watchdog of the service manager.
    pub fn beat(&self) {
        let now = Instant::now();
        let mut state = self.state();
        state.beat = now;
        let due =
            |every| state.notified.is_none_or(|at| now.saturating_duration_since(at) >= every);
        if self.notify_every.is_some_and(due) {
            state.notified = Some(now);
            drop(state);
            notify(&Notice::Alive);
        }
    }

    /// How often [`beat`](Self::beat) is to be called: [`BEAT`], or more often for a watchdog that
    /// is less patient.
    pub fn beat_every(&self) -> Duration {
        self.notify_every.map_or(BEAT, |every| every.min(BEAT)).max(Duration::from_millis(10))
    }

    /// Says why a service that is ready otherwise can take no clients now, or that it can.
    pub fn set_obstacle(&self, why: Option<String>) {
        self.state().obstacle = why;
    }

    /// What the service does now.
    pub fn phase(&self) -> Phase {
        self.state().phase
    }

    /// The time since the start.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// How many times files were read again.
    pub fn reloads(&self) -> Reloads {
        self.state().reloads
    }

    /// Whether the service is alive and takes clients.
    pub fn health(&self) -> Health {
        self.health_at(Instant::now())
    }

    fn health_at(&self, now: Instant) -> Health {
        let state = self.state();
        let silent = now.saturating_duration_since(state.beat);
        // While a service starts it may wait for its interface or its server for any time.
        if silent >= STUCK && state.phase != Phase::Starting {
            let why = format!("stuck: nothing was done for {} s", silent.as_secs());
            return Health { alive: false, ready: false, why };
        }
        match (state.phase, &state.obstacle) {
            (Phase::Ready, None) => Health { alive: true, ready: true, why: "ready".into() },
            (Phase::Ready, Some(why)) => Health { alive: true, ready: false, why: why.clone() },
            (phase, _) => Health { alive: true, ready: false, why: phase.name().into() },
        }
    }

    fn enter(&self, phase: Phase) {
        self.state().phase = phase;
        match phase {
            Phase::Ready => notify(&Notice::Ready),
            Phase::Stopping => notify(&Notice::Stopping),
            Phase::Starting | Phase::Draining => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A service manager that misses a notification only runs into its timeout, and there may be none.
fn notify(notice: &Notice) {
    if let Err(error) = manager::notify(notice) {
        tracing::debug!("service manager: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_ready_between_its_start_and_its_end() {
        let lifecycle = Lifecycle::start();
        let ready = || (lifecycle.health().ready, lifecycle.health().why);
        assert_eq!(ready(), (false, "starting".into()));
        lifecycle.ready();
        assert_eq!(ready(), (true, "ready".into()));
        lifecycle.set_obstacle(Some("the name does not resolve".into()));
        assert_eq!(ready(), (false, "the name does not resolve".into()));
        lifecycle.set_obstacle(None);
        lifecycle.drain("nothing new");
        assert_eq!(ready(), (false, "draining".into()));
        lifecycle.stop();
        assert_eq!((ready(), lifecycle.health().alive), ((false, "stopping".into()), true));
    }

    #[test]
    fn a_loop_that_stands_still_is_no_longer_alive() {
        let lifecycle = Lifecycle::start();
        let (just, later) = (STUCK - Duration::from_millis(1), STUCK + Duration::from_secs(1));
        assert!(lifecycle.health_at(lifecycle.started + later).alive, "a start may take long");
        lifecycle.ready();
        let beat = lifecycle.state().beat;
        assert!(lifecycle.health_at(beat + just).alive);
        let health = lifecycle.health_at(beat + later);
        assert!(!health.alive && !health.ready && health.why.contains("11 s"), "{health:?}");
    }

    #[test]
    fn reloads_are_counted_by_result() {
        let lifecycle = Lifecycle::start();
        assert!(lifecycle.reloads().last_succeeded);
        assert_eq!(lifecycle.reload(|| (7, false)), 7);
        lifecycle.count_reload(true);
        lifecycle.count_reload(false);
        let expected = Reloads { succeeded: 1, failed: 2, last_succeeded: false };
        assert_eq!(lifecycle.reloads(), expected);
    }
}
