"""The release that a checkout describes, and its built files."""

import hashlib
import os
import tarfile

import checks
import owner
from destination import DIFFERS, MISSING, READY, Item, quiet

DEB_ARCHITECTURES = ("amd64", "arm64")
PROGRAMS = ("amd64", "amd64-musl", "arm64", "arm64-musl")


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Release:
    """The version, the commit, the choices of the owner, and the folders of built files."""

    def __init__(self, root):
        self.root = root
        self.owner = owner.read(root)
        self.version = checks.version_of(root)
        self.tag = f"v{self.version}"
        self.commit = checks.git(root, "rev-parse", "HEAD")[1]
        self.time = int(checks.git(root, "show", "--no-patch", "--format=%ct", "HEAD")[1] or 0)
        self.target = (root / os.environ.get("CARGO_TARGET_DIR", "target")).resolve()
        self.dist = self.target / "dist"
        # Everything that publishing writes on this machine.
        self.staged = self.target / "publish"
        self.key = os.environ.get("LARDER_SIGN_KEY") or self.owner["people.signing_key"]
        self.revision = os.environ.get("LARDER_DEB_REVISION", "1")

    def item(self, path, build, name=None):
        """Returns a built file as a thing to publish. `build` is the command that builds it."""
        item = Item(name or path.name, path)
        if not path.is_file():
            item.state, item.advice = MISSING, build
        elif path.stat().st_mtime < self.time:
            item.state, item.advice = DIFFERS, f"it is older than the commit: {build}"
        return item

    def debs(self, with_php=True):
        """Returns the Debian packages. Those of the other architecture are built on a machine with
        that architecture, copied to target/dist, and signed with the others (sign.sh); a release
        can do without them. So are packages of PHP's extensions, one for each PHP."""
        packages = ("larder", "liblarder1", "liblarder1-dbgsym", "liblarder-dev")
        found = []
        for architecture in DEB_ARCHITECTURES:
            for package in packages:
                name = f"{package}_{self.version}-{self.revision}_{architecture}.deb"
                is_other = architecture != self.architecture()
                where = f" on a machine with {architecture}" if is_other else ""
                item = self.item(self.dist / name, f"make dist{where}")
                item.is_optional = is_other
                found.append(item)
        if not with_php:
            return found
        php = sorted((self.dist / "php").glob(f"*_{self.version}-{self.revision}_*.deb"))
        return found + [self.item(path, "make -C php deb") for path in php]

    def architecture(self):
        """Returns Debian's name of this machine's architecture."""
        return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)

    def rpms(self):
        return [self.item(self.dist / f"larder-{self.version}-{self.revision}.{machine}.rpm",
                          "make dist") for machine in ("x86_64", "aarch64")]

    def tarballs(self):
        found = []
        for programs in PROGRAMS:
            path = self.dist / f"larder-{self.version}-linux-{programs}.tar.gz"
            found.append(self.item(path, "make dist"))
            if found[-1].state == READY and not self.contains_commit(path):
                found[-1].state = DIFFERS
                found[-1].advice = f"its larder is not of commit {self.commit[:12]}: make dist"
        return found

    def contains_commit(self, path):
        """Returns true if the program in a tarball was built from the commit of the checkout."""
        name = f"{path.name.removesuffix('.tar.gz')}/bin/larder"
        try:
            with tarfile.open(path) as packed:
                return self.commit[:12].encode() in packed.extractfile(name).read()
        except (KeyError, OSError, tarfile.TarError):
            return False

    def signed(self):
        """Checks SHA256SUMS of target/dist, and its signature. Returns problems as lines."""
        again = "run make dist LARDER_SIGN_KEY=FINGERPRINT"
        sums = self.dist / "SHA256SUMS"
        if not sums.is_file():
            return [f"target/dist has no SHA256SUMS, expected signed files of a release: {again}"]
        lines = [line.split("  ", 1) for line in sums.read_text(encoding="utf-8").splitlines()]
        if not all(len(line) == 2 for line in lines):
            return [f"SHA256SUMS has a line that is not CHECKSUM  FILE: {again}"]
        listed = {name: checksum for checksum, name in lines}
        files = {path.name for path in self.dist.iterdir() if path.is_file()}
        problems = [f"target/dist/{name} is not in SHA256SUMS: {again}" for name in
                    sorted(files - listed.keys() - {"SHA256SUMS", "SHA256SUMS.asc"})]
        for name, expected in listed.items():
            if name not in files:
                problems.append(f"SHA256SUMS lists {name}, which is not in target/dist: {again}")
            elif sha256(self.dist / name) != expected:
                problems.append(f"target/dist/{name} has changed since SHA256SUMS was written, "
                                f"expected checksum {expected[:12]}…: {again}")
        if not (self.dist / "SHA256SUMS.asc").is_file():
            return [*problems, f"target/dist has no SHA256SUMS.asc, so it is not signed: {again}"]
        done = quiet(
            ["gpg", "--batch", "--status-fd", "2", "--verify", "SHA256SUMS.asc", "SHA256SUMS"],
            cwd=self.dist)
        if done.returncode == 127:
            return [*problems, "gpg is missing, which verifies SHA256SUMS.asc: apt-get install gpg"]
        return problems + checks.by_key(self.owner, done.stderr, "SHA256SUMS", again)

