//! All integration tests of `interop`, in one program that is linked once.

mod captures;
mod coap;
mod dtls_with_wolfssl;
mod hints_with_openssl;
mod matrix;
mod sizes;
mod udp;
mod wolfssl_with_itself;
