#!/usr/bin/env python3
"""The drop-in for WordPress in Debian's WordPress, behind nginx and php-fpm, with a private
MariaDB: run.py LARDER_SO [NAME…]. With names it runs only these scenarios. WORDPRESS is the folder
of another version. It needs the packages of conformance/install.sh all, and root, because the
servers change their user."""

import concurrent.futures
import os
import re
import subprocess
import sys
import time

from wordpress import HERE, Browser, WordPress

SKIP = HERE.parents[2] / ".ci" / "skip"
MODULE = None
SCENARIOS = {}


def scenario(play):
    SCENARIOS[play.__name__] = play
    return play


def check(holds, words):
    if not holds:
        raise AssertionError(words)


def expect(what, found, wanted):
    check(found == wanted, f"{what}: {found!r}, not {wanted!r}")


def serve(wordpress, **ini):
    return wordpress.serve(MODULE, **ini)


def admin_of(served, site):
    browser = Browser(served, site)
    browser.log_in()
    return browser


def by_workers(browser, *call):
    """Calls a function until three workers have answered. Returns the results."""
    results, workers = [], set()
    deadline = time.monotonic() + 60
    while len(workers) < 3:
        check(time.monotonic() < deadline, f"only {len(workers)} workers answer")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(browser.call, call, ("getmypid",)) for _ in range(4)]
            for each in calls:
                result, worker = each.result()
                results.append(result)
                workers.add(worker)
    return results


def in_parallel(*tasks):
    with concurrent.futures.ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result() for future in [pool.submit(task) for task in tasks]]


# The pages of a visitor, and the pages of the administrator.
VISITED = {"the front page": "", "a post": "?p=1", "a page": "?page_id=2", "a category": "?cat=1",
           "a search": "?s=hello", "the feed": "?feed=rss2", "the author": "?author=1"}
ADMINISTERED = {"the dashboard": "wp-admin/", "the list of posts": "wp-admin/edit.php",
                "the settings": "wp-admin/options-general.php"}


def same_text(text, site):
    """Returns a page without the parts that differ between sites, seconds or visits."""
    text = re.sub(r"<!-- queries: \d+ -->|\d\d:\d\d:\d\d", "", text)
    return re.sub(rf"(/|%2F|Site ){site}\b", r"\1SITE", text).splitlines()


def expect_same(name, path, visitors):
    """Compares a page of two sites with the same entries."""
    wanted, found = (same_text(each.page(path), site) for site, each in visitors.items())
    check(len(wanted) > 20, f"{name} is short: {wanted}")
    for lines in zip(wanted, found):
        expect(name, lines[1], lines[0])
    expect(f"the lines of {name}", len(found), len(wanted))


@scenario
def pages_are_those_without_the_drop_in(wordpress):
    with serve(wordpress) as served:
        visitors = {site: Browser(served, site) for site in ("plain", "one")}
        for _ in range(3):
            for name, path in VISITED.items():
                expect_same(name, path, visitors)
        for each in visitors.values():
            expect("a post that is not there", each.request("?p=999")[0], 404)


@scenario
def pages_need_fewer_queries(wordpress):
    with serve(wordpress) as served:
        counts = {}
        for site in ("plain", "one"):
            visitor, admin = Browser(served, site), admin_of(served, site)
            pages = [(visitor, *page) for page in VISITED.items() if "feed" not in page[0]]
            for browser, name, path in pages + [(admin, *page) for page in ADMINISTERED.items()]:
                counts.setdefault(name, {})[site] = [browser.queries(path) for _ in range(4)][-1]
        for name, count in counts.items():
            print(f"   {name}: {count['plain']} queries, with the drop-in {count['one']}")
        for name, count in counts.items():
            limit = 0 if name in VISITED else count["plain"] // 3
            check(count["one"] <= limit, f"{name} needs {count['one']} of {count['plain']} queries")


