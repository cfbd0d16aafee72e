//! All integration tests of `fuzz`, in one program that is linked once.

mod clones;
mod fleet;
mod forgery;
mod histories;
mod hostile;
mod injection;
mod noise;
mod seeded;
mod tunnel;
mod updates;
