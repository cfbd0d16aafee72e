//! System calls: all `unsafe` code of this crate is in the modules below, except for the memory of a
//! pool (`region/pages.rs`).
//!
//! Each module has a safe interface. Memory that the kernel reads or writes is owned, or borrowed
//! for the duration of the call, and values that the kernel returns are checked before they serve
//! as an index.

#[allow(unsafe_code)]
pub(crate) mod bpf;
#[allow(unsafe_code)]
pub(crate) mod device;
#[allow(unsafe_code)]
pub(crate) mod messages;
#[allow(unsafe_code)]
pub(crate) mod poll;
#[allow(unsafe_code)]
pub(crate) mod ring;
#[allow(unsafe_code)]
pub(crate) mod socket;
#[allow(unsafe_code)]
pub(crate) mod xdp_socket;

/// The result of a system call as a `Result`.
pub(crate) fn checked(answer: libc::c_int) -> std::io::Result<libc::c_int> {
    if answer < 0 { Err(std::io::Error::last_os_error()) } else { Ok(answer) }
}
