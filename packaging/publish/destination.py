"""A place to which a release is published, and the tools that all places share."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path


class Failed(Exception):
    """A step that cannot be done, with what to do, and the output of its program."""

    def __init__(self, message, output=""):
        super().__init__(message)
        self.output = output


READY, MISSING, DIFFERS, THERE, UNKNOWN = "ready", "missing", "differs", "published", "unknown"


class Item:
    """A thing that is published: a file, a crate, a tag."""

    def __init__(self, name, file=None, state=READY, advice=""):
        self.name, self.file, self.state, self.advice = name, file, state, advice
        # A release can be published without it.
        self.is_optional = False

    def described(self):
        return f"{self.state}: {self.advice}" if self.advice else self.state


class Token:
    """A credential in the environment, or in a file of the home directory."""

    def __init__(self, variable, file, advice):
        self.variable, self.file, self.advice = variable, file, advice

    def missing(self):
        if os.environ.get(self.variable) or (self.file and (Path.home() / self.file).is_file()):
            return None
        also = f", and ~/{self.file} does not exist" if self.file else ""
        return f"{self.variable} is not set{also}: {self.advice}"

    def __str__(self):
        return self.variable


class Access:
    """A credential that only its use can check, without an effect."""

    def __init__(self, name, command, advice):
        self.name, self.command, self.advice = name, command, advice

    def missing(self):
        done = quiet(self.command)
        if done.returncode == 0:
            return None
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        return f"{shlex.join(self.command)} fails ({reason[0]}): {self.advice}"

    def __str__(self):
        return self.name


class Login:
    """A login at a registry of images, in a file that podman, docker or helm has written."""

    def __init__(self, registry, files, advice):
        self.registry, self.advice = registry, advice
        self.files = [Path(file).expanduser() for file in files]

    def missing(self):
        for file in self.files:
            try:
                logins = json.loads(file.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            helped = {**logins.get("auths", {}), **logins.get("credHelpers", {})}
            if self.registry in helped or "credsStore" in logins:
                return None
        files = " and ".join(map(str, self.files))
        return f"{files} have no login at {self.registry}: {self.advice}"

    def __str__(self):
        return f"login at {self.registry}"


def environment(more=()):
    """Returns variables with which git fails in place of asking for a password, and messages are
    in English."""
    return {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8", **dict(more)}


def quiet(command, cwd=None, **more):
    """Runs a command that has no effect. Returns its status and output."""
    try:
        return subprocess.run(command, cwd=cwd, env=environment(more), capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]} is not installed")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "no answer within 60 s")


def run(command, cwd=None, **more):
    """Prints and runs a command. Returns its output."""
    print(f"    {shlex.join(map(str, command))}", flush=True)
    done = subprocess.run(command, cwd=cwd, env=environment(more), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(done.stdout, end="")
        raise Failed(f"{shlex.join(map(str, command))} ended with status {done.returncode}",
                     done.stdout)
    return done.stdout


class Destination:
    """A place. `release` has the checkout, the version and the choices of the owner."""

    title = ""
    # The keys of owner.toml that the place depends on.
    choices = ()
    # Programs, with the packages of Debian that have them.
    tools = {}

    def __init__(self, release):
        self.release = release

    def to(self):
        """Returns the address."""
        raise NotImplementedError

    def items(self):
        """Returns the things to publish, in their order, as they are on this machine."""
        raise NotImplementedError

    def credentials(self):
        return []

    def published(self, item):
        """Asks the place: true, false, or None if it does not answer. Raises Failed if it has
        another thing with this name and version."""
        raise NotImplementedError

    def rehearse(self):
        """Does everything that needs no credential and has no effect outside of target/publish."""

    def commands(self):
        """Returns the commands that `publish` runs, for the reader of a dry run."""
        raise NotImplementedError

    def publish(self, item):
        """Publishes one thing."""
        raise NotImplementedError

    def finish(self):
        """Runs after all things have been published."""

    def missing_tools(self):
        return [f"{tool} is missing: apt-get install {package}" if package else
                f"{tool} is missing: see docs/releases.md"
                for tool, package in self.tools.items() if not shutil.which(tool)]

    def undecided(self):
        return [key for key in self.choices if not self.release.owner.is_chosen(key)]

    def asked(self, items):
        """Replaces the state of things that are already published."""
        if self.undecided() or self.missing_tools():
            return items
        there = False
        for item in items:
            try:
                # A place that does not answer is asked only once.
                there = None if there is None else self.published(item)
            except Failed as failed:
                item.state, item.advice = DIFFERS, str(failed)
                continue
            if there:
                item.state, item.advice = THERE, ""
            elif there is None and item.state == READY:
                item.state, item.advice = UNKNOWN, f"{self.to()} does not answer"
        return items
