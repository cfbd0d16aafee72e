//! Tasks that the control path gives to a thread of the data path, and the event descriptor that
//! wakes the thread.

use lightseal_gateway::codepoints::EncryptedContent;
use lightseal_gateway::stations::PeerIndex;
use lightseal_packet_io::Pollable;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most tasks that wait: more than any burst of probes to a thousand peers.
const MAX_TASKS: usize = 16_384;

/// A task for a thread that has ports.
#[derive(Debug)]
pub(super) enum Task {
    /// Seal this content for the peer and send it.
    Datagram(PeerIndex, EncryptedContent, Vec<u8>),
    /// Put this frame on the LAN.
    Frame(Vec<u8>),
}

/// The tasks that wait for one thread.
#[derive(Debug)]
pub(super) struct TaskQueue {
    tasks: Mutex<VecDeque<Task>>,
    /// An eventfd, on which a sleeping thread waits.
    wake_fd: OwnedFd,
    /// True if there may be a task, or the eventfd may be readable. A busy thread checks this flag,
    /// which needs no system call. It becomes false only while `tasks` is locked.
    may_have_tasks: AtomicBool,
}

impl TaskQueue {
    /// An empty queue.
    ///
    /// # Errors
    /// If the kernel has no free descriptor.
    pub(super) fn new() -> io::Result<Self> {
        let wake_fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { tasks: Mutex::default(), wake_fd, may_have_tasks: AtomicBool::new(false) })
    }

    /// Adds a task; `false` if too many wait.
    #[must_use]
    pub(super) fn push(&self, task: Task) -> bool {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.len() >= MAX_TASKS {
            return false;
        }
        tasks.push_back(task);
        self.may_have_tasks.store(true, Ordering::Release);
        drop(tasks);
        self.wake();
        true
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        // An error means that the counter of the eventfd is at its maximum, so it is readable
        // already.
        let _already = rustix::io::write(&self.wake_fd, &1u64.to_ne_bytes());
        // Set after the write: a thread that checks the flag in between finds the eventfd readable
        // when it sleeps, and checks again.
        self.may_have_tasks.store(true, Ordering::Release);
    }

    /// Removes the next task. If there is none, the eventfd is no longer readable.
    pub(super) fn pop(&self) -> Option<Task> {
        if !self.may_have_tasks.load(Ordering::Acquire) {
            return None;
        }
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let task = tasks.pop_front();
        if task.is_none() {
            self.may_have_tasks.store(false, Ordering::Release);
            let _silent = rustix::io::read(&self.wake_fd, &mut [0; 8]);
        }
        task
    }
}

impl Pollable for TaskQueue {
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
        visit(self.wake_fd.as_fd());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn rings(queue: &TaskQueue) -> bool {
        let mut wake_fd = [PollFd::new(&queue.wake_fd, PollFlags::IN)];
        poll(&mut wake_fd, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn the_bell_rings_until_somebody_looked_and_not_longer() {
        let queue = TaskQueue::new().unwrap();
        for with_task in [false, true, false] {
            assert!(!rings(&queue));
            match with_task {
                true => assert!(queue.push(Task::Frame(Vec::new()))),
                false => queue.wake(),
            }
            assert!(rings(&queue));
            assert_eq!(queue.pop().is_some(), with_task);
            assert!(queue.pop().is_none());
        }
        assert!(!rings(&queue));
    }

    #[test]
    fn tasks_come_in_order_and_no_more_than_there_is_room_for() {
        let queue = TaskQueue::new().unwrap();
        let left = (0..MAX_TASKS + 3).filter(|&at| queue.push(Task::Frame(vec![at as u8])));
        assert_eq!(left.count(), MAX_TASKS);
        for at in 0..MAX_TASKS {
            assert!(matches!(queue.pop(), Some(Task::Frame(bytes)) if bytes == [at as u8]));
        }
        assert!(queue.pop().is_none());
    }
}
