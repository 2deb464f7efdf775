//! bindings/c/include/larder.h is what this crate has. `LARDER_BLESS=1 cargo test -p larder-capi header` writes it anew.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::path::Path;
use std::{env, fs};

/// What Rust says of safety is said at the head of the page, and C has no links. LARDER_OK reads better than
/// LARDER_STATUS_OK, for C has one room for all constants.
fn for_c(page: &str) -> String {
    let mut text = String::new();
    let mut is_safety = false;
    for line in page.lines() {
        is_safety = line.starts_with("//") && (is_safety || line == "// # Safety");
        if !is_safety {
            text.push_str(line);
            text.push('\n');
        }
    }
    // Functions follow each other after an empty line, without the one that led to the safety.
    let text =
        text.replace("\n//\n\n", "\n").replace("//\nenum ", "enum ").replace("//\nvoid ", "void ");
    text.replace("LARDER_STATUS_", "LARDER_").replace("[`", "`").replace("`]", "`")
}

#[test]
fn the_header_is_what_the_crate_has() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_crate(folder)
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut made);
    let made = for_c(&String::from_utf8(made).unwrap());
    let header = folder.join("../../bindings/c/include/larder.h");
    if env::var_os("LARDER_BLESS").is_some() {
        fs::write(&header, &made).unwrap();
    }
    let committed = fs::read_to_string(&header).unwrap_or_default();
    assert!(
        made == committed,
        "larder.h is not what the crate has: run `make header`, and look at what has changed"
    );
}
