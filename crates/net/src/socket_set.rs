//! Many sockets of which one task learns when they can be read. A socket of the runtime takes memory
//! for its readiness, and usually a task that waits for it; a socket here takes neither.
//!
//! On Linux the sockets are in an epoll set of their own, for which the task waits. Elsewhere each of them has
//! a small task that waits for it and tells.

#[cfg(target_os = "linux")]
use epoll as system;
#[cfg(not(target_os = "linux"))]
use tasks as system;

use std::io;
use std::net::UdpSocket;

/// The most sockets that are told at once.
const MOST_AT_ONCE: usize = 64;

/// Sockets, each under a number of the caller's.
#[derive(Debug)]
pub struct SocketSet(system::Set);

impl SocketSet {
    /// A set without sockets. Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// If the system has no room for it.
    pub fn new() -> io::Result<Self> {
        system::Set::new().map(Self)
    }

    /// Adds a socket that does not block, under a number. Must be called within the runtime that the set
    /// was made in.
    ///
    /// # Errors
    ///
    /// If the system has no room for it.
    pub fn add(&self, socket: &UdpSocket, number: u64) -> io::Result<()> {
        self.0.add(socket, number)
    }

    /// Removes a socket, which may still be told of.
    pub fn remove(&self, socket: &UdpSocket, number: u64) {
        self.0.remove(socket, number);
    }

    /// Waits until sockets can be read or have an error, and adds their numbers to `numbers`. Whoever
    /// does not read all that waits at a socket calls [`again`](Self::again). Only one task at a time may
    /// wait. If the future is dropped, nothing is lost.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub async fn ready(&self, numbers: &mut Vec<u64>) -> io::Result<()> {
        self.0.ready(numbers).await
    }

    /// More may wait at the socket with this number.
    pub fn again(&self, number: u64) {
        self.0.again(number);
    }
}

#[cfg(target_os = "linux")]
mod epoll {
    use super::MOST_AT_ONCE;
    use rustix::event::Timespec;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use std::io;
    use std::mem::MaybeUninit;
    use std::net::UdpSocket;
    use std::os::fd::OwnedFd;
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A set that tells of a socket as long as something waits there.
    #[derive(Debug)]
    pub(super) struct Set(AsyncFd<OwnedFd>);

    impl Set {
        pub(super) fn new() -> io::Result<Self> {
            let set = epoll::create(CreateFlags::CLOEXEC)?;
            #[expect(
                deprecated,
                reason = "what replaces it is unsafe for other types than OwnedFd"
            )]
            let set = AsyncFd::with_interest(set, Interest::READABLE)?;
            Ok(Self(set))
        }

        pub(super) fn add(&self, socket: &UdpSocket, number: u64) -> io::Result<()> {
            Ok(epoll::add(self.0.get_ref(), socket, EventData::new_u64(number), EventFlags::IN)?)
        }

        pub(super) fn remove(&self, socket: &UdpSocket, _: u64) {
            // It fails only if the socket is not there.
            let _ = epoll::delete(self.0.get_ref(), socket);
        }

        pub(super) async fn ready(&self, numbers: &mut Vec<u64>) -> io::Result<()> {
            loop {
                let mut guard = self.0.readable().await?;
                let waited = guard.try_io(|set| {
                    let mut events = [const { MaybeUninit::uninit() }; MOST_AT_ONCE];
                    let (ready, _) = epoll::wait(set, &mut events, Some(&Timespec::default()))?;
                    numbers.extend(ready.iter().map(|event| event.data.u64()));
                    if ready.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
                });
                if let Ok(waited) = waited {
                    return waited;
                }
            }
        }

        pub(super) const fn again(&self, _: u64) {}
    }
}

#[cfg(any(not(target_os = "linux"), test))]
mod tasks {
    use super::MOST_AT_ONCE;
    use std::collections::{HashMap, VecDeque};
    use std::io;
    use std::net::UdpSocket;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
    use tokio::io::Interest;
    use tokio::net::UdpSocket as RuntimeSocket;
    use tokio::sync::Notify;
    use tokio::task::AbortHandle;

    #[derive(Debug, Default)]
    pub(super) struct Set {
        told: Arc<Told>,
        tasks: Mutex<HashMap<u64, Waiting>>,
    }

    /// The task that waits for a socket, and what wakes it when its number has been handed out: until
    /// then it would tell it over and over on systems that report what has not been read yet.
    #[derive(Debug)]
    struct Waiting {
        task: AbortHandle,
        taken: Arc<Notify>,
    }

    #[derive(Debug, Default)]
    struct Told {
        numbers: Mutex<VecDeque<u64>>,
        some: Notify,
    }

