//! The libFuzzer entry point of the target `messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("messages").expect("a target of this name").run)(input);
});
