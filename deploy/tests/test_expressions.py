"""Prometheus scrapes a larderd under load: every expression of our dashboard, every selector of our
alerts and every query of the community's dashboards returns data."""

import json
import pathlib
import re
import subprocess
import unittest

from servers import ROOT, Larderd, Prometheus, cluster, disk, origins, stop, tls, wait_until

FOLDER = pathlib.Path(__file__).parent
DASHBOARDS = sorted((ROOT / "deploy/grafana").glob("*.json"))
# The values that Grafana substitutes for its variables if "All" is selected.
VARIABLES = {"$job": ".*", "$instance": ".*", "$__rate_interval": "20s"}
DATA_SECS_MAX = 40


def dashboard_expressions(path):
    """Returns the expressions of a dashboard, with the titles of their panels."""
    panels = json.loads(path.read_text())["panels"]
    nested = [inner for panel in panels for inner in panel.get("panels", [])]
    found = []
    for panel in panels + nested:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            found.append((f"{path.name}, {panel['title']}", expression))
    return found


def community_expressions():
    lines = (FOLDER / "community.txt").read_text().splitlines()
    return [("community.txt", line) for line in lines if line and not line.startswith("#")]


def selectors(expression):
    """Returns the selectors of an alert. The complete alert returns no data on a healthy server."""
    return re.findall(r"[a-z_]+\{[^}]*\}", expression)


class Expressions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The memory is small, so that the load causes evictions.
        cls.larderd = Larderd("-m", "16", "--followers", "2", *cluster("servers"))
        cls.addClassCleanup(cls.larderd.close)
        cls.prometheus = Prometheus()
        cls.addClassCleanup(cls.prometheus.close)
        # Some families exist only with TLS, with a disk tier or in a near cache.
        cls.encrypted = Larderd(*tls())
        cls.addClassCleanup(cls.encrypted.close)
        cls.stored = Larderd(*disk("expressions", "store"))
        cls.addClassCleanup(cls.stored.close)
        cls.near = Larderd(*origins(cls.larderd))
        cls.addClassCleanup(cls.near.close)
        servers = [cls.larderd, cls.encrypted, cls.stored, cls.near]
        cls.prometheus.watch([server.address for server in servers])
        cls.prometheus.reload()
        load = ["--mode", "mix", "--fill", "--keys", "40000", "--value-bytes", "1000"]
        cls.loads = []
        for server, rate in [(cls.larderd, "3000"), (cls.near, "500")]:
            cls.loads.append(server.bench(600, *load, "--connections", "8", "--rate", rate))
            cls.addClassCleanup(stop, cls.loads[-1])

    def returns_data(self, name, expression):
        with self.subTest(name, expression=expression):
            for load in self.loads:
                self.assertIsNone(load.poll(), "the load has ended")
            wait_until(
                f"{name}: {expression} returns a number",
                lambda: self.prometheus.numbers(expression),
                DATA_SECS_MAX,
            )

    def test_dashboards(self):
        self.assertTrue(DASHBOARDS)
        for path in DASHBOARDS:
            for name, expression in dashboard_expressions(path):
                self.returns_data(name, expression)

    def test_dashboards_leave_no_variable_open(self):
        for path in DASHBOARDS:
            for name, expression in dashboard_expressions(path):
                self.assertNotIn("$", expression, name)

    def test_community(self):
        for name, expression in community_expressions():
            self.returns_data(name, expression)

    def test_alerts_select_what_exists(self):
        for name, expression in self.prometheus.expressions().items():
            found = selectors(expression)
            self.assertTrue(found, f"{name} selects nothing: {expression}")
            for selector in found:
                self.returns_data(name, selector)


class Files(unittest.TestCase):
    def promtool(self, *arguments):
        run = subprocess.run(
            ["promtool", *arguments],
            cwd=ROOT / "deploy/prometheus",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_promtool_accepts_the_rules_and_the_configuration(self):
        self.promtool("check", "rules", "alerts.yaml")
        self.promtool("check", "config", "prometheus.yml")

    def test_alerts_fire_beyond_their_thresholds_only(self):
        self.promtool("test", "rules", str(FOLDER.resolve() / "near_alerts.yaml"))


if __name__ == "__main__":
    unittest.main()
