"""Checks that a checkout can be published: versions, changelog, git, crates, names.

Each check returns problems as lines: what is wrong, what was expected, and what to do."""

import datetime
import json
import re
import shutil
import subprocess
import tomllib

import names
import owner

# Files that contain the version, with the text around it. A file may have several lines of a form.
VERSIONS = {
    "node/package.json": r'^    "version": "(.*)",$',
    "node/package-lock.json": r'^    "version": "(.*)",$',
    "deploy/helm/Chart.yaml": r"^(?:v|appV)ersion: (.*)$",
    "deploy/kubernetes/larder.yaml": r'(?:/version: |image: "larder:)([^"\s]+)',
    "deploy/kubernetes/servicemonitor.yaml": r"/version: (\S+)",
    "php/src/larder/larder_php.h": r'LARDER_PHP_VERSION "(.*)"',
    "php/dropins/wordpress/object-cache.php": r"^ \* Version: (.*)$",
}


def git(root, *arguments):
    """Runs git. Returns its exit status and its output without the final newline."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    return done.returncode, done.stdout.rstrip("\n")


def manifest(root):
    return tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]


def version_of(root):
    """Returns the version of the checkout, which Cargo.toml has."""
    return manifest(root)["package"]["version"]


def versions(root):
    """Checks that each file has the version of Cargo.toml."""
    version = version_of(root)
    found = [(f"Cargo.toml, {name} in [workspace.dependencies]", of["version"])
             for name, of in manifest(root)["dependencies"].items()
             if isinstance(of, dict) and "path" in of and "version" in of]
    lock = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))
    found += [(f"Cargo.lock, {of['name']}", of["version"])
              for of in lock["package"] if "source" not in of]
    problems = []
    for path, pattern in VERSIONS.items():
        lines = re.findall(pattern, (root / path).read_text(encoding="utf-8"), re.M)
        if not lines:
            problems.append(f"{path} has no version, expected a line {pattern}")
        found += [(path, line) for line in lines]
    locked = json.loads((root / "node/package-lock.json").read_text(encoding="utf-8"))
    found.append(("node/package-lock.json, packages", locked["packages"][""]["version"]))
    return problems + [
        f"{place} has version {other}, expected {version} of Cargo.toml: change one of them"
        for place, other in dict.fromkeys(found) if other.removeprefix("=") != version
    ]


def changelog(root):
    """Checks that the changelog has a section of the version with a date and entries."""
    version = version_of(root)
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    entries = dict(section.partition("\n")[::2] for section in sections)
    problems = []
    if re.search(r"^- ", entries.get("Unreleased", ""), re.M):
        problems.append(f"CHANGELOG.md has entries under Unreleased, which are in version {version}"
                        f" also: write the heading ## {version} - YYYY-MM-DD above them")
    heading = next((of for of in entries if of.split(" ")[0] == version), None)
    if heading is None:
        return [*problems, f"CHANGELOG.md has no section of {version}, expected"
                           f" ## {version} - YYYY-MM-DD: write it, or change the version"]
    date = heading.removeprefix(version).removeprefix(" - ")
    try:
        day = datetime.date.fromisoformat(date)
    except ValueError:
        return [*problems, f"CHANGELOG.md has the heading ## {heading}, expected"
                           f" ## {version} - YYYY-MM-DD: add the date of the release"]
    if day > datetime.datetime.now(datetime.UTC).date():
        problems.append(f"CHANGELOG.md dates {version} {date}, which is in the future: correct it")
    if not entries[heading].strip():
        problems.append(f"the section {heading} of CHANGELOG.md is empty: describe the release")
    return problems


def checkout(root):
    """Checks that the checkout is the commit of a signed tag, without changes."""
    problems = []
    status, changed = git(root, "status", "--porcelain")
    if status:
        return [f"{root} is not a checkout of git: publish from a clone of the repository"]
    if changed:
        first = ", ".join(line[3:] for line in changed.splitlines()[:3])
        problems.append(f"the checkout has {len(changed.splitlines())} changed files ({first} …),"
                        " expected none: commit or remove them")
    tag = f"v{version_of(root)}"
    status, tagged = git(root, "rev-parse", "--quiet", "--verify", f"refs/tags/{tag}^{{commit}}")
    if status:
        return [*problems, f"the tag {tag} does not exist: run git tag --sign {tag}"]
    head = git(root, "rev-parse", "HEAD")[1]
    if tagged != head:
        problems.append(f"the tag {tag} is at commit {tagged[:12]}, and HEAD is {head[:12]}: check"
                        f" the tag out (git checkout {tag}), or release another version")
    return problems + signed_tag(root, tag)


def signed_tag(root, tag):
    """Checks that the key of owner.toml has signed a tag."""
    again = f"sign it again: git tag --sign --force {tag} {tag}^{{}}"
    if "-----BEGIN PGP SIGNATURE-----" not in git(root, "cat-file", "tag", f"refs/tags/{tag}")[1]:
        return [f"the tag {tag} has no signature of gpg: {again}"]
    done = subprocess.run(["git", "verify-tag", "--raw", tag], cwd=root, capture_output=True,
                          text=True)
    return by_key(owner.read(root), done.stderr, f"the tag {tag}", again)


def by_key(choices, said, what, again):
    """Checks the status lines that gpg has printed about a signature."""
    made_by = re.findall(r"^\[GNUPG:\] VALIDSIG (?:.* )?([0-9A-F]{40})$", said, re.M)
    if not made_by:
        reason = re.findall(r"^\[GNUPG:\] (BADSIG|EXPKEYSIG|REVKEYSIG|NO_PUBKEY).*$", said, re.M)
        return [f"gpg does not accept the signature of {what} ({', '.join(reason) or 'no key'}):"
                f" import the public key of the release, or {again}"]
    key = choices["people.signing_key"]
    if key and key not in made_by:
        return [f"the key {made_by[0]} has signed {what}, expected people.signing_key {key} of"
                f" {owner.FILE}: {again}"]
    return []


def same_names(root):
    """Checks that the files have the names of owner.toml."""
    wanted = owner.read(root)
    return [f"{line}: run make names" for line in names.differences(root, wanted)]


class Crates:
    """The crates of the workspace that can be published."""

    def __init__(self, root):
        self.root = root
        if not shutil.which("cargo"):
            raise owner.Mistake("cargo is missing, which describes the crates: README.md names it")
        done = subprocess.run(
            ["cargo", "metadata", "--format-version=1", "--no-deps", "--offline", "--locked"],
            cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise owner.Mistake(f"cargo metadata failed: {done.stderr.strip()}")
        self.all = {of["name"]: of for of in json.loads(done.stdout)["packages"]}
        self.published = {name: of for name, of in self.all.items() if of["publish"] is None}

    def needs(self, name):
        """Returns the crates of the workspace that a crate depends on. Cargo removes dependencies
        of tests without a version from a published crate."""
        return sorted({of["name"] for of in self.published[name]["dependencies"]
                       if of.get("path") and (of["kind"] != "dev" or of["req"] != "*")})

    def order(self):
        """Returns the crates, each after those that it depends on."""
        found = []

        def add(name, path=()):
            if name in path:
                raise owner.Mistake(f"crates depend on each other: {' -> '.join([*path, name])}")
            if name in self.published and name not in found:
                for needed in self.needs(name):
                    add(needed, (*path, name))
                found.append(name)

        for name in sorted(self.published):
            add(name)
        return found

    def problems(self):
        return [line for name, of in self.published.items() for line in self.wrong(name, of)]

    def wrong(self, name, of):
        folder = self.root / of["manifest_path"].rpartition("/")[0]
        path = f"{folder.relative_to(self.root)}/Cargo.toml"
        for field in ("description", "license", "repository", "readme"):
            if not of[field]:
                yield f"{path} has no {field}, which crates.io shows: add it"
        if of["readme"] and not (folder / of["readme"]).is_file():
            yield f"{path} names the readme {of['readme']}, which does not exist: correct it"
        if not (folder / "LICENSE").is_file():
            yield f"{path.removesuffix('Cargo.toml')}LICENSE is missing: link to ../../LICENSE"
        for dependency in of["dependencies"]:
            needed = dependency["name"]
            if dependency.get("path") and dependency["kind"] != "dev":
                if needed not in self.published:
                    yield f"{path} depends on {needed}, which has publish = false: publish it also"
                elif dependency["req"] == "*":
                    yield f"{path} depends on {needed} without a version: add it to Cargo.toml"


def all_of(root):
    """Returns all problems of a checkout."""
    return [line for check in (same_names, versions, changelog, checkout, lambda of:
                               Crates(of).problems()) for line in check(root)]
