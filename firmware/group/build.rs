//! Links the images with the script of cortex-m-rt, which includes the board's memory.x.

fn main() {
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
}
