"""The expected result of each file of memcached's suite: expected.toml, and the table of
docs/conformance.md."""

import dataclasses
import json
import pathlib
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parent
TABLE = FOLDER / "expected.toml"
DOCS = FOLDER.parents[1] / "docs" / "conformance.md"
BEGIN = "<!-- memcached's suite: written by `make docs` from conformance/memcached/expected.toml -->\n"
END = "<!-- end -->\n"
QUICK_SECS = 6

HEADER = """\
# The expected result of every file of memcached 1.6.18's suite with larderd. `suite.py --bless`
# writes this file. These fields are edited by hand:
#
#   class    A: behaviour that clients can observe. B: internals of memcached. -: not for a server
#   why      the reason for the differences
#   tls      the file runs with TLS switched on
#
# The other fields come from runs: the number of `checks`, the names of the checks that differ,
# whether the file stops before its end, whether it skips its tests, and how long it took.
"""


@dataclasses.dataclass
class Result:
    """The result of one run of a file."""

    checks: int
    differs: list[str]
    stops: bool
    skipped: str | None
    secs: float
    errors: str

    def __str__(self):
        if self.skipped is not None:
            return f"skipped: {self.skipped}"
        text = f"{self.checks - len(self.differs)} of {self.checks}"
        if self.stops:
            text += ", stops before its end"
        return text + "".join(f"\n    differs: {name}" for name in self.differs[:20])


@dataclasses.dataclass
class File:
    """The expected result of a file."""

    # `class` in the table.
    kind: str
    checks: int = 0
    differs: list[str] = dataclasses.field(default_factory=list)
    stops: bool = False
    skipped: str | None = None
    tls: bool = False
    secs: int = 0
    why: str = ""
    # Set by `with_contradictions`: the number of checks that must pass in spite of them.
    passes_at_least: int | None = dataclasses.field(default=None, init=False)

    def passes(self):
        """True if all checks pass."""
        return self.skipped is None and not self.differs and not self.stops

    def is_quick(self):
        """True if the file runs on every change."""
        return self.kind == "A" and self.secs <= QUICK_SECS and self.skipped is None and not self.stops

    def complaint_about(self, result):
        """Returns the reason why a result is worse than expected, or None."""
        if self.passes_at_least is not None:
            passing = result.checks - len(result.differs)
            is_worse = passing < self.passes_at_least
            return f"fewer checks than {self.passes_at_least}" if is_worse else None
        if result.skipped is not None:
            return None if self.skipped is not None else "the file skips its tests"
        if result.stops and not self.stops:
            return "the file stops before its end"
        unexpected = list(result.differs)
        for name in self.differs:
            if name in unexpected:
                unexpected.remove(name)
        if unexpected:
            return "; ".join(unexpected[:10])
        passing = self.checks - len(self.differs)
        if result.checks - len(result.differs) < passing:
            return f"fewer checks than {passing}"
        return None

    def learn(self, result):
        """Takes a result as the expected one."""
        self.checks, self.differs, self.stops = result.checks, result.differs, result.stops
        self.skipped = result.skipped
        if abs(result.secs - self.secs) > 2:
            self.secs = round(result.secs)


def read():
    """Returns the rows of all files, by name."""
    with TABLE.open("rb") as table:
        rows = tomllib.load(table)
    return {name: File(kind=row.pop("class"), **row) for name, row in rows.items()}


def with_contradictions(files, table, mode):
    """Lowers the expectations to the checks that can pass with a server of another kind: `table` is
    tier.toml, with the mode of the disk tier, or near.toml."""
    with open(table, "rb") as table:
        contradictions = tomllib.load(table)["contradiction"]
    for contradiction in contradictions:
        if mode not in contradiction.get("modes", [mode]):
            continue
        for name in contradiction.get("memcached_not_run", []):
            del files[name]
        for name, checks in contradiction.get("memcached", {}).items():
            if isinstance(checks, list):
                files[name].differs = files[name].differs + checks
            else:
                files[name].passes_at_least = checks


def fields(file):
    """Returns the keys and values of a row without the defaults."""
    yield "class", file.kind
    for field in dataclasses.fields(File)[1:]:
        if not field.init:
            continue
        value = getattr(file, field.name)
        if value not in (0, False, None, "", []):
            yield field.name, value


def write(files):
    """Writes the table: one line for a file without differences, a section for any other file."""
    # A JSON string or number is also valid TOML.
    lines = [HEADER]
    for name, file in sorted(files.items()):
        if file.passes() or file.skipped is not None:
            row = ", ".join(f"{key} = {json.dumps(value)}" for key, value in fields(file))
            lines.append(f"{name} = {{ {row} }}\n")
    for name, file in sorted(files.items()):
        if file.passes() or file.skipped is not None:
            continue
        lines.append(f"\n[{name}]\n")
        for key, value in fields(file):
            if key == "differs":
                lines.append("differs = [\n" + "".join(f"    {json.dumps(each)},\n" for each in value) + "]\n")
            else:
                lines.append(f"{key} = {json.dumps(value)}\n")
    TABLE.write_text("".join(lines))


def outcome(file):
    """Returns a file's cell in the document."""
    if file.skipped is not None:
        return f"skipped: {file.skipped}"
    if file.passes():
        return "passes"
    text = f"{file.checks - len(file.differs)} of {file.checks}"
    if file.stops:
        text += ", stops before its end"
    return f"{text}. {file.why}" if file.why else text


def rendered(files):
    """Returns the table of docs/conformance.md."""
    lines = [BEGIN, "\n"]
    for kind, title in (("A", "Behaviour that clients can observe"), ("B", "Internals"), ("-", "Not about a server")):
        rows = [(name, file) for name, file in sorted(files.items()) if file.kind == kind]
        whole = sum(file.passes() for _, file in rows)
        skipped = sum(file.skipped is not None for _, file in rows)
        lines.append(f"**{title}**: {len(rows)} files, {whole} pass, {skipped} are skipped, ")
        lines.append(f"{len(rows) - whole - skipped} differ.\n\n| file | checks | |\n|---|--:|---|\n")
        lines += [f"| {name} | {file.checks or ''} | {outcome(file)} |\n" for name, file in rows]
        lines.append("\n")
    return "".join(lines + [END])


def split_docs():
    """Splits the document into the text before the table, the table, and the text after it."""
    text = DOCS.read_text()
    before, rest = text.split(BEGIN)
    table, after = rest.split(END)
    return before, BEGIN + table + END, after


def docs_are_current(files):
    """True if the document has the current table."""
    return split_docs()[1] == rendered(files)


def write_docs(files):
    """Writes the table into the document."""
    before, _, after = split_docs()
    DOCS.write_text(before + rendered(files) + after)
