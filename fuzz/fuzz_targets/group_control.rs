//! The libFuzzer entry point of the target `group_control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("group_control").expect("a target of this name").run)(input);
});
