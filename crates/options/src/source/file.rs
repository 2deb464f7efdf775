//! Options from the text of a TOML file.

use std::{path::Path, sync::Arc};

use toml::de::{DeTable, DeValue};

use crate::error::OptionError;
use crate::given::nearest;
use crate::given::values::{Origin, Values};
use crate::table::Id;
use crate::table::kind::Kind;

/// Parses the text of a file, and collects the errors. `path` is only for error messages.
pub(crate) fn read(text: &str, path: &Path, errors: &mut Vec<OptionError>) -> Values {
    let path: Arc<Path> = path.into();
    let mut values = Values::none();
    let line = |offset: usize| {
        let before = &text.as_bytes()[..offset.min(text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    };
    let wrong =
        |line: usize, what: String| OptionError::new(format!("{}:{line}: {what}", path.display()));
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            errors.push(wrong(line(offset), error.message().replace('\n', ", ")));
            return values;
        }
    };
    let table = table.get_ref();
    for name in table.keys() {
        if !configurable().any(|id| id.row().name == name.get_ref().as_ref()) {
            let given = name.get_ref();
            let hint = nearest::hint_or(given, nearest::in_a_file(), "larderd -h lists all");
            let what = format!("{given:?}: no such option{hint}");
            errors.push(wrong(line(name.span().start), what));
        }
    }
    for id in configurable() {
        let row = id.row();
        let Some((name, value)) = table.get_key_value(row.name) else { continue };
        let line = line(name.span().start);
        let text = as_text(value.get_ref(), row.kind).ok_or_else(|| {
            let found = value.get_ref().type_str();
            wrong(line, format!("{}: {found} is not {}", row.name, row.kind.expected()))
        });
        let origin = Origin::File(Arc::clone(&path), line);
        errors.extend(text.and_then(|text| values.set(id, &text, &origin)).err());
    }
    values
}

fn configurable() -> impl Iterator<Item = Id> {
    Id::ALL.iter().copied().filter(|id| id.row().is_configurable())
}

/// Returns the value as written on the command line.
fn as_text(value: &DeValue<'_>, kind: Kind) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(on) => Some(if *on { "yes" } else { "no" }.to_owned()),
        // Permissions are octal with and without TOML's 0o.
        DeValue::Integer(number) if number.radix() == 10 || kind == Kind::Mask => {
            Some(number.as_str().to_owned())
        }
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Array(members) if [Kind::Listen, Kind::AdminListen].contains(&kind) => members
            .iter()
            .map(|member| member.get_ref().as_str())
            .collect::<Option<Vec<_>>>()
            .map(|members| members.join(";")),
        DeValue::Array(_) | DeValue::Table(_) | DeValue::Datetime(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Values, String> {
        let mut errors = Vec::new();
        let values = super::read(text, Path::new("larder.toml"), &mut errors);
        errors.into_iter().next().map_or(Ok(values), |error| Err(error.message))
    }

    #[test]
    fn values_have_tomls_types_or_are_texts_as_on_the_command_line() {
        let values = read(
            "port = 0x10\nmemory_limit = \"1g\"\nconn_limit = 10_000\ndisable_cas = true\n\
             unix_mask = 0o770\nlisten = [\"127.0.0.1\", \"[::1]:3\", \"unix[mode=600,readers]:/s\"]\nhot_max_factor = 1\n\
             warm_max_factor = 2.5\nverbose = 2\nmaxconns_fast = \"no\"\n\
             admin_listen = [\"127.0.0.1:9150,role=probe\", \"/run/s,mode=660\"]\n",
        )
        .unwrap();
        assert_eq!(values.number(Id::Port), Some(16));
        assert_eq!(values.bytes(Id::MemoryLimit), 1 << 30);
        assert_eq!(values.number(Id::ConnLimit), Some(10_000));
        assert!(values.switch(Id::DisableCas));
        assert_eq!(values.mask(Id::UnixMask), 0o770);
        assert_eq!(
            crate::value::listen::text(&values.listen(Id::Listen)),
            "127.0.0.1,[::1]:3,unix[mode=600,readers]:/s"
        );
        let admin = crate::value::admin::text(&values.admin_listen(Id::AdminListen));
        assert_eq!(admin, "127.0.0.1:9150,role=probe;/run/s,mode=660");
        assert!(values.real(Id::WarmMaxFactor) > values.real(Id::HotMaxFactor));
        assert_eq!(values.number(Id::Verbose), Some(2));
        assert!(!values.switch(Id::MaxconnsFast));
    }

    #[test]
    fn an_error_names_the_file_and_the_line() {
        for (text, message) in [
            (
                "port = 1\n\nprot = 2\n",
                "larder.toml:3: \"prot\": no such option; did you mean port?",
            ),
            ("config = \"x\"\n", "larder.toml:1: \"config\": no such option; larderd -h lists all"),
            ("[port]\n", "larder.toml:1: port: table is not a number from -1 to 65535"),
            ("\nport = 70000", "larder.toml:2: port: \"70000\" is not a number from -1 to 65535"),
            ("unix_socket = [1]", "larder.toml:1: unix_socket: array is not a path"),
            (
                "port = 1\nproxy_config = \"x\"",
                "larder.toml:2: proxy_config: refused: Larder has no proxy; memcached's can run in \
                 front of it",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), message, "{text}");
        }
        let error = read("port = 1\nport = ").unwrap_err();
        assert!(error.starts_with("larder.toml:2: "), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert!(read("\u{0}\u{e9}").unwrap_err().starts_with("larder.toml:1: "));
    }

    #[test]
    fn a_set_of_words_does_not_override_a_word_of_the_same_file() {
        let values = read("lru_crawler = true\nno_modern = true\n").unwrap();
        assert!(values.switch(Id::LruCrawler));
        assert!(!values.switch(Id::LruMaintainer));
    }

    #[test]
    fn a_feature_may_be_switched_off_explicitly() {
        assert!(read("enable_ssl = false").is_ok());
    }
}
