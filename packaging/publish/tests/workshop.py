"""A checkout that is ready to be published, with places on this machine, for tests."""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

import names
import owner
import renamed

VERSION = "0.1.0"
# Programs that would leave this machine. Each writes its arguments to the log. A crate, file or
# image is there after it was published; the file `fails` has a text at which a program fails, and
# `late` crates that the index of crates.io does not show yet.
STUB = """#!/bin/sh
echo "$(basename "$0") $*" >>"$STUBS/log"
if [ -s "$STUBS/fails" ]; then
    case "$*" in *"$(cat "$STUBS/fails")"*) echo "the network is down" >&2; exit 1 ;; esac
fi
for last; do :; done
case "$(basename "$0") $1" in
    "cargo info") name=${last%@*}
        grep -qx "$name" "$STUBS/crates" && ! grep -qx "$name" "$STUBS/late" && exit 0
        echo "error: could not find $last in registry" >&2; exit 101 ;;
    "cargo publish") grep -qx "$last" "$STUBS/crates" && { echo "already exists" >&2; exit 101; }
        [ -n "$CARGO_REGISTRY_TOKEN" ] || { echo "no token" >&2; exit 101; }
        echo "$last" >>"$STUBS/crates" ;;
    "cargo package") ;;
    cargo*) exec "$CARGO" "$@" ;;
    "twine upload") [ "$TWINE_USERNAME" = __token__ ] || exit 1 ;;
    "podman manifest") case $2 in
        inspect) [ -e "$STUBS/image" ] || { echo "manifest unknown" >&2; exit 125; } ;;
        push) touch "$STUBS/image" ;; esac ;;
    "helm show") [ -e "$STUBS/chart" ] || { echo "not found" >&2; exit 1; } ;;
    "helm package") tar --create --gzip --file "$3/larder-0.1.0.tgz" --directory "$4" . ;;
    "helm push") cp "$2" "$STUBS/chart" ;;
esac
"""


def run(*command, cwd, **more):
    return subprocess.run(command, cwd=cwd, env={**os.environ, **more}, check=True,
                          capture_output=True, text=True).stdout.strip()


