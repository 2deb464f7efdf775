#!/usr/bin/env python3
"""Tests that each fault of a release is found: a release without faults passes, and each test makes
one fault. Needs gpg, dpkg-deb and cargo."""

import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import npm_registry  # noqa: E402
from workshop import VERSION, Workshop, write_tarball  # noqa: E402

NPM = SHOP = None


def setUpModule():
    global NPM, SHOP
    NPM = npm_registry.Registry("n")
    SHOP = Workshop(NPM.address)


def tearDownModule():
    SHOP.end()
    NPM.end()


class Faults(unittest.TestCase):
    def tearDown(self):
        SHOP.restore()

    def replace(self, path, old, new):
        file = SHOP.root / path
        text = file.read_text(encoding="utf-8")
        self.assertIn(old, text)
        file.write_text(text.replace(old, new, 1), encoding="utf-8")

    def substitute(self, path, pattern, new):
        file = SHOP.root / path
        text, count = re.subn(pattern, new, file.read_text(encoding="utf-8"), count=1)
        self.assertEqual(count, 1)
        file.write_text(text, encoding="utf-8")

    def found(self):
        """Returns the checks that fail."""
        status, output = SHOP.publish("--dry", "--only", "tag", "chart")
        part = re.search(r"Checks that fail: .*\n((?:  - .*\n)*)", output)
        self.assertIsNotNone(part, output)
        self.assertEqual(bool(part[1]), status == 1, output)
        return part[1]

    def assert_found(self, *patterns):
        found = self.found()
        for pattern in patterns:
            self.assertRegex(found, pattern)
        self.assertEqual(len(found.splitlines()), len(patterns), found)

    def test_a_release_without_faults_passes(self):
        self.assertEqual(self.found(), "")

    def test_each_file_with_another_version(self):
        for path, old, new in (
            ("node/package.json", f'"version": "{VERSION}"', '"version": "0.2.0"'),
            ("node/package-lock.json", f'"version": "{VERSION}"', '"version": "0.2.0"'),
            ("deploy/helm/Chart.yaml", f"\nversion: {VERSION}", "\nversion: 0.2.0"),
            ("deploy/helm/Chart.yaml", f"appVersion: {VERSION}", "appVersion: 0.2.0"),
            ("deploy/kubernetes/larder.yaml", f"larder:{VERSION}", "larder:0.2.0"),
            ("php/src/larder/larder_php.h", f'VERSION "{VERSION}"', 'VERSION "0.2.0"'),
            ("php/dropins/wordpress/object-cache.php", f"Version: {VERSION}", "Version: 0.2.0"),
        ):
            with self.subTest(path):
                self.replace(path, old, new)
                SHOP.commit("another version")
                self.assert_found(f"{path} has version 0.2.0, expected {VERSION} of Cargo.toml:"
                                  " change one of them")
                self.tearDown()

    def test_a_version_of_a_dependency(self):
        self.substitute("Cargo.toml", r'(path = "crates/item", version = )".*?"', r'\1"0.1"')
        SHOP.commit("another version")
        self.assert_found("larder-item in .workspace.dependencies. has version 0.1, expected")

    def test_a_changed_checkout(self):
        self.replace("README.md", "Larder", "larder")
        (SHOP.root / "stray").write_text("", encoding="ascii")
        self.assert_found("has 2 changed files .*README.md, stray.*expected none: commit or remove")

    def test_a_missing_tag(self):
        SHOP.git("tag", "--delete", f"v{VERSION}")
        self.assert_found(f"the tag v{VERSION} does not exist: run git tag --sign v{VERSION}")

    def test_a_tag_at_another_commit(self):
        SHOP.git("commit", "--quiet", "--allow-empty", "--message", "later")
        head = SHOP.git("rev-parse", "--short=12", "HEAD")
        self.assert_found(f"the tag v{VERSION} is at commit {SHOP.start[:12]}, and HEAD is {head}:"
                          " check the tag out")

    def test_a_tag_without_a_signature(self):
        SHOP.git("tag", "--annotate", "--force", "--message", "unsigned", f"v{VERSION}")
        self.assert_found("has no signature of gpg: sign it again")

    def test_a_tag_of_another_key(self):
        other = SHOP.make_key("stranger@sample.org")
        SHOP.git("tag", "--local-user", other, "--force", "--message", "x", f"v{VERSION}")
        self.assert_found(f"the key {other} has signed the tag .*, expected people.signing_key"
                          f" {SHOP.key}")

    def test_the_changelog(self):
        heading = f"## {VERSION} - 2026-01-02\n"
        for new, reason in (
            (f"## {VERSION}\n", f"expected ## {VERSION} - YYYY-MM-DD: add the date"),
            (f"## {VERSION} - 2026-02-30\n", "expected .*: add the date"),
            (f"## {VERSION} - 2999-01-01\n", "which is in the future: correct it"),
            ("## 0.0.9 - 2026-01-02\n", f"no section of {VERSION}, expected"),
            (f"## Unreleased\n\n- More.\n\n{heading}", "has entries under Unreleased"),
            (f"{heading}\n## 0.0.9 - 2026-01-01\n", "is empty: describe the release"),
        ):
            with self.subTest(reason):
                self.replace("CHANGELOG.md", heading, new)
                SHOP.commit("another changelog")
                self.assert_found(reason)
                self.tearDown()

    def test_a_name_that_make_names_has_not_written(self):
        self.replace("packaging/owner.toml", 'php = "sample-vendor/', 'php = "other/')
        SHOP.commit("another name")
        self.assert_found("php/composer.json has names.php 'sample-vendor/sample-ext', and"
                          " packaging/owner.toml has 'other/sample-ext': run make names")

    def test_crates(self):
        for path, pattern, new, reason in (
            ("crates/item/Cargo.toml", "(license.workspace = true\n)", r"\1publish = false\n",
             "depends on larder-item, which has publish = false: publish it also"),
            ("crates/item/Cargo.toml", "readme.workspace = true\n", "",
             "crates/item/Cargo.toml has no readme, which crates.io shows: add it"),
            ("Cargo.toml", r'("crates/stats"), version = ".*?"', r"\1",
             "depends on larder-stats without a version: add it to Cargo.toml"),
        ):
            with self.subTest(reason):
                self.substitute(path, pattern, new)
                SHOP.commit("a crate")
                found = self.found().splitlines()
                self.assertTrue(found)
                self.assertEqual([line for line in found if reason not in line], [])
                self.tearDown()
        (SHOP.root / "crates/item/LICENSE").unlink()
        SHOP.commit("no license")
        self.assert_found("crates/item/LICENSE is missing: link to ../../LICENSE")


