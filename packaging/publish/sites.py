"""Folders of a web server, which rsync writes: files of the release, the module proxy for Go, and
the repositories of Debian and RPM packages.

A published file never changes. The files that list others are written last, so that a client reads
either the old list or the new one, and the files of both exist."""

import gzip
import re
import shutil

import apt_index
from destination import READY, Access, Destination, Failed, quiet, run
from release import sha256


class Site(Destination):
    choices = ("destinations.site", "destinations.site_url")
    tools = {"rsync": "rsync"}
    # The folder below the site.
    folder = ""
    # Patterns of the files that list others, in the order in which they are written.
    lists = ()

    def to(self):
        return f"{self.release.owner['destinations.site']}/{self.folder}"

    def url(self):
        return f"{self.release.owner['destinations.site_url']}/{self.folder}"

    def staged(self):
        return self.release.staged / "site" / self.folder

    def credentials(self):
        site = self.release.owner["destinations.site"]
        command = ["rsync", "--dry-run", "--recursive", "--include", "/larder-publish-probe",
                   "--exclude", "*", f"{self.release.root}/packaging/", f"{site}/"]
        return [Access("access to the site", command,
                       "rsync needs an SSH key that may write to the folder")]

    def kept(self):
        """Returns the folder of the site whose files matter to a new release."""
        return self.folder

    def fetch(self):
        """Copies those files to the staged folder. The site's folder exists, and before the first
        release the one in it does not. Returns false without an answer."""
        self.staged().mkdir(parents=True, exist_ok=True)
        steps = self.kept().split("/")
        parents = [f"--include=/{'/'.join(steps[:end])}/" for end in range(1, len(steps))]
        done = quiet(["rsync", "--recursive", "--times", "--delete", *parents,
                      f"--include=/{self.kept()}/***", "--exclude=*",
                      f"{self.release.owner['destinations.site']}/", f"{self.staged().parent}/"])
        self.staged().mkdir(exist_ok=True)
        return done.returncode == 0

    def published(self, item):
        """Compares with the staged copy of the site."""
        if self.current is None:
            self.current = self.fetch()
        if not self.current:
            return None
        there = self.staged() / self.path_of(item)
        if there.is_file() and item.state == READY and sha256(there) != sha256(item.file):
            raise Failed(f"{self.url()}/{self.path_of(item)} exists with other contents:"
                         " release another version or revision")
        return there.is_file() and self.is_listed(item)

    # Whether the staged folder is a copy of the site.
    current = None

    def path_of(self, item):
        return item.name

    def is_listed(self, item):
        """Returns true if the lists of the site contain a file, because an interrupted run may
        have written only the file."""
        return True

    def stage(self):
        """Adds this release's files to the staged folder, and writes the lists."""
        for item in self.items():
            if item.state == READY:
                to = self.staged() / self.path_of(item)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(item.file, to)
        self.write_lists()

    def write_lists(self):
        pass

    def rehearse(self):
        if not self.current:
            shutil.rmtree(self.staged(), ignore_errors=True)
        self.staged().mkdir(parents=True, exist_ok=True)
        self.stage()
        print(f"    staged in {self.staged()}")

    def commands(self):
        without = [f"--exclude=/{pattern}" for pattern in self.lists]
        base = ["rsync", "--recursive", "--times", "--mkpath"]
        yield [*base, *without, f"{self.staged()}/", f"{self.to()}/"]
        for pattern in self.lists:
            yield [*base, "--prune-empty-dirs", f"--include=/{pattern}", "--include=*/",
                   "--exclude=*", f"{self.staged()}/", f"{self.to()}/"]

    # All things of a site are written together.
    written = False

    def publish(self, item):
        if self.written:
            return
        if not self.fetch():
            raise Failed(f"{self.to()} does not answer")
        self.stage()
        for command in self.commands():
            run(command)
        self.written = True


class Downloads(Site):
    title = "files"
    lists = ("*/SHA256SUMS.asc", "*/SHA256SUMS")
    folder = "downloads"

    def kept(self):
        return f"{self.folder}/{self.release.version}"

    def path_of(self, item):
        return f"{self.release.version}/{item.name}"

    def items(self):
        release, version = self.release, self.release.version
        names = [f"{program}-{version}.cdx.json" for program in ("larderd", "larder", "liblarder")]
        signed = "make dist LARDER_SIGN_KEY=FINGERPRINT"
        return [*release.tarballs(), *(release.item(release.dist / name, "make dist") for name in
                                       names), *release.rpms(), *release.debs(with_php=False),
                *(release.item(release.dist / name, signed)
                  for name in ("SHA256SUMS.asc", "SHA256SUMS"))]


