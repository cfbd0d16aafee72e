//! The libFuzzer entry point of the target `saved`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("saved").expect("a target of this name").run)(input);
});
