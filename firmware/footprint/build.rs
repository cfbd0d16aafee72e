//! Links every image with the memory of the board.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo names the package's folder");
    println!("cargo:rustc-link-search={here}");
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed=memory.x");
}
