//! The libFuzzer entry point of the target `client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("client").expect("a target of this name").run)(input);
});
