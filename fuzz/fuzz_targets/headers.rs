//! The libFuzzer entry point of the target `headers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("headers").expect("a target of this name").run)(input);
});
