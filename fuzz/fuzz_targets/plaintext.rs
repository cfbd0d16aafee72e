//! The libFuzzer entry point of the target `plaintext`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("plaintext").expect("a target of this name").run)(input);
});