class Workshop:
    """A copy of the checkout below a temporary folder, as a commit with a signed tag."""

    def __init__(self, npm):
        self.folder = Path(tempfile.mkdtemp(prefix="larder-publish-"))
        self.root, self.stubs = self.folder / "larder", self.folder / "stubs"
        self.home, self.site = self.folder / "home", self.folder / "site"
        for path in (self.root, self.stubs, self.home, self.site):
            path.mkdir()
        self.environment = {
            "HOME": str(self.home), "GNUPGHOME": str(self.home), "STUBS": str(self.stubs),
            "CARGO": shutil.which("cargo"), "PATH": f"{self.stubs}:{os.environ['PATH']}",
            "CARGO_HOME": os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
            "npm_config_registry": npm, "GIT_CONFIG_GLOBAL": str(self.home / "gitconfig"),
            "HELM": str(self.stubs / "helm"), "CARGO_TARGET_DIR": str(self.root / "target"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.home.chmod(0o700)
        try:
            self.key = self.make_key("release@sample.org")
            self.write_checkout()
            self.start = self.git("rev-parse", "HEAD")
            self.empty()
            self.write_dist()
        except BaseException:
            self.end()
            raise

    def end(self):
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "all"], check=False)
        shutil.rmtree(self.folder)

    def make_key(self, address):
        """Makes a key without a password. Returns its fingerprint."""
        self.run("gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "",
                 "--quick-generate-key", f"Test of Larder <{address}>", "ed25519", "sign", "1d",
                 cwd=self.home)
        listed = self.run("gpg", "--batch", "--with-colons", "--list-keys", address, cwd=self.home)
        return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))

    def run(self, *command, cwd=None, **more):
        return run(*command, cwd=cwd or self.root, **{**self.environment, **more})

    def git(self, *arguments):
        return self.run("git", *arguments)

    def restore(self):
        """Undoes changes of the checkout."""
        self.git("reset", "--quiet", "--hard", self.start)
        self.git("clean", "--quiet", "--force", "-d")
        self.git("tag", "--sign", "--force", "--message", "again", f"v{VERSION}")

    def empty(self):
        """Empties the places to which the release is published."""
        for path in (self.site, self.stubs, self.home / ".docker"):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        for name in ("source", "php"):
            shutil.rmtree(self.folder / f"{name}.git", ignore_errors=True)
            run("git", "init", "--quiet", "--bare", f"{name}.git", cwd=self.folder)
        (self.home / ".docker/config.json").write_text(
            '{"auths": {"images.sample.org": {"auth": "eDp5"}}}', encoding="ascii")
        self.write_stubs()

    def write_stubs(self):
        for name in ("cargo", "twine", "podman", "helm"):
            (self.stubs / name).write_text(STUB, encoding="utf-8")
            (self.stubs / name).chmod(0o755)
        for name in ("log", "crates", "fails", "late"):
            (self.stubs / name).touch()

    def write_checkout(self):
        renamed.copy(owner.ROOT, self.root)
        (self.home / "gitconfig").write_text(
            f"[user]\nname = Test\nemail = release@sample.org\nsigningkey = {self.key}\n"
            f"[init]\ndefaultBranch = main\n[commit]\ngpgsign = false\n"
            # The repository has an address of the Web, and is on this machine.
            f'[url "file://{self.folder}/source.git"]\n'
            f"insteadOf = {renamed.SAMPLES['names.repository']}\n", encoding="utf-8")
        renamed.choose(self.root, {
            **renamed.SAMPLES,
            "destinations.php_repository": f"file://{self.folder}/php.git",
            "destinations.site": str(self.site), "destinations.site_url": f"file://{self.site}",
            "destinations.image": "images.sample.org/sample/larder",
            "destinations.charts": "oci://images.sample.org/charts",
            "people.mail": "release@sample.org", "people.signing_key": self.key,
        })
        names.write(self.root, owner.read(self.root))
        path = self.root / "CHANGELOG.md"
        text = path.read_text(encoding="utf-8")
        unreleased, rest = text.index("## Unreleased"), text.index(f"## {VERSION}")
        path.write_text(text[:unreleased] + rest_with_date(text[rest:]), encoding="utf-8")
        self.commit("Release")

    def commit(self, message):
        """Commits everything, and tags it with a signature."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        self.git("tag", "--sign", "--force", "--message", message, f"v{VERSION}")

    def write_dist(self):
        """Writes small files with the names of the built ones, and signs them."""
        dist = self.root / "target/dist"
        shutil.rmtree(dist, ignore_errors=True)
        for folder in ("python", "node", "go"):
            (dist / folder).mkdir(parents=True)
        commit = self.git("rev-parse", "--short=12", "HEAD")
        for architecture in ("amd64", "arm64"):
            for programs in (architecture, f"{architecture}-musl"):
                write_tarball(dist / f"larder-{VERSION}-linux-{programs}.tar.gz", commit)
            programs = self.root / "target/portable" / architecture
            programs.mkdir(parents=True, exist_ok=True)
            (programs / "larder").write_text(commit, encoding="ascii")
        for name in ("larderd", "larder", "liblarder"):
            (dist / f"{name}-{VERSION}.cdx.json").write_text("{}\n", encoding="ascii")
        for machine in ("x86_64", "aarch64"):
            self.write_rpm(dist / f"larder-{VERSION}-1.{machine}.rpm", machine)
        for package in ("larder", "liblarder1", "liblarder1-dbgsym", "liblarder-dev"):
            self.write_deb(dist, package)
        self.write_go(dist / "go")
        self.write_node(dist / "node")
        for python in ("cp311-abi3", "cp314-cp314t"):
            for system in ("manylinux_2_28", "musllinux_1_2"):
                for machine in ("x86_64", "aarch64"):
                    name = f"sample_store-{VERSION}-{python}-{system}_{machine}.whl"
                    (dist / "python" / name).write_bytes(b"wheel")
        (dist / f"python/sample_store-{VERSION}.tar.gz").write_bytes(b"source")
        self.sign()

    def sign(self):
        self.run(str(self.root / "packaging/sign.sh"), "target/dist", LARDER_SIGN_KEY=self.key)

    def write_deb(self, dist, package):
        """Builds a Debian package with one file."""
        tree = self.folder / "deb"
        shutil.rmtree(tree, ignore_errors=True)
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "usr/share").mkdir(parents=True)
        (tree / "usr/share" / package).write_text(package, encoding="ascii")
        architecture = self.run("dpkg", "--print-architecture")
        (tree / "DEBIAN/control").write_text(
            f"Package: {package}\nVersion: {VERSION}-1\nArchitecture: {architecture}\n"
            "Maintainer: Test <test@sample.org>\nDescription: a test\n", encoding="ascii")
        self.run("dpkg-deb", "--root-owner-group", "--build", str(tree),
                 str(dist / f"{package}_{VERSION}-1_{architecture}.deb"))

    def write_rpm(self, path, machine):
        """Builds an RPM package without files. Without rpmbuild the file is no package."""
        if not shutil.which("rpmbuild"):
            path.write_bytes(b"rpm")
            return
        spec = self.folder / "larder.spec"
        spec.write_text(
            f"Name: larder\nVersion: {VERSION}\nRelease: 1\nSummary: A test\n"
            "License: Apache-2.0\n%description\nA test.\n%files\n", encoding="ascii")
        self.run("rpmbuild", "-bb", "--quiet", "--target", machine, "--define",
                 f"_topdir {self.folder}/rpm", "--define", "_rpmfilename %{ARCH}.rpm", str(spec))
        shutil.move(self.folder / f"rpm/RPMS/{machine}.rpm", path)

    def write_go(self, proxy):
        """Writes modules with one function each in the layout of a module proxy."""
        for end in ("", "/shared", "/prometheus", "/observe"):
            path = renamed.SAMPLES["names.go"] + end
            folder = proxy / path / "@v"
            folder.mkdir(parents=True)
            manifest = f"module {path}\n\ngo 1.21\n"
            (folder / f"v{VERSION}.mod").write_text(manifest, encoding="ascii")
            (folder / f"v{VERSION}.info").write_text(
                f'{{"Version":"v{VERSION}","Time":"2026-01-01T00:00:00Z"}}', encoding="ascii")
            with zipfile.ZipFile(folder / f"v{VERSION}.zip", "w") as packed:
                packed.writestr(f"{path}@v{VERSION}/go.mod", manifest)
                packed.writestr(f"{path}@v{VERSION}/larder.go", "package larder\n")

    def write_node(self, folder):
        """Packs packages that npm accepts."""
        name = renamed.SAMPLES["names.node"]
        for end in ("-linux-x64-gnu", "-linux-arm64-gnu", "-linux-x64-musl", "-linux-arm64-musl",
                    ""):
            text = f'{{"name":"{name}{end}","version":"{VERSION}","license":"Apache-2.0"}}'
            file = f"{names.in_files_of_npm(name + end)}-{VERSION}.tgz"
            write_packed(folder / file, {"package/package.json": text.encode()})

    def publish(self, *arguments, **more):
        """Runs the program. Returns its status and output."""
        tokens = {"CARGO_REGISTRY_TOKEN": "c", "TWINE_PASSWORD": "t", "NPM_TOKEN": "n"}
        done = subprocess.run(
            ["python3", str(self.root / "packaging/publish/publish.py"), *arguments],
            cwd=self.root, env={**os.environ, **self.environment, **tokens, **more},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def log(self):
        """Returns the commands that stubs have received since the last call."""
        path = self.stubs / "log"
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("", encoding="ascii")
        return lines


def rest_with_date(rest):
    return rest.replace(f"## {VERSION}\n", f"## {VERSION} - 2026-01-02\n", 1)


def write_packed(path, files):
    with tarfile.open(path, "w:gz") as packed:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))


def write_tarball(path, commit):
    name = path.name.removesuffix(".tar.gz")
    write_packed(path, {f"{name}/bin/larder": f"\0 larder {commit} \0".encode()})