@scenario
def all_workers_see_a_change(wordpress):
    with serve(wordpress) as served:
        admin, visitor = admin_of(served, "one"), Browser(served, "one")
        for number in range(3):
            admin.rest("settings", title=f"Title {number}")
            found = by_workers(visitor, "get_option", "blogname")
            expect("the title", set(found), {f"Title {number}"})
            post = admin.rest("posts", title=f"Entry {number}", content="x", status="publish")["id"]
            check(f"Entry {number}" in visitor.page(), "a new post is not on the front page")
            admin.rest(f"posts/{post}", title=f"Changed {number}")
            found = set(by_workers(visitor, "get_the_title", post))
            expect("the title of a post", found, {f"Changed {number}"})
            check(f"Changed {number}" in visitor.page(), "a new title is not on the front page")
            admin.rest(f"posts/{post}", status="draft")
            check(f"Changed {number}" not in visitor.page(), "a draft is on the front page")
            expect("a draft", visitor.request(f"?p={post}")[0], 404)
        for status in ("active", "inactive"):
            admin.rest("plugins/akismet/akismet", status=status)
            wanted = ["akismet/akismet.php"] if status == "active" else []
            found = by_workers(visitor, "get_option", "active_plugins")
            check(all(each == wanted for each in found), f"plugins: {found}, not {wanted}")
        admin.rest("settings", title="Site one")
    expect("warnings", wordpress.warnings("one"), [])


@scenario
def options_that_change_at_the_same_time(wordpress):
    """Each thread changes options that WordPress keeps in one array. Afterwards all workers must
    see the last value of each option; for one that two threads change, the value in the database."""
    with serve(wordpress) as served:
        admin, visitor = admin_of(served, "one"), Browser(served, "one")
        names = {"title": "blogname", "description": "blogdescription",
                 "date_format": "date_format", "time_format": "time_format"}
        for number in range(6):
            values = {name: f"{name} {number}" for name in names}
            changes = [lambda name=name, value=value: admin.rest("settings", **{name: value})
                       for name, value in values.items()]
            contended = [lambda who=who: visitor.call(("update_option", "contended", who))
                         for who in ("a", "b")]
            new = [lambda: visitor.call(("get_option", f"new {number}")),
                   lambda: visitor.call(("add_option", f"new {number}", "is there"))]
            in_parallel(*changes, *contended, *new)
            for name, value in values.items():
                expect(name, visitor.call(("get_option", names[name]))[0], value)
            rows = wordpress.sql(
                "SELECT option_value FROM wp_options WHERE option_name = 'contended'", "one")
            expect("an option of two", visitor.call(("get_option", "contended"))[0],
                   rows.stdout.strip())
        admin.rest("settings", title="Site one", description="", date_format="F j, Y",
                   time_format="g:i a")
    expect("warnings", wordpress.warnings("one"), [])


@scenario
def the_functions_do_what_they_say(wordpress):
    with serve(wordpress) as served:
        browser = Browser(served, "one")
        expect("supports", browser.call(("wp_using_ext_object_cache",),
               ("wp_cache_supports", "flush_group"), ("wp_cache_supports", "flying")),
               [True, True, False])
        browser.call(("wp_cache_set", "a", [1, None], "g"), ("wp_cache_set", "n", None, "g"),
                     ("wp_cache_set", "a", 1, "g:h"), ("wp_cache_set", "a", 1, "counts"),
                     ("wp_cache_set", "brief", 1, "g", 1), ("wp_cache_set", "past", 1, "g", -5),
                     ("set_transient", "passing", "by", 1))
        found = browser.call(("wp_cache_get_multiple", ["a", "n", "b"], "g"),
                             ("wp_cache_get", "a", "counts"), ("wp_cache_get", "past", "g"))
        expect("a later request", found, [{"a": [1, None], "n": None, "b": False}, False, False])
        time.sleep(2.1)
        found = browser.call(("wp_cache_get", "brief", "g"), ("get_transient", "passing"))
        expect("after the time to live", found, [False, False])
        browser.call(("wp_cache_flush_group", "g"))
        found = browser.call(("wp_cache_get", "a", "g"), ("wp_cache_get", "a", "g:h"))
        expect("after flush_group", found, [False, 1])
        browser.call(("wp_cache_flush",))
        expect("after flush", browser.call(("wp_cache_get", "a", "g:h")), [False])
        browser.call(("wp_cache_set", "n", 0, "g", 60))
        in_parallel(*[lambda: browser.call(*[("wp_cache_incr", "n", 1, "g")] * 100)] * 8)
        expect("800 increments", browser.call(("wp_cache_get", "n", "g")), [800])
        in_parallel(*[lambda: browser.call(*[("wp_cache_decr", "n", 3, "g")] * 100)] * 8)
        expect("more decrements", browser.call(("wp_cache_get", "n", "g")), [0])
        for number in range(5):
            taken = in_parallel(*[lambda: browser.call(("wp_cache_add", "lock", 1, "g"))] * 8)
            expect("the requests that took the lock", taken.count([True]), 1)
            expect("its end", browser.call(("wp_cache_delete", "lock", "g")), [True])
        found = browser.call(("wp_cache_set", "a", 1, "g"), ("wp_cache_flush_runtime",),
                             ("wp_cache_get", "a", "g"), ("wp_cache_replace", "b", 1, "g"),
                             ("wp_cache_replace", "a", 2, "g"), ("wp_cache_get", "a", "g", True))
        expect("after flush_runtime", found, [True, True, 1, False, True, 2])
        # Later releases of WordPress do this after they have read several options.
        browser.call(("wp_cache_set_multiple", {"primed": "x"}, "options"))
        expect("a read option", browser.call(("wp_cache_get", "primed", "options")), ["x"])
        found = browser.call(("wp_cache_set", " ", 1), ("wp_cache_get", ""))
        expect("names that are not keys", found, [False, False])
    found = [each for each in wordpress.warnings("one") if "a non-blank string" not in each]
    expect("warnings", found, [])


