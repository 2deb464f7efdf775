//! Compares c/include/larder.h with this crate. With `LARDER_BLESS=1` the test writes the
//! header: `make header`.

use std::path::Path;
use std::{env, fs};

/// Converts the Rust comments for C: removes links, and removes the safety sections, which the top
/// of the header replaces. Shortens LARDER_STATUS_OK to LARDER_OK, because C has one namespace for
/// all constants.
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
    // Also removes the empty comment line before a safety section.
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
    let header = folder.join("../../c/include/larder.h");
    if env::var_os("LARDER_BLESS").is_some() {
        fs::write(&header, &made).unwrap();
    }
    let committed = fs::read_to_string(&header).unwrap_or_default();
    assert!(
        made == committed,
        "larder.h differs from the crate: run `make header` and review the diff"
    );
}
