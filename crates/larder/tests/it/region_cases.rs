//! Checks that the regions for readers in other languages can be created. The tests of those
//! readers create and read them.

#[path = "../../examples/region_cases.rs"]
#[allow(dead_code, reason = "the main of the example")]
mod example;

#[test]
fn every_region_case_can_be_created() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    example::write_to(folder.path())?;
    let cases = std::fs::read_to_string(folder.path().join("kinds.json"))?;
    assert!(cases.lines().filter(|line| line.contains("true")).count() > 300, "{}", cases.len());
    Ok(())
}
