#!/usr/bin/env python3
"""Publishes a release to places on this machine: repositories of git, a folder that rsync writes, a
registry of npm. Programs without such a place are stubs: cargo publish, twine, podman and helm.
apt, dnf, go, npm and composer then use what was published, if they are installed."""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import npm_registry  # noqa: E402
import renamed  # noqa: E402
from web import SITE, Web  # noqa: E402
from workshop import VERSION, Workshop, write_packed  # noqa: E402

GO = renamed.SAMPLES["names.go"]
MODULES = ("", "/shared", "/prometheus", "/observe")
BEFORE_LARDER = ["larder-item", "larder-region", "larder-stats", "larder-engine", "larder-tier"]
NEEDED = ("gpg", "rsync", "dpkg-scanpackages", "createrepo_c", "rpmbuild", "npm", "go")


class Publishing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [tool for tool in NEEDED if not shutil.which(tool)]
        assert not missing, f"{missing} are missing: conformance/install.sh all"
        cls.npm = npm_registry.Registry("n")
        cls.addClassCleanup(cls.npm.end)
        cls.shop = Workshop(cls.npm.address)
        cls.addClassCleanup(cls.shop.end)

    def tearDown(self):
        self.npm.empty()
        self.shop.restore()
        self.shop.empty()
        for name in ("clone", "project", "module", "npm", "apt", "dnf"):
            shutil.rmtree(self.shop.folder / name, ignore_errors=True)

    def publish(self, *arguments, **more):
        status, output = self.shop.publish(*arguments, **more)
        self.assertEqual(status, 0, output[-5000:])
        return output

    def test_a_release_is_published_once(self):
        output = self.publish("--dry")
        self.assertIn("The dry run of 0.1.0 published nothing", output)
        self.assert_nothing_is_published()
        self.publish()
        self.assert_crates_are_ordered(self.shop.log())
        self.assertEqual(self.npm.order[-1], "@sample/store-js")
        self.assertEqual(len(self.npm.order), 5)
        self.assert_git()
        self.assert_go()
        self.assert_npm()
        self.assert_apt()
        self.assert_rpm()
        # A second run asks, and finds everything.
        before = self.tree_of_site()
        output = self.publish()
        wrote = [line for line in self.shop.log()
                 if re.match("cargo publish|podman build|helm push", line)]
        self.assertEqual(wrote, [], output)
        self.assertEqual(self.tree_of_site(), before)

    def tree_of_site(self):
        return {str(path.relative_to(self.shop.site)): path.read_bytes()
                for path in self.shop.site.rglob("*") if path.is_file()}

    def assert_nothing_is_published(self):
        self.assertEqual(list(self.shop.site.iterdir()), [])
        self.assertEqual(self.npm.order, [])
        for name in ("source", "php"):
            refs = self.shop.folder / f"{name}.git/refs"
            self.assertEqual([path for path in refs.rglob("*") if path.is_file()], [])
        wrote = [line for line in self.shop.log() if re.match(
            "cargo publish|twine upload|podman (manifest )?push|helm push", line)]
        self.assertEqual(wrote, [])

    def assert_crates_are_ordered(self, log):
        crates = [line.split()[-1] for line in log if line.startswith("cargo publish")]
        self.assertEqual(len(crates), len(set(crates)))
        place = {name: at for at, name in enumerate(crates)}
        for crate in BEFORE_LARDER:
            self.assertLess(place[crate], place["larder"])
        self.assertLess(place["larder-region"], place["larder-engine"])

    def assert_git(self):
        """The tag is in the repository, and PIE's repository has composer.json at its root."""
        shop = self.shop
        tag = shop.run("git", "ls-remote", f"{shop.folder}/source.git", f"refs/tags/v{VERSION}")
        self.assertEqual(tag.split()[0], shop.git("rev-parse", f"v{VERSION}"))
        clone = shop.folder / "clone"
        shop.run("git", "clone", "--quiet", "--branch", f"v{VERSION}", f"{shop.folder}/php.git",
                 str(clone))
        self.assertIn('"name": "sample-vendor/sample-ext"',
                      (clone / "composer.json").read_text(encoding="utf-8"))
        for path in ("LICENSE", "config.m4", "src/larder/module.c"):
            self.assertTrue((clone / path).is_file(), path)
        if shutil.which("composer"):
            project = shop.folder / "project"
            project.mkdir()
            (project / "composer.json").write_text(
                f'{{"repositories": [{{"type": "vcs", "url": "{shop.folder}/php.git"}},'
                f' {{"packagist.org": false}}]}}', encoding="utf-8")
            said = shop.run("composer", "--no-interaction", "show", "--available",
                            "sample-vendor/sample-ext", cwd=project, COMPOSER_ALLOW_SUPERUSER="1")
            self.assertRegex(said, rf"versions : .*{VERSION}")
            self.assertRegex(said, "type     : php-ext")

    def go(self, *arguments, **more):
        """Runs go in an empty module, with its own cache of modules."""
        folder = self.shop.folder / "module"
        folder.mkdir(exist_ok=True)
        if not (folder / "go.mod").exists():
            (folder / "go.mod").write_text("module sample.test/x\n\ngo 1.21\n", encoding="ascii")
        return self.shop.run("go", *arguments, cwd=folder, **{
            "GONOSUMDB": "*", "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local",
            "GOMODCACHE": str(folder / "modules"), "GOCACHE": str(folder / "builds"), **more})

    def assert_go(self):
        """go fetches each module from the site, and lists its version."""
        proxy = f"file://{self.shop.site}/go"
        for end in MODULES:
            listed = self.go("list", "-m", "-versions", GO + end, GOPROXY=proxy)
            self.assertEqual(listed, f"{GO}{end} v{VERSION}")
            self.go("get", f"{GO}{end}@latest", GOPROXY=proxy)

    def test_the_go_command_finds_the_site(self):
        """Without a proxy, go asks the server of the module's path for the place of the module."""
        web = Web(self.shop.site)
        self.addCleanup(web.end)
        renamed.choose(self.shop.root, {"destinations.site_url": f"http://{SITE}"})
        self.shop.commit("The address of the site")
        self.addCleanup(self.shop.write_dist)
        self.shop.write_dist()
        self.publish("--only", "Go proxy")
        # The test has no certificates, so go uses HTTP after HTTPS has failed.
        insecure = {"GOPROXY": "direct", "GOINSECURE": "*", "HTTP_PROXY": web.address,
                    "HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": ""}
        for end in MODULES:
            self.go("get", f"{GO}{end}@latest", **insecure)
        self.assertIn(f"{GO}/shared v{VERSION}", self.go("list", "-m", "all", **insecure))

    def assert_npm(self):
        project = self.shop.folder / "npm"
        project.mkdir()
        (project / "package.json").write_text("{}", encoding="ascii")
        self.shop.run("npm", "install", "--no-audit", "--no-fund", "@sample/store-js", cwd=project)
        self.assertTrue((project / "node_modules/@sample/store-js/package.json").is_file())

    def apt(self, *arguments):
        """Runs apt with no source except the site, in folders of the test."""
        folder = self.shop.folder / "apt"
        for path in ("lists/partial", "archives/partial", "trusted"):
            (folder / path).mkdir(parents=True, exist_ok=True)
        for path in ("status", "list"):
            (folder / path).touch()
        sources = (self.shop.site / "apt/larder.sources").read_text(encoding="utf-8")
        key = self.shop.site / "apt/larder.asc"
        (folder / "larder.sources").write_text(
            sources.replace("/etc/apt/keyrings/larder.asc", str(key)), encoding="utf-8")
        options = {"Dir::State": folder, "Dir::State::status": folder / "status",
                   "Dir::Cache": folder, "Dir::Etc::sourcelist": folder / "larder.sources",
                   "Dir::Etc::sourceparts": "-", "Dir::Etc::trustedparts": folder / "trusted",
                   "Dir::Etc::trusted": "/dev/null", "APT::Sandbox::User": "root"}
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        return subprocess.run(["apt-get", *words, *arguments], cwd=folder, capture_output=True,
                              text=True, env={**os.environ, "LC_ALL": "C"})

    def assert_apt(self):
        """apt accepts the signature and downloads a package; it refuses changed ones."""
        site = self.shop.site / "apt"
        done = self.apt("update", "-o", "APT::Update::Error-Mode=any")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.apt("download", "larder")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (package,) = site.glob("pool/larder_*.deb")
        got = self.shop.folder / "apt" / package.name
        self.assertEqual(got.read_bytes(), package.read_bytes())
        got.unlink()
        whole = package.read_bytes()
        package.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        done = self.apt("download", "larder")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, "(?i)hash sum mismatch|unexpected size")
        package.write_bytes(whole)
        index = site / "dists/stable/InRelease"
        text = index.read_text(encoding="utf-8")
        index.write_text(text.replace("Origin: Larder", "Origin: larder"), encoding="utf-8")
        done = self.apt("update", "-o", "APT::Update::Error-Mode=any")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, "signature|not signed|BADSIG")
        index.write_text(text, encoding="utf-8")

    def assert_rpm(self):
        site = self.shop.site / "rpm"
        files = [str(site / "repodata" / name) for name in ("repomd.xml.asc", "repomd.xml")]
        said = self.shop.run("gpg", "--verify", "--status-fd", "1", *files)
        self.assertIn("GOODSIG", said)
        if not shutil.which("dnf"):
            return
        done = self.dnf("repoquery", "larder")
        self.assertEqual(sorted(done.stdout.split()), [
            f"larder-0:{VERSION}-1.aarch64", f"larder-0:{VERSION}-1.x86_64"], done.stderr)
        index = site / "repodata/repomd.xml"
        text = index.read_text(encoding="utf-8")
        index.write_text(text.replace("<revision>", "<revision>1"), encoding="utf-8")
        shutil.rmtree(self.shop.folder / "dnf")
        self.assertRegex(self.dnf("repoquery", "larder").stderr, "GPG verification|Bad GPG")
        index.write_text(text, encoding="utf-8")
        shutil.rmtree(self.shop.folder / "dnf")

    def dnf(self, *arguments):
        """Runs dnf with no source except the site, in a folder of the test."""
        folder = self.shop.folder / "dnf"
        folder.mkdir(exist_ok=True)
        (folder / "dnf.conf").write_text("[main]\n", encoding="ascii")
        settings = [f"--setopt={key}={folder}" for key in ("cachedir", "logdir", "persistdir")]
        return subprocess.run(
            ["dnf", "--quiet", "--assumeyes", "--config", str(folder / "dnf.conf"), *settings,
             f"--setopt=reposdir={self.shop.site / 'rpm'}", "--releasever=1", *arguments],
            capture_output=True, text=True, env={**os.environ, **self.shop.environment})

    def test_a_failure_ends_the_run_and_the_next_run_continues(self):
        shop = self.shop
        (shop.stubs / "fails").write_text("--package larder-engine", encoding="ascii")
        status, output = shop.publish()
        self.assertEqual(status, 1)
        self.assertIn("The run stopped: cargo publish", output)
        self.assertIn("the network is down", output)
        crates = [line.split()[-1] for line in shop.log() if line.startswith("cargo publish")]
        self.assertEqual(crates[-1], "larder-engine")
        self.assertNotIn("larder", crates)
        # Nothing after the crate.
        self.assertEqual(self.npm.order, [])
        self.assertEqual(list(shop.site.iterdir()), [])

        (shop.stubs / "fails").write_text("", encoding="ascii")
        output = self.publish()
        again = [line.split()[-1] for line in shop.log() if line.startswith("cargo publish")]
        self.assertEqual(again[0], "larder-engine")
        self.assertFalse(set(again) & set(crates[:-1]), again)
        self.assertEqual(self.npm.order[-1], "@sample/store-js")

    def test_a_crate_that_the_index_does_not_show_yet_is_published(self):
        for name in ("crates", "late"):
            (self.shop.stubs / name).write_text("larder-item\n", encoding="ascii")
        output = self.publish("--only", "crates.io")
        self.assertIn(f"larder-item {VERSION} is already published", output)
        self.assertIn("cargo publish --locked --no-verify --registry crates-io --package larder",
                      self.shop.log())

    def test_an_interrupted_upload_is_completed(self):
        """The files of a repository are there, and its index is not."""
        shop = self.shop
        self.publish("--only", "apt", "rpm")
        for path in ("apt/dists", "rpm/repodata"):
            shutil.rmtree(shop.site / path)
        self.publish("--only", "apt", "rpm")
        self.assert_apt()
        self.assert_rpm()

    def refused(self, place, *patterns, **more):
        """Publishes to one place, which fails."""
        status, output = self.shop.publish(*(["--only", place] if place else []), **more)
        self.assertEqual(status, 1)
        self.assertIn("Nothing was published", output)
        for pattern in patterns:
            self.assertRegex(output, pattern)
        self.assert_nothing_is_published()

    def test_each_missing_credential_is_named(self):
        logins = self.shop.home / ".docker/config.json"
        logins.write_text('{"auths": {"others.sample.org": {}}}', encoding="ascii")
        self.refused(None, "crates.io: CARGO_REGISTRY_TOKEN is not set.*https://crates.io/settings/tokens",
                     "PyPI: TWINE_PASSWORD is not set.*https://pypi.org/manage/account/token",
                     "npm: NPM_TOKEN is not set: https://docs.npmjs.com",
                     "image: .* have no login at images.sample.org: podman login",
                     "chart: .* have no login at images.sample.org: helm registry login",
                     CARGO_REGISTRY_TOKEN="", TWINE_PASSWORD="", NPM_TOKEN="")

    def test_a_place_that_cannot_be_written_is_refused(self):
        (self.shop.folder / "php.git/HEAD").unlink()
        self.refused("PIE", "PIE: .* does not answer", "PIE: git .*push --dry-run.* fails")

    def test_a_missing_secret_key_is_refused(self):
        self.refused("apt", "apt: gpg .*--list-secret-keys 0{40} fails", LARDER_SIGN_KEY="0" * 40)

    def path_without(self, tool):
        """Returns a PATH that has everything except a program."""
        folder = self.shop.folder / f"without-{tool}"
        folder.mkdir()
        for of in self.shop.environment["PATH"].split(":"):
            for program in os.scandir(of) if os.path.isdir(of) else ():
                if program.name != tool and not os.path.lexists(folder / program.name):
                    (folder / program.name).symlink_to(program.path)
        return str(folder)

    def test_a_missing_program_is_named(self):
        for tool, place, message in (
            ("rsync", "apt", "- rsync is missing: apt-get install rsync"),
            ("createrepo_c", "rpm", "- createrepo_c is missing: apt-get install createrepo-c"),
            ("gpg", "chart", "- gpg is missing, which verifies SHA256SUMS.asc: apt-get install"),
        ):
            with self.subTest(tool):
                self.refused(place, message, PATH=self.path_without(tool))
        status, output = self.shop.publish(PATH=self.path_without("cargo"))
        self.assertEqual((status, output), (
            1, "publish: cargo is missing, which describes the crates: README.md names it\n"))

    def test_a_fault_of_the_release_is_refused(self):
        (self.shop.root / "README.md").write_text("changed", encoding="ascii")
        self.refused("chart", "the checkout has 1 changed files .README.md")

    def test_choices_that_are_not_made_are_refused(self):
        renamed.choose(self.shop.root, {"destinations.image": "registry.example/larder"})
        self.shop.commit("placeholder")
        self.refused("image", "destinations.image is 'registry.example/larder': choose the final")

    def test_other_things_with_the_same_version_are_refused(self):
        """The places have files, a tag and a package of this version with other contents."""
        shop = self.shop
        self.publish()
        shop.log()
        shop.git("commit", "--quiet", "--allow-empty", "--message", "another")
        (shop.root / "php/README.md").write_text("other\n", encoding="ascii")
        shop.commit("another release of the same version")
        self.addCleanup(shop.write_dist)
        shop.write_dist()
        file = shop.root / f"target/dist/node/sample-store-js-{VERSION}.tgz"
        manifest = b'{"name":"@sample/store-js","version":"0.1.0"}'
        write_packed(file, {"package/package.json": manifest})
        status, output = shop.publish()
        self.assertEqual(status, 1)
        for pattern in (f"tag: v{VERSION}: differs: .*fetch it .git fetch --tags., or release",
                        f"PIE: .* has another v{VERSION}: release another version",
                        "npm: @sample/store-js: differs: npm has another",
                        "files: larder-.*tar.gz: differs: .* exists with other contents"):
            self.assertRegex(output, pattern)
        wrote = [line for line in shop.log() if re.match("cargo publish|twine|helm push", line)]
        self.assertEqual(wrote, [])


if __name__ == "__main__":
    unittest.main()
