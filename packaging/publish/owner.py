"""Reads the choices of the owner: owner.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = "packaging/owner.toml"

WORD = r"[a-z0-9]+(?:-[a-z0-9]+)*"
# The form of each choice, and its description for the error message.
FORMS = {
    "names.repository": (r"https://[^\s/]+/\S*[^\s/](?<!\.git)",
                         "an https address without a final slash or .git"),
    "names.reviewers": (r"@[\w.-]+(/[\w.-]+)?", "@USER or @ORGANIZATION/TEAM"),
    "names.go": (r"[a-z0-9-]+(\.[a-z0-9-]+)+(/[\w.~-]+)*",
                 "a path whose first element has a dot"),
    "names.python": (WORD, "small letters, digits and single hyphens"),
    "names.python_module": (r"[a-z][a-z0-9]*(_[a-z0-9]+)*",
                            "small letters, digits and single underscores"),
    "names.node": (rf"(@{WORD}/)?{WORD}", "NAME or @SCOPE/NAME of small letters and hyphens"),
    "names.php": (rf"{WORD}/{WORD}", "VENDOR/PACKAGE of small letters and hyphens"),
    "destinations.php_repository": (r"\S+", "an address of git"),
    "destinations.site": (r"\S+[^\s/]", "HOST:FOLDER of rsync, or a folder"),
    "destinations.site_url": (r"(https?|file)://\S*[^\s/]", "an address without a final slash"),
    "destinations.image": (r"[\w.:-]+(/[\w.-]+)+", "REGISTRY/NAME without a tag"),
    "destinations.charts": (r"oci://\S*[^\s/]", "oci://REGISTRY/FOLDER"),
    "people.maintainer": (r"[^<>\n]+", "a name"),
    "people.mail": (r"[^\s<>@]+@[^\s<>@]+", "a mail address"),
    "people.signing_key": (r"([0-9A-F]{40})?", "a fingerprint of 40 digits without spaces"),
}


class Mistake(Exception):
    """A choice that cannot be used."""


class Owner:
    """The choices. `owner["names.go"]` is one of them."""

    def __init__(self, text):
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Mistake(f"{FILE} is not TOML: {error}") from None
        self.choices = {
            f"{table}.{key}": value
            for table, keys in tables.items() if isinstance(keys, dict)
            for key, value in keys.items()
        }
        unknown = sorted({*self.choices, *tables} - {*FORMS, "names", "destinations", "people"})
        missing = sorted(FORMS.keys() - self.choices)
        if unknown or missing:
            raise Mistake(f"{FILE}: unknown {unknown}, missing {missing}; expected {sorted(FORMS)}")
        for key, (form, description) in FORMS.items():
            value = self.choices[key]
            if not isinstance(value, str) or not re.fullmatch(form, value):
                raise Mistake(f"{FILE}: {key} is {value!r}, expected {description}")

    def __getitem__(self, key):
        return self.choices[key]

    def is_chosen(self, key):
        """Returns false for values that are empty or below a domain that cannot exist."""
        value = self.choices[key]
        placeholder = r"\.(example|invalid|test)(?![\w.-])|@localhost\b"
        return bool(value) and not re.search(placeholder, value)

    def undecided(self):
        """Returns the choices that the owner has not made, as lines."""
        return [f"{key} is {self.choices[key]!r}: choose the final one, {FORMS[key][1]}"
                for key in FORMS if not self.is_chosen(key)]


def read(root=ROOT):
    path = root / FILE
    try:
        return Owner(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Mistake(f"{FILE}: {error.strerror}") from None
