#!/usr/bin/env python3
"""Publishes the release that the checkout describes.

    publish.py --dry     shows the things to publish and their places, checks the checkout and the
                         built files, rehearses each step that needs no credential, and lists the
                         credentials that are missing; publishes nothing
    publish.py           does the same checks, and publishes only if all succeed

Things that a place already has are left out, so a second run continues after an interruption. The
first step that fails ends the run: nothing after it is published. packaging/owner.toml has the
names and addresses. `make publish` calls this program."""

import argparse
import shlex
import sys

import checks
import owner
from destination import DIFFERS, MISSING, READY, THERE, UNKNOWN, Failed
from images import Chart, Image
from registries import Crates, Node, Python
from release import Release
from repositories import Pie, Tag
from sites import Apt, Downloads, Go, Rpm

# In the order of publication. The crates and packages of languages cannot be withdrawn.
PLACES = (Tag, Crates, Go, Python, Node, Pie, Downloads, Apt, Rpm, Image, Chart)


def size_of(path):
    if path is None or not path.is_file():
        return ""
    size = path.stat().st_size
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


def table(rows):
    """Prints rows with aligned columns. The last column may be long."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        print("  ".join([*cells, row[-1]]).rstrip())


def shown(release, places):
    """Prints the table of all things."""
    rows = [("place", "to", "thing", "version", "file", "size", "state")]
    for place, items in places:
        for item in items:
            file = item.file if item.file and item.file.is_file() else None
            rows.append((
                place.title, place.to(), item.name, release.version,
                str(file.relative_to(release.target)) if file else "", size_of(file),
                item.described() + (" (optional)" if item.is_optional else "")))
    table(rows)


class Plan:
    """Everything that stands between a checkout and its publication."""

    def __init__(self, release, chosen):
        self.release = release
        self.places = [(place, place.asked(place.items())) for place in
                       (kind(release) for kind in PLACES) if not chosen or place.title in chosen]
        # Lines by their titles. Only the owner can resolve the choices and the credentials.
        self.choices = release.owner.undecided()
        self.checks = checks.all_of(release.root) + release.signed()
        self.things, self.tools, self.credentials = [], [], []
        for place, items in self.places:
            if left(items):
                self.things += [f"{place.title}: {line}" for line in obstacles(items)]
                self.tools += place.missing_tools()
                self.credentials += [f"{place.title}: {line}" for line in missing(place)]

    def report(self):
        """Prints everything that keeps the release from being published. Returns true if something
        does."""
        parts = {f"Choices of {owner.FILE} that the owner has not made": self.choices,
                 "Checks that fail": self.checks, "Things that are not ready": self.things,
                 "Missing programs": self.tools, "Missing credentials": self.credentials}
        for title, lines in parts.items():
            lines = list(dict.fromkeys(lines))
            print(f"\n{title}: {len(lines) or 'none'}")
            for line in lines:
                print(f"  - {line}")
        return any(parts.values())


def left(items):
    """Returns the things that are not published yet."""
    return [item for item in items if item.state != THERE]


def obstacles(items):
    """Returns the reasons why things of a place cannot be published, as lines."""
    names = {}
    for item in items:
        if item.state in (DIFFERS, UNKNOWN) or (item.state == MISSING and not item.is_optional):
            names.setdefault(item.described(), []).append(item.name)
    return [f"{of[0]}{f' and {len(of) - 1} more' if len(of) > 1 else ''}: {reason}"
            for reason, of in names.items()]


def missing(place):
    """Returns the missing credentials of a place, as lines. A place without an address is not
    asked."""
    if place.undecided():
        return [f"{of} (not checked before the address is chosen): {of.advice}"
                for of in place.credentials()]
    return [line for line in (of.missing() for of in place.credentials()) if line]


def rehearsed(plan):
    """Runs the steps that need no credential, and shows those that do. Returns problems."""
    problems = []
    for place, items in plan.places:
        print(f"\n{place.title}: {place.to()}")
        if not left(items):
            print("    everything is published")
            continue
        if place.missing_tools():
            print(f"    not rehearsed: {'; '.join(place.missing_tools())}")
        elif not any(item.state == READY for item in items):
            print("    not rehearsed: no file is ready")
        else:
            try:
                place.rehearse()
            except Failed as failed:
                problems.append(f"{place.title}: the rehearsal failed: {failed}")
        print(f"    stops here: the next step needs {' and '.join(map(str, place.credentials()))}")
        for command in place.commands():
            print(f"  > {shlex.join(command)}".replace(f"{plan.release.root}/", ""))
    return problems


def published(plan):
    """Publishes everything that is ready and not published yet."""
    for place, items in plan.places:
        ready = [item for item in left(items) if item.state == READY]
        print(f"\n{place.title}: {place.to()}: {len(ready)} of {len(items)} to do")
        for item in ready:
            print(f"  {item.name}", flush=True)
            place.publish(item)
        if ready:
            place.finish()


def dry_run(plan):
    print("A dry run: nothing is published.\n")
    shown(plan.release, plan.places)
    plan.things += rehearsed(plan)
    plan.report()
    print(f"\nThe dry run of {plan.release.version} published nothing.")
    return 1 if plan.checks or plan.things or plan.tools else 0


def real_run(plan):
    shown(plan.release, plan.places)
    if plan.report():
        print("\nNothing was published: correct the lines above; make publish DRY=1 rehearses.")
        return 1
    try:
        published(plan)
    except Failed as failed:
        print(f"\nThe run stopped: {failed}\nNothing after this step was published. Correct the"
              " cause, and run make publish again: it continues with the rest.")
        return 1
    print(f"\nLarder {plan.release.version} is published.")
    return 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], metavar="PLACE",
                        choices=[place.title for place in PLACES])
    arguments = parser.parse_args()
    try:
        plan = Plan(Release(owner.ROOT), arguments.only)
    except (Failed, owner.Mistake) as mistake:
        sys.exit(f"publish: {mistake}")
    sys.exit((dry_run if arguments.dry else real_run)(plan))


if __name__ == "__main__":
    main()
