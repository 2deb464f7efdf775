//! Passes the linker options of a native module of Node.

fn main() {
    napi_build::setup();
}
