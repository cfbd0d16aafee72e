//! What the kernel is asked for: all `unsafe` code of this crate is in the modules below.
//!
//! Each of them is safe from outside: memory that the kernel reads or writes is owned, or lent
//! for as long as the call lasts, and what it answers is checked before it is an index.

#[allow(unsafe_code)]
pub(crate) mod bpf;
#[allow(unsafe_code)]
pub(crate) mod device;
#[allow(unsafe_code)]
pub(crate) mod messages;
#[allow(unsafe_code)]
pub(crate) mod poll;
#[allow(unsafe_code)]
pub(crate) mod region;
#[allow(unsafe_code)]
pub(crate) mod ring;
#[allow(unsafe_code)]
pub(crate) mod socket;
#[allow(unsafe_code)]
pub(crate) mod xdp_socket;

/// What a system call answered, or why it failed.
pub(crate) fn checked(answer: libc::c_int) -> std::io::Result<libc::c_int> {
    if answer < 0 { Err(std::io::Error::last_os_error()) } else { Ok(answer) }
}
