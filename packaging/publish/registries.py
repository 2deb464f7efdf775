"""The registries of languages: crates.io, PyPI and npm."""

import hashlib
import os
import re
import tempfile
from pathlib import Path

import checks
import names
from destination import READY, Destination, Failed, Item, Token, quiet, run


class Crates(Destination):
    title = "crates.io"
    tools = {"cargo": ""}

    def to(self):
        return "crates.io"

    def crates(self):
        return checks.Crates(self.release.root)

    def items(self):
        found = []
        for name in self.crates().order():
            path = self.folder() / "package" / f"{name}-{self.release.version}.crate"
            found.append(Item(name, path if path.exists() else None))
        return found

    def folder(self):
        return self.release.staged / "crates"

    def credentials(self):
        return [Token("CARGO_REGISTRY_TOKEN", ".cargo/credentials.toml",
                     "https://crates.io/settings/tokens makes a token with the scopes publish-new"
                     " and publish-update")]

    def published(self, item):
        name = f"{item.name}@{self.release.version}"
        # In the checkout, cargo would describe the crate of the workspace.
        done = quiet(["cargo", "info", "--quiet", "--registry", "crates-io", name], cwd="/")
        if done.returncode == 0:
            return True
        return False if "could not find" in done.stderr else None

    def rehearse(self):
        packages = [word for name in self.crates().order() for word in ("--package", name)]
        run(["cargo", "package", "--quiet", "--locked", "--no-verify", "--allow-dirty",
             "--target-dir", str(self.folder()), *packages], cwd=self.release.root)

    def command(self, name):
        # `make verify ONLY=crates-test` builds a program from the packages.
        return ["cargo", "publish", "--locked", "--no-verify", "--registry", "crates-io",
                "--package", name]

    def commands(self):
        return [self.command(name) for name in self.crates().order()]

    def publish(self, item):
        """Publishes a crate. cargo waits until the crates that follow can depend on it."""
        try:
            run(self.command(item.name), cwd=self.release.root)
        except Failed as failed:
            # The index may not show yet what an interrupted run has published.
            if not re.search("already (exists|uploaded)", failed.output):
                raise
            print(f"    {item.name} {self.release.version} is already published")


class Python(Destination):
    title = "PyPI"
    tools = {"twine": "twine"}

    WHEELS = [f"{python}-{system}_{machine}"
              for python in ("cp311-abi3", "cp314-cp314t")
              for system in ("manylinux_2_28", "musllinux_1_2")
              for machine in ("x86_64", "aarch64")]

    def to(self):
        return "pypi.org"

    def distribution(self):
        return self.release.owner["names.python"]

    def items(self):
        start = f"{names.in_files_of_pip(self.distribution())}-{self.release.version}"
        ends = [*(f"-{wheel}.whl" for wheel in self.WHEELS), ".tar.gz"]
        return [self.release.item(self.release.dist / "python" / f"{start}{end}",
                                  "make dist-python") for end in ends]

    def credentials(self):
        return [Token("TWINE_PASSWORD", ".pypirc",
                     "https://pypi.org/manage/account/token makes a token; the first release needs"
                     " one for the whole account")]

    def published(self, item):
        # The index has no command that lists the files of a version. twine skips those that it has.
        return False

    def rehearse(self):
        run(["twine", "check", "--strict", *self.files()])

    def files(self):
        return [str(item.file) for item in self.items() if item.state == READY]

    def command(self, path):
        # Only for pypi.org, twine can skip files.
        return ["twine", "upload", "--repository", "pypi", "--non-interactive", "--skip-existing",
                path]

    def commands(self):
        return [self.command(str(self.release.dist / "python" / "FILE"))]

    def publish(self, item):
        user = os.environ.get("TWINE_USERNAME", "__token__")
        run(self.command(str(item.file)), TWINE_USERNAME=user)


class Node(Destination):
    title = "npm"
    tools = {"npm": "npm"}

    PLATFORMS = ("linux-x64-gnu", "linux-arm64-gnu", "linux-x64-musl", "linux-arm64-musl")

    def to(self):
        return os.environ.get("npm_config_registry") or "https://registry.npmjs.org/"

    def items(self):
        """Returns the packages of the platforms, then the one that names them as dependencies."""
        package = self.release.owner["names.node"]
        folder = self.release.dist / "node"
        found = []
        for name in [*(f"{package}-{platform}" for platform in self.PLATFORMS), package]:
            file = f"{names.in_files_of_npm(name)}-{self.release.version}.tgz"
            found.append(self.release.item(folder / file, "make dist-node", name))
        return found

    def credentials(self):
        return [Token("NPM_TOKEN", None,
                     "https://docs.npmjs.com/creating-and-viewing-access-tokens: a granular token"
                     " with read and write access to packages")]

    def npm(self, arguments, call, **more):
        """Runs npm with the token of the environment. Its file has only its name."""
        place = re.sub(r"^https?:", "", self.to()).rstrip("/")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "npmrc"
            path.write_text(f"{place}/:_authToken=${{NPM_TOKEN}}\n", encoding="utf-8")
            return call(["npm", "--userconfig", str(path), *arguments], cwd=folder,
                        npm_config_registry=self.to(), **more)

    def published(self, item):
        name = f"{item.name}@{self.release.version}"
        words = ["view", "--fetch-retries", "0", name, "dist.shasum"]
        done = self.npm(words, quiet, NPM_TOKEN="")
        # npm prints nothing for a version that does not exist, and fails without the package.
        if done.returncode:
            return False if "E404" in done.stderr else None
        there = done.stdout.strip()
        if there and item.state == READY:
            # npm describes packages by SHA-1.
            here = hashlib.sha1(item.file.read_bytes()).hexdigest()
            if here != there:
                raise Failed(f"npm has another {name} (SHA-1 {there[:12]}, here {here[:12]}):"
                             " release another version")
        return bool(there)

    def rehearse(self):
        for item in self.items():
            if item.state == READY:
                self.npm(["publish", "--dry-run", "--json", str(item.file)], run, NPM_TOKEN="none")

    def command(self, path):
        return ["publish", "--access", "public", path]

    def commands(self):
        folder = self.release.dist / "node"
        files = ("PLATFORM.tgz", "PACKAGE.tgz")
        return [["npm", *self.command(str(folder / file))] for file in files]

    def publish(self, item):
        try:
            self.npm(self.command(str(item.file)), run)
        except Failed as failed:
            if "cannot publish over" not in failed.output:
                raise
            print(f"    {item.name} {self.release.version} is already published")
