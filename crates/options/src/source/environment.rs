//! Options from environment variables.

use crate::error::OptionError;
use crate::given::nearest;
use crate::given::values::{Origin, Values};
use crate::table::Id;
use crate::table::row::Row;

/// Parses the variables that begin with `LARDER_`, and collects the errors. Adds a warning for each
/// one that is not the variable of an option.
pub(crate) fn read(
    variables: &[(String, String)],
    warnings: &mut Vec<String>,
    errors: &mut Vec<OptionError>,
) -> Values {
    let mut values = Values::none();
    for id in Id::ALL.iter().filter(|id| id.row().is_configurable()) {
        warnings.extend(service_in_place_of_option(variables, id.row()));
        if let Some(text) = text(variables, id.row()) {
            errors.extend(values.set(*id, text, &Origin::Environment).err());
        }
    }
    let unknown = variables.iter().filter(|(name, value)| {
        name.starts_with(PREFIX)
            && !is_service_link(name, value)
            && !Id::ALL.iter().any(|id| is_variable(id.row()) && id.row().variable() == *name)
    });
    warnings.extend(unknown.map(|(name, _)| {
        let all = "it is ignored; larderd -h lists all";
        let hint = nearest::hint_or(&name[PREFIX.len()..], nearest::in_the_environment(), all);
        format!("{name}: no such option{hint}")
    }));
    values
}

/// Returns the file that `LARDER_CONFIG` names.
pub(crate) fn config(variables: &[(String, String)]) -> Option<&str> {
    text(variables, Id::Config.row())
}

fn text<'a>(variables: &'a [(String, String)], row: &Row) -> Option<&'a str> {
    let wanted = row.variable();
    let found =
        variables.iter().find(|(name, value)| *name == wanted && !is_service_link(name, value));
    found.map(|(_, value)| value.as_str())
}

/// Returns a warning if the variable of an option contains the address of a Kubernetes service: see
/// [`is_service_link`].
fn service_in_place_of_option(variables: &[(String, String)], row: &Row) -> Option<String> {
    let wanted = row.variable();
    let is_link =
        |(name, value): &&(String, String)| *name == wanted && is_service_link(name, value);
    let (name, value) = variables.iter().find(is_link)?;
    Some(format!(
        "{name}: {value:?} is ignored: it is a service's address, not a value of this option"
    ))
}

fn is_variable(row: &Row) -> bool {
    row.is_configurable() || row.name == Id::Config.row().name
}

/// True if Kubernetes sets this variable in every pod for a service. A service named `larder` has
/// `LARDER_SERVICE_HOST`, `LARDER_PORT=tcp://10.0.0.1:11211` and `LARDER_PORT_11211_TCP`; one named
/// `larder-udp` has `LARDER_UDP_PORT=udp://10.0.0.2:11211` and so on. They are not options.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_of_port = name.split_once("_PORT_").is_some_and(|(_, rest)| {
        let (number, protocol) = rest.split_once('_').unwrap_or((rest, ""));
        number.parse::<u16>().is_ok()
            && PROTOCOLS.iter().any(|known| protocol.starts_with(&known.to_uppercase()))
    });
    is_of_port
        || name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && is_url(value))
}

/// True if the value begins with a scheme; a port never does.
fn is_url(value: &str) -> bool {
    let scheme = value.split_once("://").map_or("", |(scheme, _)| scheme);
    !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

const PREFIX: &str = "LARDER_";

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        variables: &[(String, String)],
        warnings: &mut Vec<String>,
    ) -> Result<Values, OptionError> {
        let mut errors = Vec::new();
        let values = super::read(variables, warnings, &mut errors);
        errors.into_iter().next().map_or(Ok(values), Err)
    }

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

    /// A value that is nearly the address of a service is not ignored: it is an invalid value of
    /// the option.
    #[test]
    fn an_invalid_port_is_an_error() {
        for wrong in ["x", "://", "11211/udp", "10.0.0.1:11211"] {
            read(&variables(&[("LARDER_UDP_PORT", wrong)]), &mut Vec::new()).unwrap_err();
        }
    }

    #[test]
    fn a_variable_without_an_option_is_warned_about_but_not_kubernetes_service_links() {
        let mut warnings = Vec::new();
        let values = read(
            &variables(&[
                ("LARDER_PROT", "1"),
                ("LARDER_QQ", "1"),
                ("LARDER_CONFIG", "f"),
                ("LARDER_PORT", "tcp://10.0.0.1:11211"),
                ("LARDER_PORT_11211_TCP", "tcp://10.0.0.1:11211"),
                ("LARDER_PORT_11211_TCP_PORT", "11211"),
                ("LARDER_SERVICE_HOST", "10.0.0.1"),
                ("LARDER_SERVICE_PORT", "11211"),
                ("LARDER_SERVICE_PORT_MEMCACHE", "11211"),
                ("LARDER_UDP_PORT", "udp://10.0.0.2:11211"),
                ("LARDER_UDP_PORT_11211_UDP_ADDR", "10.0.0.2"),
                ("LARDER_UDP_SERVICE_HOST", "10.0.0.2"),
                ("LARDER_METRICS_PORT", "sctp://[fd00::1]:9150"),
                ("LARDER_METRICS_PORT_9150_SCTP_PROTO", "sctp"),
            ]),
            &mut warnings,
        )
        .unwrap();
        let ignored = "is ignored: it is a service's address, not a value of this option";
        assert_eq!(
            warnings,
            [
                format!("LARDER_PORT: \"tcp://10.0.0.1:11211\" {ignored}"),
                format!("LARDER_UDP_PORT: \"udp://10.0.0.2:11211\" {ignored}"),
                "LARDER_PROT: no such option; did you mean LARDER_PORT?".to_owned(),
                "LARDER_QQ: no such option; it is ignored; larderd -h lists all".to_owned(),
            ]
        );
        assert_eq!(values, Values::none());
    }
}
