//! What takes part in a race.

/// An implementation of some operation, which is run repeatedly.
pub trait Contender {
    /// Runs the operation once.
    fn run(&mut self);

    /// Runs the operation `count` times in one call, because a virtual call takes as long as a
    /// short message.
    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            self.run();
        }
    }
}

impl<F: FnMut()> Contender for F {
    fn run(&mut self) {
        self();
    }
}
