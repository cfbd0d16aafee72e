//! Links the image with the script of cortex-m-rt, which includes the board's memory.x.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's folder");
    println!("cargo:rustc-link-search={here}/../footprint");
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed=../footprint/memory.x");
}