    impl Told {
        fn lock(&self) -> MutexGuard<'_, VecDeque<u64>> {
            self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn tell(&self, number: u64) {
            self.lock().push_back(number);
            self.some.notify_one();
        }
    }

    impl Set {
        #[expect(clippy::unnecessary_wraps, reason = "other systems' sets can fail")]
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self::default())
        }

        pub(super) fn add(&self, socket: &UdpSocket, number: u64) -> io::Result<()> {
            let socket = RuntimeSocket::from_std(socket.try_clone()?)?;
            let (told, taken) = (Arc::clone(&self.told), Arc::<Notify>::default());
            let by_task = Arc::clone(&taken);
            let task = tokio::spawn(async move {
                while socket.readable().await.is_ok() {
                    // It is told once: whoever hears it reads all. What arrives later is told again.
                    let _ = socket.try_io(Interest::READABLE, || {
                        Err::<(), _>(io::ErrorKind::WouldBlock.into())
                    });
                    told.tell(number);
                    by_task.notified().await;
                }
            });
            self.tasks().insert(number, Waiting { task: task.abort_handle(), taken });
            Ok(())
        }

        pub(super) fn remove(&self, _: &UdpSocket, number: u64) {
            if let Some(waiting) = self.tasks().remove(&number) {
                waiting.task.abort();
            }
        }

        fn tasks(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
            self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(super) async fn ready(&self, numbers: &mut Vec<u64>) -> io::Result<()> {
            loop {
                let before = numbers.len();
                {
                    let mut told = self.told.lock();
                    let count = told.len().min(MOST_AT_ONCE);
                    numbers.extend(told.drain(..count));
                }
                let taken = numbers.get(before..).unwrap_or_default();
                if !taken.is_empty() {
                    let tasks = self.tasks();
                    let waiting = taken.iter().filter_map(|number| tasks.get(number));
                    waiting.for_each(|waiting| waiting.taken.notify_one());
                    return Ok(());
                }
                self.told.some.notified().await;
            }
        }

        pub(super) fn again(&self, number: u64) {
            self.told.tell(number);
        }
    }

    impl Drop for Set {
        fn drop(&mut self) {
            let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
            tasks.drain().for_each(|(_, waiting)| waiting.task.abort());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// Both kinds of sets do the same.
    macro_rules! tells_of_what_can_be_read {
        ($set:expr) => {{
            let set = $set;
            let socket = || {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            };
            let sockets: Vec<_> = (0..200).map(|_| socket()).collect();
            for (number, socket) in sockets.iter().enumerate() {
                set.add(socket, number as u64).unwrap();
            }
            let sender = socket();
            let send = |to: &UdpSocket, text: &[u8]| {
                sender.send_to(text, to.local_addr().unwrap()).unwrap();
            };
            let mut numbers = Vec::new();
            assert!(timeout(Duration::from_millis(20), set.ready(&mut numbers)).await.is_err());
            for _ in 0..3 {
                sockets.iter().for_each(|socket| send(socket, b"one"));
                let mut heard = vec![0; sockets.len()];
                while heard.iter().sum::<u32>() < 200 {
                    numbers.clear();
                    timeout(PATIENCE, set.ready(&mut numbers)).await.unwrap().unwrap();
                    assert!(numbers.len() <= MOST_AT_ONCE);
                    for number in &numbers {
                        while sockets[*number as usize].recv(&mut [0; 8]).is_ok() {
                            heard[*number as usize] += 1;
                        }
                    }
                }
                assert_eq!(heard, vec![1; 200]);
            }
            // One that reads only a part says so.
            (0..3).for_each(|_| send(&sockets[7], b"more"));
            for _ in 0..3 {
                numbers.clear();
                while !numbers.contains(&7) {
                    timeout(PATIENCE, set.ready(&mut numbers)).await.unwrap().unwrap();
                }
                sockets[7].recv(&mut [0; 8]).unwrap();
                set.again(7);
            }
            // Nobody hears of one that was removed; a set whose task is told late may say so once.
            set.remove(&sockets[3], 3);
            send(&sockets[3], b"late");
            numbers.clear();
            while timeout(Duration::from_millis(50), set.ready(&mut numbers)).await.is_ok() {}
            assert!(!numbers.contains(&3), "{numbers:?}");
        }};
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_set_tells_of_what_can_be_read() {
        tells_of_what_can_be_read!(SocketSet::new().unwrap());
    }

    #[tokio::test]
    async fn tasks_tell_of_what_can_be_read() {
        tells_of_what_can_be_read!(tasks::Set::new().unwrap());
    }
}