@scenario
def what_was_read_before_a_change_is_not_stored_after_it(wordpress):
    with serve(wordpress) as served:
        browser = Browser(served, "one")
        for change in (("wp_cache_delete", "row", "g"),
                       ("update_option", "row", str(time.time()), False)):
            group = "g" if change[0] == "wp_cache_delete" else "options"
            browser.call(("wp_cache_delete", "row", group))
            slow = [("wp_cache_get", "row", group), ("usleep", 1_000_000),
                    ("wp_cache_add", "row", "what was read before", group)]
            stale, _ = in_parallel(
                lambda: browser.call(*slow), lambda: time.sleep(0.4) or browser.call(change))
            expect("a stale fill", [stale[0], stale[2]], [False, False])
            expect("the next request", browser.call(("wp_cache_get", "row", group)), [False])
            fresh = browser.call(("wp_cache_get", "row", group),
                                 ("wp_cache_add", "row", "fresh", group))
            expect("a fresh fill", fresh, [False, True])
            expect("the one after", browser.call(("wp_cache_get", "row", group)), ["fresh"])


@scenario
def an_option_that_changes_meanwhile_keeps_its_change(wordpress):
    """A slow request reads the list of all options, or of absent ones, and adds its own change. It
    stores the list after another request has changed or added an option. That change must not be
    lost."""
    with serve(wordpress) as served:
        browser = Browser(served, "one")
        browser.call(("update_option", "quick", "before"))
        every = browser.call(("wp_load_alloptions",))[0]
        slow = [("wp_load_alloptions",), ("usleep", 1_000_000),
                ("wp_cache_set", "alloptions", {**every, "slow": "after"}, "options")]
        quick = ("update_option", "quick", "after")
        in_parallel(lambda: browser.call(*slow), lambda: time.sleep(0.4) or browser.call(quick))
        expect("the other option", browser.call(("get_option", "quick")), ["after"])
        for autoload in (True, False):
            name = f"new {autoload} {time.time()}"
            browser.call(("get_option", "absent"))
            absent = browser.call(("wp_cache_get", "notoptions", "options"))[0]
            check(absent.get("absent"), f"no list of absent options: {absent}")
            slow = [("wp_cache_get", "notoptions", "options"), ("usleep", 1_000_000),
                    ("wp_cache_set", "notoptions", {**absent, name: True}, "options")]
            quick = ("add_option", name, "is there", "", autoload)
            in_parallel(lambda: browser.call(*slow), lambda: time.sleep(0.4) or browser.call(quick))
            expect("the new option", browser.call(("get_option", name)), ["is there"])