class Go(Site):
    title = "Go proxy"
    folder = "go"
    lists = ("**/@v/list",)
    MODULES = ("", "/shared", "/prometheus", "/observe")

    def modules(self):
        return [self.release.owner["names.go"] + module for module in self.MODULES]

    def path_of(self, item):
        return item.path

    def items(self):
        found = []
        for module in self.modules():
            for end in ("info", "mod", "zip"):
                path = f"{escaped(module)}/@v/{self.release.tag}.{end}"
                item = self.release.item(self.release.dist / "go" / path, "make dist-go",
                                         f"{module} {end}")
                item.path = path
                found.append(item)
        return found

    def versions(self, module):
        path = self.staged() / escaped(module) / "@v/list"
        return path.read_text(encoding="utf-8").split() if path.is_file() else []

    def is_listed(self, item):
        return self.release.tag in self.versions(item.name.partition(" ")[0])

    def write_lists(self):
        for module in self.modules():
            listed = {*self.versions(module), self.release.tag}
            folder = self.staged() / escaped(module) / "@v"
            folder.mkdir(parents=True, exist_ok=True)
            lines = "".join(f"{of}\n" for of in sorted(listed))
            (folder / "list").write_text(lines, encoding="utf-8")
            # The go command reads this page at the address of the module's path.
            page = self.staged() / "import" / module / "index.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(f'<meta name="go-import" content="{module} mod {self.url()}">\n',
                            encoding="utf-8")

    def finish(self):
        print(f"    the server of {self.release.owner['names.go']} must offer the pages of"
              f" {self.url()}/import")


def escaped(module):
    """Returns the path of a module as a proxy writes it: !x for X."""
    return re.sub("[A-Z]", lambda letter: f"!{letter[0].lower()}", module)


class Signed(Site):
    """A repository of packages, with an index that the key of the release signs."""

    def credentials(self):
        command = ["gpg", "--batch", "--list-secret-keys", self.release.key or "people.signing_key"]
        return [*super().credentials(),
                Access("the secret key of the release", command,
                       "gpg needs the secret key of LARDER_SIGN_KEY, otherwise of"
                       " people.signing_key in owner.toml (docs/releases.md, The signature)")]

    def write_key(self):
        done = quiet(["gpg", "--batch", "--armor", "--export", self.release.key])
        if done.returncode or not done.stdout:
            raise Failed(f"gpg has no public key {self.release.key}: {done.stderr.strip()}")
        (self.staged() / "larder.asc").write_text(done.stdout, encoding="ascii")

    def rehearse(self):
        if self.credentials()[-1].missing():
            print("    not staged: gpg has no secret key for the index")
        else:
            super().rehearse()


class Apt(Signed):
    title = "apt"
    folder = "apt"
    tools = {**Site.tools, "dpkg-scanpackages": "dpkg-dev", "gpg": "gpg"}
    lists = ("dists/*/main/*/Packages*", "dists/*/Release*", "dists/*/InRelease")

    def items(self):
        return self.release.debs()

    def path_of(self, item):
        return f"pool/{item.name}"

    def is_listed(self, item):
        return apt_index.lists(self.staged(), self.path_of(item))

    def write_lists(self):
        self.write_key()
        apt_index.write(self.staged(), self.url(), self.release.key)


class Rpm(Signed):
    title = "rpm"
    folder = "rpm"
    tools = {**Site.tools, "createrepo_c": "createrepo-c", "gpg": "gpg"}
    lists = ("repodata/*.gz", "repodata/repomd.xml.asc", "repodata/repomd.xml")

    def items(self):
        return self.release.rpms()

    def is_listed(self, item):
        index = self.staged() / "repodata/repomd.xml"
        found = index.is_file() and re.search(r'href="(repodata/\S*primary\.xml\.gz)"',
                                              index.read_text(encoding="utf-8"))
        if not found:
            return False
        with gzip.open(self.staged() / found[1], "rt", encoding="utf-8") as primary:
            return f'href="{item.name}"' in primary.read()

    def write_lists(self):
        self.write_key()
        folder = self.staged()
        run(["createrepo_c", "--quiet", "--update", "--no-database", "--general-compress-type=gz",
             str(folder)])
        sign = ["gpg", "--batch", "--yes", "--armor", "--local-user", self.release.key]
        run([*sign, "--detach-sign", "--output", str(folder / "repodata/repomd.xml.asc"),
             str(folder / "repodata/repomd.xml")])
        (folder / "larder.repo").write_text(
            f"[larder]\nname=Larder\nbaseurl={self.url()}\nenabled=1\ngpgcheck=0\n"
            f"repo_gpgcheck=1\ngpgkey={self.url()}/larder.asc\n", encoding="utf-8")
