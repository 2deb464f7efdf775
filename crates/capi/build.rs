//! Names the shared library in programs that link it. The number is the version of the interface.

fn main() {
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match system.as_str() {
        "macos" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/liblarder.1.dylib");
        }
        "windows" => {}
        _ => println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblarder.so.1"),
    }
    println!("cargo::rerun-if-changed=build.rs");
}
