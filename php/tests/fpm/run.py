#!/usr/bin/env python3
"""php-fpm under real conditions, with a module that has APCu's functions: run.py MODULE [NAME…]

MODULE is the file of the extension. With names it runs only these scenarios, otherwise all except
MediaWiki's, which needs Debian's package of MediaWiki. Two environment variables are for the
scenarios that kill workers: SECS is their duration in seconds (5 by default). LONGEST_MS is how
long an operation of another worker may take during this time (100 by default). Other programs may
preempt a worker that holds a lock, so use 20 only on a quiet machine. The script needs Debian's
php8.2-fpm and nginx, and root, because php-fpm changes the user of its workers."""

import concurrent.futures
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import mediawiki
from website import Site

SKIP = Path(__file__).resolve().parents[3] / ".ci" / "skip"
MODULE = None
SCENARIOS = {}
SECS = float(os.environ.get("SECS", 5))
LONGEST_MS = float(os.environ.get("LONGEST_MS", 100))


def scenario(play):
    SCENARIOS[play.__name__] = play
    return play


def check(holds, words):
    if not holds:
        raise AssertionError(words)


def call(site, function, *arguments, us=0):
    """Calls a function in some worker. Returns the worker's pid and the result."""
    reply = site.get("call.php", f=function, a=json.dumps(arguments), us=us)
    check(reply.status == 200, f"{function} answers {reply.status}: {reply.text}\n{site.logs()}")
    try:
        return json.loads(reply.text)
    except ValueError:
        raise AssertionError(f"{function} prints {reply.text!r}") from None


def by_all(site, count, function, *arguments, us=300_000):
    """Calls a function in `count` workers at the same time. Returns the results by pid.

    On a busy machine one worker may answer twice before another answers once, so the calls are
    repeated, with twice the pause each time, until more than 80 % of the workers have answered."""
    results = {}
    for pause in (us, 2 * us, 4 * us, 8 * us):
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            calls = [pool.submit(call, site, function, *arguments, us=pause) for _ in range(count)]
            results.update(answer.result() for answer in calls)
        if len(results) > count * 0.8:
            break
    return results


def all_share(site, workers):
    """Checks that every worker sees the stores and deletes of another one."""
    for round_ in range(3):
        writer, stored = call(site, "apcu_store", f"key{round_}", f"value{round_}")
        check(stored is True, f"worker {writer} stores: {stored}")
        found = by_all(site, workers, "apcu_fetch", f"key{round_}")
        check(len(found) > workers * 0.8, f"{len(found)} of {workers} workers answered")
        lost = {pid: value for pid, value in found.items() if value != f"value{round_}"}
        check(not lost, f"{len(lost)} of {len(found)} workers miss what {writer} stored: {lost}")
        call(site, "apcu_delete", f"key{round_}")
        found = by_all(site, workers, "apcu_exists", f"key{round_}")
        stale = [pid for pid, is_there in found.items() if is_there]
        check(not stale, f"{len(stale)} workers see what another one has deleted")
    _, info = call(site, "apcu_cache_info", True)
    check(info["num_hits"] >= workers, f"hits rose to {info['num_hits']} only")


@scenario
def workers_of_another_user_share():
    with Site(MODULE, workers=4) as site:
        all_share(site, 4)


@scenario
def a_hundred_workers_share_32_megabytes():
    with Site(MODULE, workers=100, ini={"apc.shm_size": "32M"}) as site:
        all_share(site, 100)


@scenario
def no_delete_of_a_thousand_workers_is_lost():
    """Each round stores, reads, deletes and looks for a key, in workers that nginx happens to
    choose, while workers are killed. A round that meets a killed worker does not count."""
    with Site(MODULE, workers=1000, ini={"apc.shm_size": "32M"}) as site:
        joined = by_all(site, 1000, "apcu_store", "warm", 1, us=1_000_000)
        check(len(joined) > 800, f"only {len(joined)} of 1000 workers answered")
        failed = [pid for pid, is_stored in joined.items() if is_stored is not True]
        check(not failed, f"{len(failed)} workers cannot store\n{site.logs()}")
        ends, rounds, killed, wrong = time.monotonic() + SECS, [], [], []

        def load(client):
            for number in range(1_000_000):
                if time.monotonic() > ends or wrong:
                    return
                key = f"key {client} {number}"
                try:
                    stored = call(site, "apcu_store", key, number)
                    fetched = call(site, "apcu_fetch", key)
                    deleted = call(site, "apcu_delete", key)
                    found = call(site, "apcu_exists", key)
                except (AssertionError, OSError):
                    continue
                results = [result for _, result in (stored, fetched, deleted, found)]
                rounds.append({pid for pid, _ in (stored, fetched, deleted, found)})
                if results != [True, number, True, False]:
                    wrong.append((key, results))

        clients = [threading.Thread(target=load, args=(client,)) for client in range(16)]
        for client in clients:
            client.start()
        while time.monotonic() < ends:
            time.sleep(0.1)
            killed.append(random.choice(site.workers()))
            try:
                os.kill(killed[-1], signal.SIGKILL)
            except ProcessLookupError:
                pass
        for client in clients:
            client.join()
        workers = len(set().union(*rounds))
        print(f"   {len(rounds)} rounds in {workers} workers, {len(killed)} killed")
        check(not wrong, f"stale or lost: {wrong}")
        check(len(rounds) > 20 * SECS and workers > 100, "too few rounds")