@scenario
def sites_do_not_meet(wordpress):
    with serve(wordpress) as served:
        sites = [Browser(served, site) for site in ("one", "two")]
        for number, browser in enumerate(sites):
            browser.call(("wp_cache_set", "k", number, "g"), ("wp_cache_set", "k", number, "users"))
        for number, browser in enumerate(sites):
            found = browser.call(("wp_cache_get", "k", "g"), ("wp_cache_get", "k", "users"))
            expect("a value of the site", found, [number, number])
        sites[0].call(("wp_cache_flush",))
        expect("its own", sites[0].call(("wp_cache_get", "k", "g")), [False])
        expect("that of the other", sites[1].call(("wp_cache_get", "k", "g")), [1])
        # One database, so that only the salts distinguish the sites.
        sites[0].call(("wp_cache_set", "k", "without", "g"))
        for salt in ("s", "salt"):
            wordpress.set("one", WP_CACHE_KEY_SALT=salt)
            expect("another salt", sites[0].call(("wp_cache_get", "k", "g")), [False])
            sites[0].call(("wp_cache_set", "k", salt, "g"))
        wordpress.set("one", WP_CACHE_KEY_SALT="s")
        sites[0].call(("wp_cache_flush",))
        for salt, wanted in (("s", False), ("salt", "salt"), (None, "without")):
            wordpress.set("one", **({"WP_CACHE_KEY_SALT": salt} if salt else {}))
            expect(f"salt {salt}", sites[0].call(("wp_cache_get", "k", "g")), [wanted])


@scenario
def a_network_keeps_its_blogs_apart(wordpress):
    constants = {"MULTISITE": True, "SUBDOMAIN_INSTALL": False, "DOMAIN_CURRENT_SITE": "localhost",
                 "PATH_CURRENT_SITE": "/network/", "SITE_ID_CURRENT_SITE": 1,
                 "BLOG_ID_CURRENT_SITE": 1}
    with serve(wordpress) as served:
        wordpress.make("network")
        admin = Browser(served, "network")
        admin.install("Site network")
        admin.log_in()
        admin.page("network.php")
        wordpress.set("network", **constants)
        # The cookies of a network have other names.
        admin = admin_of(served, "network")
        expect("the second blog", admin.page("network.php", blog="second"), "2")
        first, second = Browser(served, "network"), Browser(served, "network/second")
        for _ in range(3):
            check("Site network" in first.page(), "the first blog has no title")
            check("The blog second" in second.page(), "the second blog has no title")
        first.call(("wp_cache_set", "k", "first", "posts"), ("wp_cache_set", "k", "all", "users"))
        expect("the second blog", second.call(("wp_cache_get", "k", "posts"),
               ("wp_cache_get", "k", "users")), [False, "all"])
        second.call(("wp_cache_set", "k", "second", "posts"))
        found = first.call(("wp_cache_get", "k", "posts"), ("switch_to_blog", 2),
                           ("wp_cache_get", "k", "posts"), ("get_option", "blogname"),
                           ("restore_current_blog",), ("get_option", "blogname"))
        expect("a switch", [found[0], *found[2:4], found[5]],
               ["first", "second", "The blog second", "Site network"])
        first.call(("update_network_option", None, "site_name", "Larder's"))
        expect("an option of the network", second.call(("get_network_option", None, "site_name")),
               ["Larder's"])
        check("Site network" in admin.page("wp-admin/network/sites.php"), "no list of the blogs")
        check("Larder" in admin.page("wp-admin/plugins.php", plugin_status="dropins")
              or "Larder" in admin.page("wp-admin/network/plugins.php", plugin_status="dropins"),
              "the drop-in is not in the list of plugins")
    expect("warnings", wordpress.warnings("network"), [])
    compare(wordpress, "network")


