"""Repositories of git: the tag of the release, and the repository from which PIE installs."""


import checks
from destination import MISSING, READY, Access, Destination, Failed, Item, quiet, run


class Repository(Destination):
    tools = {"git": "git"}

    def git(self, *arguments):
        return checks.git(self.release.root, *arguments)

    def to(self):
        return self.release.owner[self.choices[0]]

    def there(self, ref):
        """Returns the object at a ref of the place, "" if it has none, None without an answer."""
        done = quiet(["git", "ls-remote", self.to(), ref], cwd=self.release.root)
        return None if done.returncode else done.stdout.partition("\t")[0]

    def credentials(self):
        # A dry run of a push authenticates. The ref is this run's only, and never written.
        command = ["git", "-C", str(self.release.root), "push", "--dry-run", "--quiet", self.to(),
                   "HEAD:refs/heads/larder-publish-probe"]
        return [Access("access to the repository", command,
                       "git needs an SSH key, or a credential helper (git help credentials)")]

    def push(self, *refs):
        run(self.command(*refs), cwd=self.release.root)

    def command(self, *refs):
        return ["git", "push", "--atomic", self.to(), *refs]


class Tag(Repository):
    title = "tag"
    choices = ("names.repository",)

    def ref(self):
        return f"refs/tags/{self.release.tag}"

    def items(self):
        item = Item(self.release.tag)
        if self.git("rev-parse", "--quiet", "--verify", self.ref())[0]:
            item.state, item.advice = MISSING, f"git tag --sign {self.release.tag}"
        return [item]

    def published(self, item):
        there = self.there(self.ref())
        here = self.git("rev-parse", self.ref())[1] if item.state == READY else ""
        if there and here and there != here:
            raise Failed(f"{self.to()} has {there[:12]} as {item.name}, and here it is {here[:12]}:"
                         " fetch it (git fetch --tags), or release another version")
        return None if there is None else bool(there)

    def commands(self):
        return [self.command(self.ref())]

    def publish(self, item):
        self.push(self.ref())


class Pie(Repository):
    """A repository whose root is php/, because Packagist reads composer.json there. Each release is
    one commit on the branch main."""

    title = "PIE"
    choices = ("destinations.php_repository",)

    def items(self):
        name = self.release.owner["names.php"]
        status, _ = self.git("rev-parse", "--quiet", "--verify", "HEAD:php/composer.json")
        return [Item(name) if not status else
                Item(name, state=MISSING, advice="commit php/composer.json")]

    def tree(self):
        """Returns the tree of the repository: php/ and the license."""
        listed = self.git("ls-tree", "HEAD:php")[1]
        license = self.git("rev-parse", "HEAD:LICENSE")[1]
        entries = [line for line in listed.splitlines() if not line.endswith("\tLICENSE")]
        entries.append(f"100644 blob {license}\tLICENSE")
        done = quiet(["sh", "-c", "printf '%s\\n' \"$1\" | git mktree", "sh", "\n".join(entries)],
                     cwd=self.release.root)
        if done.returncode:
            raise Failed(f"git mktree failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def commit(self, parent=None):
        """Returns the commit of this release. Equal sources make equal commits."""
        name, mail = (self.release.owner[f"people.{of}"] for of in ("maintainer", "mail"))
        date = f"@{self.release.time} +0000"
        of = {"NAME": name, "EMAIL": mail, "DATE": date}
        variables = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
                     for key, value in of.items()}
        message = f"Release {self.release.version}, commit {self.release.commit}"
        after = ["-p", parent] if parent else []
        done = quiet(["git", "commit-tree", "-m", message, *after, self.tree()],
                     cwd=self.release.root, **variables)
        if done.returncode:
            raise Failed(f"git commit-tree failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def fetched(self, ref):
        """Fetches a ref of the place without a name for it here. Returns its commit."""
        done = quiet(["git", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", self.to(),
                      ref], cwd=self.release.root)
        if done.returncode:
            raise Failed(f"git cannot fetch {ref} of {self.to()}: {done.stderr.strip()}")
        return self.there(ref)

    def published(self, item):
        tag = f"refs/tags/{self.release.tag}"
        there = self.there(tag)
        if not there:
            return None if there is None else False
        tree = self.git("rev-parse", f"{self.fetched(tag)}^{{tree}}")[1]
        if tree != self.tree():
            raise Failed(f"{self.to()} has another {self.release.tag}: release another version")
        return True

    def rehearse(self):
        commit = self.commit()
        listed = self.git("ls-tree", "--name-only", commit)[1].split("\n")
        print(f"    commit {commit[:12]} of {self.to()} has {', '.join(listed)}")
        if "composer.json" not in listed:
            raise Failed("php/ has no composer.json, which Packagist reads")

    def commands(self):
        tag = self.release.tag
        return [self.command("COMMIT:refs/heads/main", f"COMMIT:refs/tags/{tag}")]

    def publish(self, item):
        main = "refs/heads/main"
        parent = self.there(main)
        if parent is None:
            raise Failed(f"{self.to()} does not answer")
        commit = self.commit(self.fetched(main) if parent else None)
        self.push(f"{commit}:{main}", f"{commit}:refs/tags/{self.release.tag}")

    def finish(self):
        print(f"    register {self.to()} at https://packagist.org/packages/submit once; its hook"
              " then reads each new tag")
