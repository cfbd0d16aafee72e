//! All integration tests of `attacks`, in one program that is linked once.

mod clones;
mod fleet;
mod forgery;
mod histories;
mod hostile;
mod injection;
mod noise;
mod restarts;
mod tunnel;
mod updates;
