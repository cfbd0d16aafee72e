//! All integration tests of `interop-gateway`, in one program that is linked once.

mod own_ends;
mod soak;
mod standby;
