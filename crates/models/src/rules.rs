//! Rules of a protocol, each of which a search can switch off.

/// Declares the enum `Rule` of a model: a name and a sentence for each rule.
#[macro_export]
macro_rules! rules {
    ($($name:ident => $text:literal,)*) => {
        /// A rule of the protocol. Without it, some order of the steps breaks a promise.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Rule {
            $(#[doc = $text] $name,)*
        }

        impl Rule {
            pub(crate) const ALL: &[Rule] = &[$(Rule::$name,)*];
        }

        impl std::fmt::Display for Rule {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Rule::$name => write!(f, "{}: {}", stringify!($name), $text),)*
                }
            }
        }
    };
}

/// The rules in force: all, or all but some.
#[derive(Clone, Copy, Debug)]
pub struct Rules<R: 'static> {
    broken: &'static [R],
}

impl<R: PartialEq> Rules<R> {
    /// All rules.
    pub const ALL: Self = Self { broken: &[] };

    /// All rules but these.
    pub fn without(broken: &'static [R]) -> Self {
        Self { broken }
    }

    /// True if the rule is in force.
    pub fn keep(self, rule: R) -> bool {
        !self.broken.contains(&rule)
    }
}
