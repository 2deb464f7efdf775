"""Writes a repository that apt reads, from the packages in its folder `pool`."""

import datetime
import email.utils
import gzip
import shutil
import subprocess

from destination import Failed, run
from release import DEB_ARCHITECTURES, sha256

SUITE = "stable"


def stanzas(folder, architecture):
    """Returns the description of all packages of an architecture."""
    done = subprocess.run(
        ["dpkg-scanpackages", "--multiversion", "--arch", architecture, "pool"],
        cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"dpkg-scanpackages failed: {done.stderr.strip()}")
    return done.stdout


def lists(folder, path):
    """Returns true if the signed index of a repository has a file."""
    suite = folder / "dists" / SUITE
    if not (suite / "InRelease").is_file():
        return False
    texts = [file.read_text(encoding="utf-8") for file in suite.glob("main/*/Packages")]
    return any(f"\nFilename: {path}\n" in text for text in texts)


def write(folder, url, key):
    """Writes the index of a repository, its signature, and the file that describes it to apt."""
    suite = folder / "dists" / SUITE
    indices = []
    for architecture in DEB_ARCHITECTURES:
        plain = suite / f"main/binary-{architecture}/Packages"
        plain.parent.mkdir(parents=True, exist_ok=True)
        plain.write_text(stanzas(folder, architecture), encoding="utf-8")
        packed = plain.with_suffix(".gz")
        packed.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
        for path in (plain, packed):
            # The list of an older Release file stays readable under its checksum.
            kept = path.parent / "by-hash/SHA256" / sha256(path)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, kept)
        indices += [plain, packed]
    now = datetime.datetime.now(datetime.UTC)
    lines = [
        "Origin: Larder", "Label: Larder", f"Suite: {SUITE}", f"Codename: {SUITE}",
        f"Date: {email.utils.format_datetime(now, usegmt=True)}",
        f"Architectures: {' '.join(DEB_ARCHITECTURES)}", "Components: main",
        "Acquire-By-Hash: yes", "SHA256:",
        *(f" {sha256(path)} {path.stat().st_size} {path.relative_to(suite)}" for path in indices),
    ]
    (suite / "Release").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sign = ["gpg", "--batch", "--yes", "--armor", "--local-user", key]
    for verb, name in (("--clearsign", "InRelease"), ("--detach-sign", "Release.gpg")):
        run([*sign, verb, "--output", str(suite / name), str(suite / "Release")])
    (folder / "larder.sources").write_text(
        f"Types: deb\nURIs: {url}\nSuites: {SUITE}\nComponents: main\n"
        "Signed-By: /etc/apt/keyrings/larder.asc\n", encoding="utf-8")
