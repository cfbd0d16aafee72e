//! A member of a group, sender and listener.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::group::member_of_both_roles()
}
