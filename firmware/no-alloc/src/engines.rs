//! What all engines share: randomness, the codec, the replay window and time.

use core::time::Duration;
use lightseal_core::{Instant, Random, Reader, ReplayWindow, Writer};

/// Whether they answer what they should.
pub(crate) fn work() -> bool {
    random() && codec().is_some() && replay()
}

/// A seed decides what a generator returns, and its children return something else.
fn random() -> bool {
    let [mut one, mut other] = [(); 2].map(|()| Random::insecure(1));
    let child = one.fork().array::<16>();
    other.fork();
    one.array() == other.array::<16>() && one.array() != child
}

/// What was written is read, and nothing more.
fn codec() -> Option<()> {
    let mut bytes = [0; 16];
    let mut writer = Writer::new(&mut bytes);
    writer.u16(0xfefc).ok()?;
    writer.vec8(|writer| writer.bytes(b"body")).ok()?;
    let mut reader = Reader::new(writer.written());
    let is_read = reader.u16() == Ok(0xfefc) && reader.vec8() == Ok(b"body");
    (is_read && reader.u8().is_err()).then_some(())
}

/// A number is new once.
fn replay() -> bool {
    let mut window = ReplayWindow::new();
    let number = (Instant::ZERO + Duration::from_secs(1) - Instant::ZERO).as_secs();
    let was_new = window.check(number);
    window.commit(number);
    was_new && !window.check(number)
}
