//! A member of a multicast group: sends requests, answers those of others, and checks both.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use core::net::Ipv4Addr;
use cortex_m_rt::entry;
use exchange::group::{GroupMember, GroupOptions};
use image::Words;

/// The options of the group.
#[derive(Default)]
struct GroupWords(GroupOptions);

impl Words for GroupWords {
    fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        self.0.set(name, value)
    }

    fn address(&self) -> Option<Ipv4Addr> {
        Some(self.0.address(self.0.member))
    }

    fn multicast(&self) -> Option<Ipv4Addr> {
        Some(self.0.multicast())
    }
}

#[entry]
fn main() -> ! {
    image::run::<GroupWords, _>(|options, now| {
        let member = GroupMember::new(&options.exchange, &options.words.0, now);
        member.ok_or_else(|| "there is no such member".into())
    })
}
