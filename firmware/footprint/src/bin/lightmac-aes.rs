//! LightMAC over AES-128.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::mac::lightmac_aes()
}
