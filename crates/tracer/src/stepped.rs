//! Runs an operation with several secrets, instruction by instruction, and compares the runs.
//!
//! Processes that are forked from the same state, and therefore have the same addresses, run in
//! step. Before each instruction they must be at the same address and about to use the same memory
//! addresses. The operands of divisions must also be equal, because a division's duration depends
//! on them. This is what "constant time" can mean without a clock: no secret determines a branch,
//! an address or a division. Unlike a timing measurement, it gives the same result in each run.

use crate::alike::{Alike, assert_comparable};
use crate::instruction::Place;
use nix::libc::user_regs_struct;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The largest number of instructions of an operation. One that takes more is taken not to end.
const MOST_INSTRUCTIONS: u64 = 5_000_000;
/// The opcode of `int3`.
const BREAKPOINT: u8 = 0xcc;
/// The signal by which a process ends itself if it may not be traced.
const REFUSED: Signal = Signal::SIGUSR1;

/// The first instruction that reveals a secret.
#[derive(Debug)]
pub struct Leak {
    /// Number of instructions executed before it.
    pub after: u64,
    /// The kind of difference between the processes.
    pub what: What,
    /// The instruction at which the processes differ.
    pub at: String,
}

/// How an instruction reveals a secret.
#[derive(Debug, PartialEq)]
pub enum What {
    /// The processes are at different instructions, because of a branch on a secret.
    Path,
    /// The processes use different memory addresses, because of an index derived from a secret.
    Address,
    /// The processes divide different numbers.
    Division,
    /// A gather or scatter is used, whose addresses are not compared.
    Gather,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} differs after {} instructions, at {}", self.what, self.after, self.at)
    }
}

/// Runs `operation` on the value that `prepare` makes from each of `secrets`, and compares the
/// runs.
///
/// `prepare` is not traced. Both run in forked processes and must not take a lock that another
/// thread may hold.
///
/// # Panics
///
/// Panics if this machine does not allow a process to be traced, or if the operation panics.
pub fn compare<T, R>(
    secrets: &[Vec<u8>],
    prepare: impl Fn(&[u8]) -> T,
    operation: impl Fn(&mut T) -> R,
) -> Result<Alike, Leak> {
    assert_comparable(secrets);
    let mut secret = secrets[0].clone();
    let mut forked = Vec::with_capacity(secrets.len());
    // Nothing is allocated between the forks, so the processes differ in the secret alone.
    for each in secrets {
        secret.copy_from_slice(each);
        forked.push(Forked::new(&secret, &prepare, &operation));
    }
    Comparison::new(forked.iter().map(Child::new).collect()).run()
}

/// The traced part begins when this function is entered.
#[inline(never)]
fn begin() {
    black_box("begin");
}

/// The traced part ends when this function is entered. Its body differs from that of [`begin`], so
/// that a compiler cannot merge the two.
#[inline(never)]
fn end() {
    black_box("the end");
}

/// Runs in a forked process. The process is killed when it enters [`end`].
fn perform<T, R>(secret: &[u8], prepare: impl Fn(&[u8]) -> T, operation: impl Fn(&mut T) -> R) {
    let mut prepared = prepare(black_box(secret));
    if ptrace::traceme().is_err() {
        raise(REFUSED).expect("a process may end itself");
    }
    raise(Signal::SIGSTOP).expect("a process may stop itself");
    let prepared = black_box(&mut prepared);
    begin();
    black_box(operation(prepared));
    end();
}

/// A forked process, which is killed when this value is dropped.
struct Forked(Pid);

impl Forked {
    fn new<T, R>(
        secret: &[u8],
        prepare: impl Fn(&[u8]) -> T,
        operation: impl Fn(&mut T) -> R,
    ) -> Self {
        // SAFETY: the child takes no lock that another thread of this process may hold. libc makes
        // its own lock for allocation usable after a fork.
        match unsafe { fork() }.expect("a process can be forked") {
            ForkResult::Parent { child } => Self(child),
            ForkResult::Child => {
                // The child must never return to the test harness, of which it is a copy.
                let _ = catch_unwind(AssertUnwindSafe(|| perform(secret, prepare, operation)));
                std::process::abort();
            }
        }
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = kill(self.0, Signal::SIGKILL);
        let _ = waitpid(self.0, None);
    }
}

