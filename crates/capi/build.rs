//! Sets the soname of the shared library. Its number is the version of the interface.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblarder.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
