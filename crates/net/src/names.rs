//! Host names whose addresses change. They are looked up at the start, then every minute, and
//! whenever a host does not answer.

use crate::address;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

/// Interval of lookups while a name has addresses.
const INTERVAL: Duration = Duration::from_secs(60);

/// The first interval between lookups of a name that has no address, for example before the network
/// is up. The interval doubles up to [`INTERVAL`].
const FIRST_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest time between two lookups of a name, however often its host does not answer.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// The future result of a lookup.
pub type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// A way to look up `HOST:PORT`.
#[derive(Clone)]
pub struct Resolver(Arc<dyn Fn(&str) -> LookupFuture + Send + Sync>);

impl Resolver {
    /// The operating system's resolver.
    ///
    /// Each lookup runs in a thread of its own, for which the program does not wait when it ends:
    /// without a name server a lookup takes many seconds.
    pub fn system() -> Self {
        Self::new(|text| {
            let (text, (sender, receiver)) = (text.to_owned(), oneshot::channel());
            let spawned = std::thread::Builder::new().name("resolver".into()).spawn(move || {
                let _ = sender.send(address::resolve(&text));
            });
            Box::pin(async move {
                spawned?;
                receiver.await.map_err(|_| io::Error::other("the resolver ended"))?
            })
        })
    }

    /// A lookup by another function, for example for tests.
    pub fn new(lookup: impl Fn(&str) -> LookupFuture + Send + Sync + 'static) -> Self {
        Self(Arc::new(lookup))
    }

    /// Looks up `text` once.
    ///
    /// # Errors
    /// The name does not resolve, or no name server can be reached.
    pub async fn once(&self, text: &str) -> io::Result<Vec<SocketAddr>> {
        let found = (self.0)(text).await?;
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no address"));
        }
        Ok(found)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

/// Looks a name up repeatedly, and passes each result to `take`. The next lookup follows a minute
/// after a success, after growing intervals while there is no address, and soon after each `again`.
pub async fn resolve_repeatedly(
    lookup: &Resolver,
    text: &str,
    again: &Notify,
    mut take: impl FnMut(io::Result<Vec<SocketAddr>>),
) {
    let mut interval = FIRST_INTERVAL;
    loop {
        let began = Instant::now();
        let found = lookup.once(text).await;
        let next = match &found {
            Ok(_) => {
                interval = FIRST_INTERVAL;
                INTERVAL
            }
            Err(_) => {
                let next = interval;
                interval = (interval * 2).min(INTERVAL);
                next
            }
        };
        take(found);
        let after = Instant::now();
        tokio::select! {
            () = sleep_until(after + next) => {}
            () = again.notified() => sleep_until((began + MIN_INTERVAL).min(after + next)).await,
        }
    }
}

/// The addresses of one host, and which of them is in use.
///
/// An address that answers remains in use as long as the name resolves to it. If it does not
/// answer, the next one is used, in the resolver's order (RFC 6724); after the last address comes
/// the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAddresses {
    known: Vec<SocketAddr>,
    current: usize,
}

impl HostAddresses {
    /// The address in use; `None` before an address is known.
    pub fn current(&self) -> Option<SocketAddr> {
        self.known.get(self.current).copied()
    }

    /// The number of known addresses.
    pub const fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no address is known.
    pub const fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Takes the result of a lookup. Returns whether the address in use changed.
    pub fn update(&mut self, mut found: Vec<SocketAddr>) -> bool {
        let mut unique = Vec::new();
        found.retain(|address| {
            let new = !unique.contains(address);
            unique.push(*address);
            new
        });
        let old = self.current();
        let kept = found.iter().position(|address| Some(*address) == old);
        self.known = found;
        self.current = kept.unwrap_or(0);
        self.current() != old
    }

    /// Keeps only those addresses for which `keep` holds.
    pub fn retain(&mut self, keep: impl Fn(SocketAddr) -> bool) {
        let left = self.known.iter().copied().filter(|address| keep(*address)).collect();
        self.update(left);
    }

    /// Reports that `address` did not answer. If it is in use and there is another address, the
    /// next one is used from now on. Returns whether the address in use changed.
    pub fn mark_silent(&mut self, address: SocketAddr) -> bool {
        if self.current() != Some(address) || self.known.len() < 2 {
            return false;
        }
        self.current = (self.current + 1) % self.known.len();
        true
    }

    /// Reports that `address` answered. It is used from now on if the name resolves to it.
    pub fn mark_answered(&mut self, address: SocketAddr) {
        if let Some(at) = self.known.iter().position(|known| *known == address) {
            self.current = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn address(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 5684).into()
    }

    #[test]
    fn the_address_that_answers_stays_and_a_silent_one_gives_way() {
        let mut addresses = HostAddresses::default();
        assert_eq!(addresses.current(), None);
        assert!(!addresses.mark_silent(address(1)));
        assert!(addresses.update(vec![address(1), address(2), address(1), address(3)]));
        assert_eq!((addresses.len(), addresses.current()), (3, Some(address(1))));
        assert!(addresses.mark_silent(address(1)));
        assert!(!addresses.mark_silent(address(1)), "another flow noticed the same");
        assert_eq!(addresses.current(), Some(address(2)));
        // Resolvers return addresses in rotating order.
        assert!(!addresses.update(vec![address(3), address(1), address(2)]));
        assert_eq!(addresses.current(), Some(address(2)));
        assert!(addresses.mark_silent(address(2)));
        assert_eq!(addresses.current(), Some(address(3)));
        addresses.mark_answered(address(1));
        assert_eq!(addresses.current(), Some(address(1)));
        assert!(addresses.update(vec![address(9)]), "the name moved");
        assert!(!addresses.mark_silent(address(9)), "there is no other");
        assert_eq!(addresses.current(), Some(address(9)));
    }

    #[tokio::test(start_paused = true)]
    async fn gaps_grow_until_the_name_is_known_then_it_is_looked_up_each_minute() {
        let start = Instant::now();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let times = Arc::clone(&asked);
        let lookup = Resolver::new(move |text| {
            assert_eq!(text, "gateway.example:5684");
            let mut asked = times.lock().unwrap();
            asked.push(start.elapsed().as_secs());
            let count = asked.len();
            Box::pin(async move {
                match count {
                    1..=4 => Err(io::Error::other("no name server")),
                    _ => Ok(vec![address(1)]),
                }
            })
        });
        let again = Notify::new();
        let results = Mutex::new(Vec::new());
        let run = resolve_repeatedly(&lookup, "gateway.example:5684", &again, |found| {
            results.lock().unwrap().push(found.is_ok());
        });
        let asking = async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            again.notify_one();
            tokio::time::sleep(Duration::from_secs(1)).await;
            // This request comes too soon after the last lookup.
            again.notify_one();
            tokio::time::sleep(Duration::from_secs(30)).await;
        };
        tokio::select! {
            () = run => unreachable!(),
            () = asking => {}
        }
        assert_eq!(*asked.lock().unwrap(), [0, 1, 3, 7, 15, 75, 100, 105]);
        assert_eq!(results.lock().unwrap()[3..5], [false, true]);
    }
}