/// A traced process, which is stopped whenever this program inspects it.
struct Child {
    pid: Pid,
    memory: File,
    registers: user_regs_struct,
}

impl Child {
    fn new(forked: &Forked) -> Self {
        let pid = forked.0;
        match waitpid(pid, None).expect("a child process can be awaited") {
            WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
            WaitStatus::Signaled(_, REFUSED, _) => panic!(
                "constant time cannot be checked: this system lets no process be traced \
                 (ptrace is refused; in a container, allow SYS_PTRACE)"
            ),
            other => panic!("the traced process did not begin: {other:?}"),
        }
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
        Self {
            pid,
            memory: memory.expect("a traced process can be read"),
            registers: ptrace::getregs(pid).expect("the process is stopped"),
        }
    }

    fn resume(&self) {
        ptrace::step(self.pid, None).expect("the process is stopped");
    }

    fn wait(&mut self) {
        match waitpid(self.pid, None).expect("a child process can be awaited") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            other => panic!("the traced operation ended early: {other:?}"),
        }
        self.registers = ptrace::getregs(self.pid).expect("the process is stopped");
    }

    /// Runs to the instruction at address `place`, which the process must reach.
    fn run_to(&mut self, place: u64) {
        let mut code = [0];
        let held = "code can be read and written";
        self.memory.read_exact_at(&mut code, place).expect(held);
        self.memory.write_all_at(&[BREAKPOINT], place).expect(held);
        ptrace::cont(self.pid, None).expect("the process is stopped");
        self.wait();
        assert_eq!(self.registers.rip, place + 1, "stopped by the breakpoint");
        self.memory.write_all_at(&code, place).expect(held);
        self.registers.rip = place;
        ptrace::setregs(self.pid, self.registers).expect("the process is stopped");
    }
}

struct Comparison {
    children: Vec<Child>,
    places: BTreeMap<u64, Place>,
    so_far: Alike,
}

impl Comparison {
    fn new(children: Vec<Child>) -> Self {
        Self { children, places: BTreeMap::new(), so_far: Alike::default() }
    }

    fn run(mut self) -> Result<Alike, Leak> {
        let (first, last) = (begin as fn() as usize as u64, end as fn() as usize as u64);
        while self.children[0].registers.rip != first {
            self.step();
        }
        while self.children[0].registers.rip != last {
            match self.look()? {
                // A single step would copy only one element.
                Some(next) => self.children.iter_mut().for_each(|child| child.run_to(next)),
                None => self.step(),
            }
            assert!(self.so_far.instructions < MOST_INSTRUCTIONS, "the operation does not end");
        }
        Ok(self.so_far)
    }

    fn step(&mut self) {
        self.children.iter().for_each(Child::resume);
        self.children.iter_mut().for_each(Child::wait);
    }

    /// Compares the processes before their next instruction. If it is a repeated one, returns the
    /// address of the instruction after it.
    fn look(&mut self) -> Result<Option<u64>, Leak> {
        let Some((model, others)) = self.children.split_first() else { return Ok(None) };
        let at = model.registers.rip;
        let place = self.places.entry(at).or_insert_with(|| Place::read(at, &model.memory));
        let leak = |what| Leak { after: self.so_far.instructions, what, at: place.to_string() };
        if place.gathers {
            return Err(leak(What::Gather));
        }
        for other in others {
            if other.registers.rip != at {
                return Err(leak(What::Path));
            }
            let same = |ours: Option<u64>, theirs| ours.is_some() && ours == theirs;
            let mut used = place.addresses(&model.registers).zip(place.addresses(&other.registers));
            if !used.all(|(ours, theirs)| same(ours, theirs)) {
                return Err(leak(What::Address));
            }
            // The number of repetitions determines which addresses follow.
            if place.repeats && model.registers.rcx != other.registers.rcx {
                return Err(leak(What::Address));
            }
            if place.divides
                && place.operands(&model.registers, &model.memory)
                    != place.operands(&other.registers, &other.memory)
            {
                return Err(leak(What::Division));
            }
        }
        self.so_far.instructions += 1;
        self.so_far.addresses += place.memory.len() as u64;
        Ok(place.repeats.then(|| place.next()))
    }
}
