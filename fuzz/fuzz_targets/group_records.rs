//! The libFuzzer entry point of the target `group_records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("group_records").expect("a target of this name").run)(input);
});
