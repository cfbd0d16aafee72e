//! The libFuzzer entry point of the target `macsec`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (fuzz::targets::named("macsec").expect("a target of this name").run)(input);
});
