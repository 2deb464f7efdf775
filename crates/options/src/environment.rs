//! Options from environment variables.

use crate::error::OptionError;
use crate::row::Row;
use crate::table::Id;
use crate::values::{Origin, Values};

/// Reads the variables that begin with `LARDER_`; adds a warning about each that names no option.
pub(crate) fn read(
    variables: &[(String, String)],
    warnings: &mut Vec<String>,
) -> Result<Values, OptionError> {
    let mut values = Values::none();
    for id in Id::ALL.iter().filter(|id| id.row().is_configurable()) {
        if let Some(text) = text(variables, id.row()) {
            values.set(*id, text, &Origin::Environment)?;
        }
    }
    let unknown = variables.iter().filter(|(name, value)| {
        name.starts_with("LARDER_")
            && !is_service_link(name, value)
            && !Id::ALL.iter().any(|id| is_variable(id.row()) && id.row().variable() == *name)
    });
    warnings.extend(unknown.map(|(name, _)| format!("{name}: there is no such option")));
    Ok(values)
}

/// The file that `LARDER_CONFIG` names.
pub(crate) fn config(variables: &[(String, String)]) -> Option<&str> {
    text(variables, Id::Config.row())
}

fn text<'a>(variables: &'a [(String, String)], row: &Row) -> Option<&'a str> {
    let wanted = row.variable();
    let found =
        variables.iter().find(|(name, value)| *name == wanted && !is_service_link(name, value));
    found.map(|(_, value)| value.as_str())
}

fn is_variable(row: &Row) -> bool {
    row.is_configurable() || row.name == Id::Config.row().name
}

/// Kubernetes gives the pods beside a service named `larder` variables like `LARDER_SERVICE_HOST`,
/// `LARDER_PORT=tcp://10.0.0.1:11211` and `LARDER_PORT_11211_TCP`; they are no options.
fn is_service_link(name: &str, value: &str) -> bool {
    name.starts_with("LARDER_PORT_")
        || name.starts_with("LARDER_SERVICE_")
        || (name == "LARDER_PORT" && value.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_option_has_a_variable() {
        let mut warnings = Vec::new();
        let values = read(
            &variables(&[("LARDER_MEMORY_LIMIT", "1g"), ("LARDER_VERBOSE", "2"), ("PORT", "1")]),
            &mut warnings,
        )
        .unwrap();
        assert_eq!(values.bytes(Id::MemoryLimit), 1 << 30);
        assert_eq!(values.number(Id::Verbose), Some(2));
        assert_eq!(values.given(Id::Port), None);
        assert_eq!(warnings, [""; 0]);
    }

    #[test]
    fn a_bad_value_names_the_variable() {
        let error = read(&variables(&[("LARDER_THREADS", "0")]), &mut Vec::new()).unwrap_err();
        assert_eq!(error.message, "LARDER_THREADS: \"0\" is not a number from 1 to 1024");
    }

    #[test]
    fn a_variable_without_an_option_is_warned_about_but_not_kubernetes_service_links() {
        let mut warnings = Vec::new();
        let values = read(
            &variables(&[
                ("LARDER_PROT", "1"),
                ("LARDER_CONFIG", "f"),
                ("LARDER_PORT", "tcp://10.0.0.1:11211"),
                ("LARDER_PORT_11211_TCP_PORT", "11211"),
                ("LARDER_SERVICE_HOST", "10.0.0.1"),
            ]),
            &mut warnings,
        )
        .unwrap();
        assert_eq!(warnings, ["LARDER_PROT: there is no such option"]);
        assert_eq!(values, Values::none());
    }
}
