//! The libFuzzer entry point of the target `opener`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("opener").expect("a target of this name").run)(input);
});