class Files(unittest.TestCase):
    """Faults of the built files."""

    def tearDown(self):
        SHOP.write_dist()

    assert_found, found = Faults.assert_found, Faults.found

    def setUp(self):
        SHOP.write_dist()
        self.dist = SHOP.root / "target/dist"

    def test_an_altered_file(self):
        path = self.dist / f"larderd-{VERSION}.cdx.json"
        path.write_text("[]\n", encoding="ascii")
        self.assert_found(f"{path.name} has changed since SHA256SUMS was written.*run make dist")

    def test_a_file_that_is_not_listed(self):
        (self.dist / "more").write_text("", encoding="ascii")
        self.assert_found("target/dist/more is not in SHA256SUMS")

    def test_a_file_that_is_missing(self):
        (self.dist / f"larderd-{VERSION}.cdx.json").unlink()
        self.assert_found(f"SHA256SUMS lists larderd-{VERSION}.cdx.json, which is not in")

    def test_missing_checksums(self):
        (self.dist / "SHA256SUMS").unlink()
        self.assert_found("target/dist has no SHA256SUMS, expected")

    def test_a_missing_signature(self):
        (self.dist / "SHA256SUMS.asc").unlink()
        self.assert_found("has no SHA256SUMS.asc, so it is not signed: run make dist"
                          " LARDER_SIGN_KEY=FINGERPRINT")

    def test_an_altered_list(self):
        path = self.dist / "SHA256SUMS"
        lines = sorted(path.read_text(encoding="ascii").splitlines(keepends=True))
        path.write_text("".join(lines), encoding="ascii")
        self.assert_found("gpg does not accept the signature of SHA256SUMS .BADSIG.")

    def test_a_list_of_another_form(self):
        (self.dist / "SHA256SUMS").write_text("\n", encoding="ascii")
        self.assert_found("SHA256SUMS has a line that is not CHECKSUM  FILE: run make dist")

    def test_the_signature_of_another_key(self):
        other = SHOP.make_key("stranger2@sample.org")
        SHOP.run(str(SHOP.root / "packaging/sign.sh"), "target/dist", LARDER_SIGN_KEY=other)
        self.assert_found(f"the key {other} has signed SHA256SUMS, expected people.signing_key")

    def not_ready(self, *places):
        _, output = SHOP.publish("--dry", "--only", *places)
        return re.search(r"Things that are not ready: .*\n((?:  - .*\n)*)", output)[1]

    def test_a_program_of_another_commit(self):
        write_tarball(self.dist / f"larder-{VERSION}-linux-arm64.tar.gz", "0123456789ab")
        SHOP.sign()
        self.assertRegex(self.not_ready("files"),
                         "linux-arm64.tar.gz: differs: its larder is not of commit")

    def test_a_package_that_is_older_than_the_commit(self):
        path = self.dist / f"python/sample_store-{VERSION}.tar.gz"
        os.utime(path, (1, 1))
        self.assertRegex(self.not_ready("PyPI"), "differs: it is older than the commit: make")

    def test_a_package_that_is_not_built(self):
        (self.dist / f"node/sample-store-js-{VERSION}.tgz").unlink()
        self.assertRegex(self.not_ready("npm"), "npm: @sample/store-js: missing: make dist-node")


if __name__ == "__main__":
    unittest.main()
