//! BPF programs and maps in the kernel: `bpf(2)`.

use super::checked;
use libc::{c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// One instruction as the kernel reads it (RFC 9669, section 3.1).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u8,
    /// Destination in the low half, source in the high half.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) immediate: i32,
}

/// Values of linux/bpf.h.
mod command {
    pub(super) const MAP_CREATE: i64 = 0;
    pub(super) const MAP_LOOKUP: i64 = 1;
    pub(super) const MAP_UPDATE: i64 = 2;
    pub(super) const PROGRAM_LOAD: i64 = 5;
    pub(super) const LINK_CREATE: i64 = 28;
}
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_SOCKETS: u32 = 17;
const PROGRAM_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;

/// The part of `union bpf_attr` that a command uses: only integers, and addresses as integers.
///
/// # Safety
/// The type must have the layout that its command prescribes, without padding.
unsafe trait Attributes {}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}
#[repr(C)]
struct MapElement {
    map: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    program: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
}
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}
// SAFETY: the part of BPF_MAP_CREATE in linux/bpf.h, four integers of one size.
unsafe impl Attributes for MapCreate {}
// SAFETY: the part of BPF_MAP_*_ELEM in linux/bpf.h; a field takes the place of padding.
unsafe impl Attributes for MapElement {}
// SAFETY: the part of BPF_PROG_LOAD up to the log in linux/bpf.h; 64-bit fields are at multiples of
// eight.
unsafe impl Attributes for ProgramLoad {}
// SAFETY: the part of BPF_LINK_CREATE in linux/bpf.h, four integers of one size.
unsafe impl Attributes for LinkCreate {}

/// # Safety
/// Addresses in the attributes must be those of memory that the command may read or write.
unsafe fn bpf<A: Attributes>(command: i64, mut attributes: A) -> io::Result<c_int> {
    let pointer: *mut A = &mut attributes;
    // SAFETY: the attributes have the given length and live until the call returns; the kernel
    // takes missing fields for zero.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command as c_long, pointer, size_of::<A>()) };
    checked(answer as c_int)
}

/// Makes a map of `entries` counters of 64 bits, with a 32-bit index.
pub(crate) fn counters(entries: u32) -> io::Result<OwnedFd> {
    map(MapCreate { kind: MAP_TYPE_ARRAY, key_bytes: 4, value_bytes: 8, entries })
}

/// Makes a map from queues to AF_XDP sockets.
pub(crate) fn sockets(entries: u32) -> io::Result<OwnedFd> {
    map(MapCreate { kind: MAP_TYPE_SOCKETS, key_bytes: 4, value_bytes: 4, entries })
}

fn map(attributes: MapCreate) -> io::Result<OwnedFd> {
    // SAFETY: the attributes contain no addresses, and the descriptor is new.
    unsafe { bpf(command::MAP_CREATE, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// Sets the socket of a queue in a map made by [`sockets`].
pub(crate) fn put_socket(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    let value = socket.as_raw_fd() as u32;
    let element = element(map, &queue, (&raw const value) as u64);
    // SAFETY: the map's keys and values are four bytes long. With another map, bytes beyond them
    // would be read; `map` is always one of `sockets`, whose descriptors xdp/attachment.rs keeps.
    unsafe { bpf(command::MAP_UPDATE, element).map(drop) }
}

/// Reads a counter of a map made by [`counters`].
pub(crate) fn counter(map: BorrowedFd<'_>, index: u32) -> io::Result<u64> {
    let mut value = 0_u64;
    let element = element(map, &index, (&raw mut value) as u64);
    // SAFETY: as in `put_socket`, with a map of `counters`; the value is eight bytes long and may
    // be written.
    unsafe { bpf(command::MAP_LOOKUP, element)? };
    Ok(value)
}

fn element(map: BorrowedFd<'_>, key: &u32, value: u64) -> MapElement {
    let key: *const u32 = key;
    MapElement { map: map.as_raw_fd() as u32, zero: 0, key: key as u64, value, flags: 0 }
}

/// Loads an XDP program into the kernel, which verifies it. If the kernel refuses it, the error
/// contains the reason.
pub(crate) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let license = c"MIT OR Apache-2.0";
    let attributes = |log_level, log: &mut [u8]| ProgramLoad {
        kind: PROGRAM_TYPE_XDP,
        instructions: program.len() as u32,
        program: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level,
        log_bytes: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
    };
    // SAFETY: program, licence and log live until the call returns and have the given lengths; the
    // descriptor is new.
    unsafe {
        let answer = bpf(command::PROGRAM_LOAD, attributes(0, &mut []));
        let error = match answer {
            Ok(fd) => return Ok(OwnedFd::from_raw_fd(fd)),
            Err(error) => error,
        };
        if !matches!(error.raw_os_error(), Some(libc::EACCES | libc::EINVAL)) {
            return Err(error);
        }
        let mut log = vec![0; 64 << 10];
        match bpf(command::PROGRAM_LOAD, attributes(1, &mut log)) {
            Ok(fd) => Ok(OwnedFd::from_raw_fd(fd)),
            Err(error) => {
                let log = String::from_utf8_lossy(&log);
                let log = log.trim_end_matches(['\0', '\n']).rsplit('\n').nth(1).unwrap_or("");
                Err(io::Error::other(format!("the kernel refuses the program ({error}): {log}")))
            }
        }
    }
}

/// Runs a program on all packets that an interface receives, until the returned link is closed,
/// which the kernel does at the latest when the process ends.
pub(crate) fn attach(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        interface,
        attach_type: ATTACH_TYPE_XDP,
        flags,
    };
    // SAFETY: the attributes contain no addresses, and the descriptor is new.
    unsafe { bpf(command::LINK_CREATE, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// Runs a program on a packet in memory and returns its result.
#[cfg(test)]
pub(crate) fn run(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<u32> {
    const PROGRAM_TEST_RUN: i64 = 10;
    #[repr(C)]
    struct TestRun {
        program: u32,
        answer: u32,
        packet_bytes: u32,
        result_bytes: u32,
        packet: u64,
        result: u64,
        repeat: u32,
        duration: u32,
    }
    let mut attributes = TestRun {
        program: program.as_raw_fd() as u32,
        answer: 0,
        packet_bytes: packet.len() as u32,
        result_bytes: 0,
        packet: packet.as_ptr() as u64,
        result: 0,
        repeat: 1,
        duration: 0,
    };
    let pointer: *mut TestRun = &mut attributes;
    // SAFETY: the part of BPF_PROG_TEST_RUN in linux/bpf.h. The kernel reads the packet and writes
    // its result into the attributes, both of which live until the call returns.
    let answer = unsafe {
        let command = PROGRAM_TEST_RUN as c_long;
        libc::syscall(libc::SYS_bpf, command, pointer, size_of::<TestRun>())
    };
    checked(answer as c_int).map(|_| attributes.answer)
}
