//! The libFuzzer entry point of the target `messages12`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("messages12").expect("a target of this name").run)(input);
});
