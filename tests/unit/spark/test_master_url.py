# SPDX-License-Identifier: Apache-2.0
"""A master that cannot work is named before Spark tries it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.spark.master_url import master_problem

IMAGE = {"spark.kubernetes.container.image": "spark:4.3"}


@pytest.mark.parametrize(
    ("master", "options"),
    [
        ("local", {}),
        ("local[4]", {"spark.dynamicAllocation.enabled": "true"}),  # Spark ignores it
        ("local[*,4]", {}),
        ("local-cluster[2,2,1024]", {}),
        ("spark://h1:7077,h2:7077", {}),
        ("spark://[::1]:7077", {}),
        ("k8s://https://host:6443", IMAGE),
        ("k8s://https://host:6443", {"spark.kubernetes.executor.container.image": "spark:4.3"}),
    ],
)
def test_masters_that_may_work_are_accepted(master: str, options: dict[str, str]) -> None:
    assert master_problem(master, options, {}) == ""


@pytest.mark.parametrize(
    ("master", "options", "environment", "expected"),
    [
        ("bogus://x", {}, {}, "Invalid spark.master 'bogus://x'"),
        ("", {}, {}, "Invalid spark.master ''"),
        ("local[x]", {}, {}, "Invalid spark.master 'local[x]'"),
        ("mesos://h:5050", {}, {}, "Invalid spark.master"),
        ("spark://h", {}, {}, "write host:port"),
        ("spark://h:99999", {}, {}, "write host:port"),
        ("spark://h1:7077,h2", {}, {}, "Invalid address 'h2'"),
        ("sc://h:15002", {}, {}, "spark.master=sc://h:15002 is a Spark Connect server"),
        ("local", {"spark.remote": "sc://h"}, {}, "remove spark.remote"),
        ("local", {}, {"SPARK_REMOTE": "sc://h"}, "remove SPARK_REMOTE"),
        ("local", {"spark.submit.deployMode": "cluster"}, {}, "set it to client"),
        ("yarn", {}, {}, "HADOOP_CONF_DIR or YARN_CONF_DIR"),
        ("yarn", {}, {"HADOOP_CONF_DIR": "/no/such"}, "/no/such, which is not a directory"),
        ("spark://h:7077", {"spark.dynamicAllocation.enabled": "true"}, {}, "Set it to false"),
        ("k8s://h o", IMAGE, {}, "Invalid spark.master 'k8s://h o'"),
        ("k8s://https://h:6443", {}, {}, "needs spark.kubernetes.container.image"),
    ],
)
def test_a_wrong_master_gets_a_sentence_with_the_remedy(
    master: str, options: dict[str, str], environment: dict[str, str], expected: str
) -> None:
    problem = master_problem(master, options, environment)
    assert expected in problem
    assert problem.endswith(".")
    assert "\n" not in problem


def test_yarn_is_accepted_with_its_configuration(tmp_path: Path) -> None:
    assert master_problem("yarn", {}, {"YARN_CONF_DIR": str(tmp_path)}) == ""
