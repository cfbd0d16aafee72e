//! All integration tests of `documents`, in one program that is linked once.

mod pages;
mod paths;
