"""The environments in which a page is typed: an empty home on this system, or on a bare Debian."""

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# The parts of the bare Debian, kept between runs.
KEPT = BUILT / "bare"
READER = 1000


def asked(*command, **options):
    return subprocess.check_output(command, text=True, **options).strip()


def go(name):
    return asked("go", "env", name, cwd=ROOT)


def offline():
    """Returns environment variables with which package managers reach no other machine: Go modules
    come from this machine's module cache, as from a proxy."""
    return {
        "CARGO_NET_OFFLINE": "true", "GOSUMDB": "off", "LANG": "C.UTF-8", "TERM": "xterm",
        "GOPROXY": f"file://{go('GOMODCACHE')}/cache/download",
    }


class Namespace:
    """A namespace with separate processes, mounts and network, until `end`.

    prepare: commands of sh that run in it first
    """

    def __init__(self, prepare):
        # The processes end with this program, however it ends.
        unshare = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork",
                   "--kill-child", "--mount-proc"]
        if os.getuid():
            unshare += ["--user", "--map-current-user", "--keep-caps"]
        script = f"set -e; ip link set lo up\n{prepare}\necho ready; exec sleep infinity"
        self.process = subprocess.Popen(
            [*unshare, "sh", "-c", script], stdout=subprocess.PIPE, text=True
        )
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit("pages: cannot make namespaces for a page; see the error above")
        outer = self.process.pid
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text(encoding="ascii")
        self.first = int(children.split()[0])
        self.enter = ["nsenter", f"--target={self.first}", "--net", "--mount", "--pid"]
        if os.getuid():
            self.enter += ["--user", "--preserve-credentials"]

    def left(self):
        """Returns the command lines of the processes in the namespace."""
        inner = os.readlink(f"/proc/{self.first}/ns/pid")
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "ns/pid") == inner and int(process.name) != self.first:
                    words = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                    found += [words.decode("utf-8", "replace").strip()] if words else []
            except OSError:
                continue
        return found

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Here:
    """An empty home on this system, with the toolchains and the user of the caller."""

    name = "here"

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="larder-page-"))
        self.home = self.folder / "home"
        self.home.mkdir()
        # Pages name the same files there.
        self.namespace = Namespace("mount -t tmpfs -o mode=1777 tmpfs /dev/shm")
        self.enter = self.namespace.enter
        self.checkout = ROOT
        cargo = {name: os.environ.get(name, os.path.expanduser(f"~/{folder}"))
                 for name, folder in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"))}
        shared = {name: os.environ[name] for name in ("BUILT_PACKAGES",) if name in os.environ}
        self.environment = {
            **offline(), **cargo, **shared, "GOCACHE": go("GOCACHE"), "HOME": str(self.home),
            "PATH": os.environ["PATH"],
        }

    def save(self, folder, name, text):
        Path(folder, name).write_text(text, encoding="utf-8")

    def end(self):
        self.namespace.end()
        shutil.rmtree(self.folder, ignore_errors=True)


class Bare:
    """A Debian with only the prerequisites of README.md and of the page.

    It can read the toolchains and the module caches of this machine. The checkout and its build
    belong to the reader: root, or an ordinary user.
    """

    def __init__(self, user, packages, more, builds):
        self.name = user
        uid = 0 if user == "root" else READER
        self.folder = Path(tempfile.mkdtemp(prefix="run-", dir=KEPT))
        self.home = Path("/root" if user == "root" else f"/home/{user}")
        self.checkout = Path("/src/larder")
        self.root = self.folder / "root"
        layers = debian(packages, more)
        go_root, cargo_home = go("GOROOT"), os.environ.get("CARGO_HOME", Path.home() / ".cargo")
        rust = asked("rustc", "--print", "sysroot", cwd=ROOT)
        cache = KEPT / f"go-build-{user}"
        cache.mkdir(exist_ok=True)
        os.chown(cache, uid, uid)
        # Not at their original paths: these may be in the home of root, which must be empty.
        read = {"go": go_root, "rust": rust, "registry": f"{cargo_home}/registry",
                "modules": f"{go('GOMODCACHE')}/cache/download"}
        self.namespace = Namespace("\n".join([
            f"cd {self.folder}; mkdir upper work root checkout-upper checkout-work",
            overlay(":".join(map(str, layers)), "upper", "work", "root"),
            f"mkdir -p root{self.checkout} root/cache/go root/cache/cargo",
            overlay(checkout(user, uid, builds), "checkout-upper", "checkout-work",
                    f"root{self.checkout}"),
            *(f"mkdir -p root/tools/{name}; mount --bind -o ro {path} root/tools/{name}"
              for name, path in read.items()),
            f"mount --bind {cache} root/cache/go",
            "ln -s /tools/registry root/cache/cargo/registry",
            f"chown {uid}:{uid} root/cache/cargo",
            "mount -t proc proc root/proc; mount --rbind /dev root/dev",
            "mount -t tmpfs -o mode=1777 tmpfs root/dev/shm; mount -t tmpfs tmpfs root/run",
        ]))
        self.enter = [*self.namespace.enter, "chroot", f"--userspec={uid}:{uid}", "--groups=",
                      str(self.root)]
        self.environment = {
            **offline(), "CARGO_HOME": "/cache/cargo", "GOCACHE": "/cache/go",
            "GOPROXY": "file:///tools/modules", "HOME": str(self.home),
            "PATH": "/tools/rust/bin:/tools/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
                    "/sbin:/bin",
        }

    def save(self, folder, name, text):
        """Saves a file that belongs to the reader."""
        subprocess.run([*self.enter, "/bin/sh", "-c", f"cat >'{folder}/{name}'"],
                       input=text, text=True, check=True)

    def end(self):
        self.namespace.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def overlay(lower, upper, work, onto):
    return f"mount -t overlay -o lowerdir={lower},upperdir={upper},workdir={work} overlay {onto}"


def debian(packages, more):
    """Returns the folders of a Debian, the uppermost first: one with these packages, and above it
    one with packages that only this page names."""
    base = KEPT / f"debian-{digest(packages)}"
    if not base.exists():
        made = KEPT / "debian.part"
        shutil.rmtree(made, ignore_errors=True)
        subprocess.run([ROOT / "packaging/debian-root.sh", made, *packages], check=True)
        subprocess.run(["chroot", made, "useradd", "--uid", str(READER), "--user-group",
                        "--create-home", "--skel", "/nonexistent", "--shell", "/bin/bash",
                        "reader"], check=True)
        for left in (made / "root").iterdir():
            left.unlink()
        made.rename(base)
    if not more:
        return [base]
    layer = KEPT / f"packages-{digest([*packages, '+', *more])}"
    if not layer.exists():
        folder = Path(tempfile.mkdtemp(prefix="layer-", dir=KEPT))
        script = "\n".join([
            f"set -e; cd {folder}; mkdir upper work root",
            overlay(base, "upper", "work", "root"),
            "mount -t proc proc root/proc; mount --rbind /dev root/dev",
            "export DEBIAN_FRONTEND=noninteractive",
            f"chroot root apt-get install -y -qq --no-install-recommends {' '.join(more)} >log 2>&1"
            " || { tail -n 20 log >&2; exit 1; }",
        ])
        subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                        script], check=True)
        (folder / "upper").rename(layer)
        shutil.rmtree(folder)
    return [layer, base]


def digest(words):
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


@functools.cache
def checkout(user, uid, builds):
    """Copies the checkout's files, except ignored ones, and the programs for a user. For a page that
    builds something it also copies the release build with its file times, so that cargo reuses
    it."""
    copy = KEPT / f"checkout-{user}{'-built' if builds else ''}"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    script = """
        git ls-files -z --cached --others --exclude-standard |
            tar --create --null --ignore-failed-read --files-from=- | tar --extract --directory "$1"
        mkdir -p "$1/target/release" && cp -a $4 "$1/target/release/"
        rm -rf "$1/target/release/incremental"
        chown -R "$3:$3" "$1"
    """
    built = f"{BUILT}/release/." if builds else f"{BUILT}/release/larderd {BUILT}/release/larder"
    subprocess.run(["sh", "-e", "-c", script, "sh", copy, BUILT, str(uid), built], check=True,
                   cwd=ROOT)
    return copy