@scenario
def a_site_without_larder_works(wordpress):
    for extension, ini, words in (("calendar", {}, "larder.so is not loaded"),
                                  (MODULE, {"larder__memory": 0}, "larder.so has no memory")):
        with wordpress.serve(extension, **ini) as served:
            visitor, admin = Browser(served, "two"), admin_of(served, "two")
            for path in VISITED.values():
                check(words not in visitor.page(path), "visitors see the notice")
            text = admin.page("wp-admin/")
            expect("notices", text.count(words), 1)
            admin.rest("settings", title="Site two, alone")
            check("Site two, alone" in visitor.page(), "a new title is not on the front page")
            visitor.call(("set_transient", "kept", "in the database", 100))
            expect("a transient", visitor.call(("get_transient", "kept"),
                   ("wp_using_ext_object_cache",)), ["in the database", None])
            admin.rest("settings", title="Site two")
    expect("warnings", wordpress.warnings("two"), [])


@scenario
def a_file_outlives_the_workers_and_serves_the_command_line(wordpress):
    folder = wordpress.folder / "cache"
    folder.mkdir()
    folder.chmod(0o1777)
    ini = {"larder__path": folder / "region", "larder__owner": "www-data"}
    for number, classes in enumerate(("", "stdClass", "*")):
        ini["larder__unserialize_classes"] = classes
        with serve(wordpress, **ini) as served:
            visitor = Browser(served, "one")
            warm = [visitor.queries() for _ in range(3)][-1]
            if classes:
                expect(f"queries with the classes {classes}", warm, 0)
            served.reload()
            expect("queries after a reload", visitor.queries(), warm)
            code = f"require 'wp-load.php'; update_option('blogname', 'Title {number}');"
            wordpress.php("one", MODULE, "-r", code, **ini)
            check(f"Title {number}" in visitor.page(), "what the command line changed is not there")
        code = "require 'wp-load.php';"
        told = wordpress.php("one", MODULE, "-r", code, **ini)
        expect("the output of the command line with the file", told, "")
        told = wordpress.php("one", MODULE, "-r", code)
        check("does not share memory" in told, f"the command line without a file prints {told!r}")
        print(f"   classes {classes or 'none'}: the front page needs {warm} queries")
    code = "require 'wp-load.php'; update_option('blogname', 'Site one');"
    wordpress.php("one", MODULE, "-r", code, **ini)
    expect("warnings", wordpress.warnings("one"), [])


@scenario
def a_cache_that_is_too_small_harms_no_page(wordpress):
    with serve(wordpress, larder__memory="2M") as served:
        visitors = {site: Browser(served, site) for site in ("plain", "one")}
        for number in range(5):
            values = {f"k{each} {number}": "v" * 1000 for each in range(8)}
            fill = [("wp_cache_set_multiple", values, f"group {each}") for each in range(50)]
            visitors["one"].call(*fill)
            for name, path in VISITED.items():
                expect_same(name, path, visitors)


def compare(wordpress, site):
    for seed in range(4):
        seen = wordpress.php(site, MODULE, HERE / "compare.php", wordpress.code / "wp-load.php",
                             str(seed), "5000", larder__enable_cli=1)
        check(seen.startswith("{"), f"the comparison ends with {seen}")
    wordpress.warnings(site)  # about invalid keys
    print(f"   the last of 4 times 5000 calls: {seen.strip()}")


@scenario
def results_are_those_of_wordpress(wordpress):
    compare(wordpress, "one")


def install(wordpress):
    with serve(wordpress) as served:
        for site in ("plain", "one", "two"):
            wordpress.make(site, drop_in=site != "plain")
            admin = Browser(served, site)
            admin.install(f"Site {site}")
            admin.log_in()
            for number in range(8):
                admin.rest("posts", title=f"Post {number}", content="Words. " * 50,
                           status="publish", date=f"2024-01-0{number + 1}T10:00:00")


def main():
    global MODULE
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    MODULE = os.path.abspath(sys.argv[1])
    if os.getuid() != 0:
        subprocess.run([SKIP, "dropins", "needs root: its servers change their user"], check=True)
        return
    failed = 0
    names = sys.argv[2:] or list(SCENARIOS)
    wordpress = WordPress()
    try:
        install(wordpress)
        for name in names:
            begun = time.monotonic()
            try:
                SCENARIOS[name](wordpress)
                print(f"ok {name}, {time.monotonic() - begun:.1f} s", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"FAILED {name}: {error}", flush=True)
    finally:
        wordpress.close()
    print(f"dropins: {len(names) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
