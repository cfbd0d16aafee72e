//! HMAC with SHA-256.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::mac::hmac_sha256()
}
