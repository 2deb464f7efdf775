"""The image of larderd and the Helm chart, in registries of images."""

import os
import re
import shutil

from destination import DIFFERS, MISSING, READY, Destination, Item, Login, quiet, run

PLATFORMS = ("amd64", "arm64")
DOCKER = "~/.docker/config.json"


class Image(Destination):
    title = "image"
    choices = ("destinations.image", "names.repository")
    tools = {"podman": "podman"}

    def to(self):
        return self.release.owner["destinations.image"]

    def tagged(self):
        return f"{self.to()}:{self.release.version}"

    def items(self):
        """The image has the programs of the tarballs, so that both come from one build."""
        item = Item(self.tagged())
        build = "make dist"
        for architecture in PLATFORMS:
            path = self.release.target / "portable" / architecture / "larder"
            if not path.is_file():
                item.state, item.advice = MISSING, build
            elif self.release.commit[:12].encode() not in path.read_bytes():
                item.state = DIFFERS
                item.advice = f"{path} is not of commit {self.release.commit[:12]}: {build}"
        return [item]

    def credentials(self):
        registry = self.to().partition("/")[0]
        runtime = os.environ.get("XDG_RUNTIME_DIR", "/run/user/0")
        chosen = os.environ.get("REGISTRY_AUTH_FILE")
        files = [chosen] if chosen else [f"{runtime}/containers/auth.json", DOCKER]
        advice = f"podman login {registry}, with a token that may write images"
        return [Login(registry, files, advice)]

    def published(self, item):
        done = quiet(["podman", "manifest", "inspect", f"docker://{item.name}"])
        if done.returncode == 0:
            return True
        return False if re.search("unknown|not found|404", done.stderr) else None

    def build(self):
        platforms = ",".join(f"linux/{of}" for of in PLATFORMS)
        source = self.release.owner["names.repository"]
        return ["podman", "build", "--format", "docker", "--platform", platforms,
                "--build-arg", "BINARIES=portable", "--file", "deploy/Containerfile",
                "--label", f"org.opencontainers.image.source={source}",
                "--label", f"org.opencontainers.image.version={self.release.version}",
                "--label", f"org.opencontainers.image.revision={self.release.commit}",
                "--manifest", self.tagged(), "."]

    def push(self):
        return ["podman", "manifest", "push", "--all", self.tagged(), f"docker://{self.tagged()}"]

    def commands(self):
        return [self.build(), self.push()]

    def rehearse(self):
        if self.items()[0].state == READY and not self.missing_tools():
            run(self.build(), cwd=self.release.root)

    def publish(self, item):
        # A manifest that exists would receive the images of both builds.
        quiet(["podman", "manifest", "rm", self.tagged()])
        run(self.build(), cwd=self.release.root)
        run(self.push(), cwd=self.release.root)


class Chart(Destination):
    title = "chart"
    choices = ("destinations.charts", "destinations.image", "names.repository")

    def to(self):
        return self.release.owner["destinations.charts"]

    def helm(self):
        """Returns the helm of the environment, of PATH, or the one that helm-test builds."""
        built = sorted((self.release.target / "deploy").glob("helm@*/helm"))
        chosen = os.environ.get("HELM") or shutil.which("helm")
        return chosen or (str(built[-1]) if built else "helm")

    def missing_tools(self):
        if shutil.which(self.helm()):
            return []
        return ["helm is missing: make verify ONLY=helm-test builds it, or set HELM"]

    def file(self):
        return self.release.staged / f"chart/larder-{self.release.version}.tgz"

    def items(self):
        """The chart is packed here, because it contains the address of the image."""
        return [Item("larder", self.file() if self.file().is_file() else None)]

    def credentials(self):
        registry = self.to().removeprefix("oci://").partition("/")[0]
        chosen = os.environ.get("HELM_REGISTRY_CONFIG")
        files = [chosen] if chosen else ["~/.config/helm/registry/config.json", DOCKER]
        return [Login(registry, files, f"helm registry login {registry}")]

    def published(self, item):
        done = quiet([self.helm(), "show", "chart", f"{self.to()}/larder",
                      "--version", self.release.version])
        if done.returncode == 0:
            return True
        return False if re.search("not found|404", done.stderr) else None

    def source(self):
        return self.release.staged / "chart/larder"

    def write_source(self):
        """Writes a copy of deploy/helm whose default image is the published one."""
        folder = self.source()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.release.root / "deploy/helm", folder)
        registry, _, repository = self.release.owner["destinations.image"].partition("/")
        values = folder / "values.yaml"
        text = values.read_text(encoding="utf-8")
        for key, value in (("registry", registry), ("repository", repository)):
            text, count = re.subn(rf'(?m)^(  {key}: ).*$', rf"\g<1>{value}", text, count=1)
            assert count == 1, f"values.yaml has no line {key}"
        values.write_text(text, encoding="utf-8")
        address = self.release.owner["names.repository"]
        with open(folder / "Chart.yaml", "a", encoding="utf-8") as chart:
            chart.write(f"home: {address}\nsources: [{address}]\n")

    def package(self):
        return [self.helm(), "package", "--destination", str(self.file().parent),
                str(self.source())]

    def commands(self):
        return [self.package(), [self.helm(), "push", str(self.file()), self.to()]]

    def rehearse(self):
        self.write_source()
        run(self.package())

    def publish(self, item):
        self.write_source()
        for command in self.commands():
            run(command)
