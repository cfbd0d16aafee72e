//! A symmetric member of a group in profile `compact`.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    no_alloc::member::of_both_roles()
}
