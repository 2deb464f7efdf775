//! Gives the shared library the name by which programs ask for it: another interface has another number.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblarder.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
