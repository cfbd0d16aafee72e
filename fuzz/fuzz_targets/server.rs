//! The libFuzzer entry point of the target `server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("server").expect("a target of this name").run)(input);
});