@scenario
def workers_of_a_chroot_pool_share():
    with Site(MODULE, workers=4, chroot=True) as site:
        all_share(site, 4)


@scenario
def killed_workers_harm_no_other():
    with Site(MODULE, workers=4, ini={"apc.shm_size": "64M"}) as site:
        ends = time.monotonic() + SECS
        killed, reports, errors, hung = [], [], 0, 0
        lock = threading.Lock()

        def load():
            nonlocal errors, hung
            while time.monotonic() < ends:
                try:
                    reply = site.get("storm.php", timeout=10, ms=100)
                except TimeoutError:
                    hung += 1
                    return
                with lock:
                    if reply.status == 200:
                        reports.append(json.loads(reply.text))
                    else:
                        errors += 1

        loads = [threading.Thread(target=load) for _ in range(3)]
        for thread in loads:
            thread.start()
        while time.monotonic() < ends - 0.5:
            time.sleep(random.uniform(0.02, 0.1))
            workers = site.workers()
            if workers:
                killed.append(random.choice(workers))
                try:
                    os.kill(killed[-1], signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for thread in loads:
            thread.join()
        check(hung == 0, f"{hung} requests hang: a killed worker has left a lock")
        has_killed = len(killed) > 5 * SECS and errors > 0
        check(has_killed, f"{len(killed)} killed, {errors} requests failed")
        check(len(reports) > 5 * SECS, f"only {len(reports)} requests ended")
        wrong = sum(report["wrong"] for report in reports)
        check(wrong == 0, f"{wrong} wrong values")
        longest = max(report["longest_us"] for report in reports) / 1000
        done = sum(report["done"] for report in reports)
        print(f"   {len(killed)} killed, {done} operations, longest {longest:.1f} ms")
        check(longest <= LONGEST_MS, f"a worker waited for {longest:.1f} of {LONGEST_MS} ms")
        all_share(site, 4)


@scenario
def a_request_that_takes_too_long_ends_alone():
    with Site(MODULE, workers=3, pool="request_terminate_timeout = 1s") as site:
        call(site, "apcu_store", "before", 1)
        check(site.get("endless.php").status != 200, "the endless page ended")
        all_share(site, 3)
        check(call(site, "apcu_fetch", "before")[1] == 1, "the cache was lost")


@scenario
def a_reload_begins_with_a_usable_cache():
    with Site(MODULE, workers=3) as site:
        call(site, "apcu_store", "before", 1)
        site.reload()
        all_share(site, 3)


@scenario
def a_full_cache_keeps_what_is_used():
    with Site(MODULE, workers=2, ini={"apc.shm_size": "32M"}) as site:
        reply = site.get("fill.php", n=100_000, size=1000)
        report = json.loads(reply.text)
        check(report == {"failed": 0, "missing": 0}, f"{report}")
        all_share(site, 2)


@scenario
def the_memory_limit_ends_one_page():
    with Site(MODULE, workers=2, ini={"apc.shm_size": "64M"}) as site:
        for _ in range(20):
            reply = site.get("limit.php")
            check("Allowed memory size" in reply.text, f"no memory limit: {reply.text[:200]}")
        all_share(site, 2)


@scenario
def the_time_of_a_request_is_its_own():
    with Site(MODULE, workers=1, ini={"apc.use_request_time": 1}) as site:
        call(site, "apcu_store", "brief", 1, 1)
        check(site.get("late.php").text == "ok", site.logs())
        check(call(site, "apcu_exists", "late")[1], "the session was not written")
        check(site.get("late.php").text == "ok", site.logs())
        time.sleep(3)
        _, is_there = call(site, "apcu_exists", "brief")
        check(not is_there, "a request has the time of the one before: an expired item is there")


@scenario
def mediawiki_keeps_its_objects_here():
    with mediawiki.installed(MODULE) as site:
        for title in ("Main_Page", "Special:Version", "Special:RecentChanges") * 4:
            reply = site.get("wiki/index.php", title=title)
            check(reply.status == 200, f"{title}: {reply.status} {reply.text[:500]}\n{site.logs()}")
            is_wiki = "MediaWiki" in reply.text
            check(is_wiki, f"{title} is not a page of MediaWiki: {reply.text[:200]}")
        _, info = call(site, "apcu_cache_info", True)
        print("   " + ", ".join(f"{info[f'num_{n}']:.0f} {n}" for n in ("hits", "misses", "entries")))
        check(info["num_hits"] > 50 and info["num_entries"] > 5, f"{info}")


def main():
    global MODULE
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    MODULE = os.path.abspath(sys.argv[1])
    if os.getuid() != 0:
        subprocess.run([SKIP, "php-fpm", "needs root to change the user of its workers"], check=True)
        return
    failed = 0
    names = sys.argv[2:] or [name for name in SCENARIOS if "mediawiki" not in name]
    for name in names:
        begun = time.monotonic()
        try:
            SCENARIOS[name]()
            print(f"ok {name}, {time.monotonic() - begun:.1f} s", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {name}: {error}", flush=True)
    print(f"fpm: {len(names) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
