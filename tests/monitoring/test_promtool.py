# SPDX-License-Identifier: Apache-2.0
"""promtool checks the shipped files and runs the tests of the alerts."""

from __future__ import annotations

import re
import subprocess

from support.monitoring.panel_queries import DEPLOY
from support.monitoring.prometheus_server import program

PROMETHEUS = DEPLOY / "prometheus"


def promtool(*arguments: str) -> str:
    done = subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_configuration_and_its_rules_are_valid() -> None:
    promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))
    promtool("check", "rules", *map(str, (PROMETHEUS / "rules").glob("*.yml")))


def test_each_alert_fires_when_its_condition_is_true_and_not_before() -> None:
    """By promtool's clock: also the durations that tests with a flow shorten."""
    promtool("test", "rules", str(PROMETHEUS / "tests" / "alerts.yml"))


def test_each_alert_has_a_test() -> None:
    alerts = re.findall(r"alert: (\w+)", (PROMETHEUS / "rules" / "alerts.yml").read_text("utf-8"))
    tested = re.findall(
        r"alertname: (\w+)", (PROMETHEUS / "tests" / "alerts.yml").read_text("utf-8")
    )
    assert set(alerts) == set(tested)
