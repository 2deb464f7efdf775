//! The regions that readers in other languages are held to can be made. Those readers' tests make them, and look.

#[path = "../examples/region_cases.rs"]
#[allow(dead_code, reason = "the main of the example")]
mod region_cases;

#[test]
fn every_scene_of_the_region_cases_can_be_made() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    region_cases::write_to(folder.path())?;
    let cases = std::fs::read_to_string(folder.path().join("kinds.json"))?;
    assert!(cases.lines().filter(|line| line.contains("true")).count() > 300, "{}", cases.len());
    Ok(())
}
