//! The libFuzzer entry point of the target `rekey`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("rekey").expect("a target of this name").run)(input);
});
