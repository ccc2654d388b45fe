# SPDX-License-Identifier: Apache-2.0
"""Spark options: what the user set wins, except where a flow would break."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from sparkmirror.spark.context import archive_name, choose_master, spark_jars, spark_options


@pytest.mark.parametrize(
    ("asked", "splits", "master"),
    [
        (None, 3, "local[20,4]"),
        ("local", 3, "local[1,4]"),
        ("local[2]", 3, "local[2,4]"),
        ("local[*]", 3, "local[*,4]"),
        ("local[2,1]", 3, "local[2,1]"),
        ("local-cluster[2,2,1024]", 3, "local-cluster[2,2,1024]"),
        ("spark://host:7077", 3, "spark://host:7077"),
    ],
)
def test_a_local_master_retries_failed_tasks(asked: str | None, splits: int, master: str) -> None:
    """Spark's local mode does not retry by default."""
    assert choose_master(asked, splits) == master


def test_nothing_listens_beyond_loopback_in_local_mode() -> None:
    """Host and bind address; the user may change them."""
    options = spark_options("local[2,4]", {}, archive=None)
    assert options["spark.driver.host"] == options["spark.driver.bindAddress"] == "127.0.0.1"
    opened = spark_options("local[2,4]", {"spark.driver.bindAddress": "0.0.0.0"}, archive=None)  # noqa: S104 - the user's wish
    assert opened["spark.driver.bindAddress"] == "0.0.0.0"  # noqa: S104 - as above


def test_a_cluster_leaves_the_addresses_to_the_user() -> None:
    """Executors on other machines could not reach loopback."""
    assert "spark.driver.host" not in spark_options("spark://host:7077", {}, archive=None)


def test_a_second_copy_of_a_copy_task_is_never_started() -> None:
    """Speculation would write records twice, so the user cannot enable it."""
    options = spark_options("local[2,4]", {"spark.speculation": "true"}, archive=None)
    assert options["spark.speculation"] == "false"


def test_any_other_key_of_the_user_wins() -> None:
    """The file configures the session."""
    options = spark_options("local[2,4]", {"spark.driver.memory": "2g"}, archive=None)
    assert options["spark.driver.memory"] == "2g"


def test_the_archive_is_used_if_there_is_one() -> None:
    """It is written only on request."""
    path = Path("x.jsa")
    used = spark_options("local[2,4]", {}, archive=path)["spark.driver.extraJavaOptions"]
    plain = spark_options("local[2,4]", {}, archive=None)["spark.driver.extraJavaOptions"]
    assert "-XX:SharedArchiveFile=x.jsa" in used
    assert "Archive" not in plain


@pytest.mark.parametrize("master", ["local-cluster[2,2,1024]", "spark://host:7077"])
def test_workers_begin_with_our_module(master: str) -> None:
    """On a cluster it comes from the package that Spark ships, by PYTHONPATH."""
    options = spark_options(master, {}, archive=None)
    module = importlib.util.find_spec(options["spark.python.daemon.module"])
    assert module is not None
    shipped = "spark.executorEnv.PYTHONPATH" in options
    assert shipped == (master == "spark://host:7077")


def test_options_of_executors_yield_to_the_user() -> None:
    """The user's Python path is kept behind the shipped package."""
    user = {
        "spark.executor.memory": "2g",
        "spark.executor.extraJavaOptions": "-Xss8m",
        "spark.executorEnv.PYTHONPATH": "/opt/policies",
    }
    options = spark_options("spark://host:7077", user, archive=None)
    assert options["spark.executor.memory"] == "2g"
    assert options["spark.executor.extraJavaOptions"] == "-Xss8m"
    assert options["spark.executorEnv.PYTHONPATH"] == "sparkmirror.zip:/opt/policies"


def test_a_daemon_of_the_user_is_not_replaced() -> None:
    user = {"spark.python.daemon.module": "my.daemon"}
    options = spark_options("spark://host:7077", user, archive=None)
    assert options["spark.python.daemon.module"] == "my.daemon"
    assert "spark.executorEnv.PYTHONPATH" not in options


def test_defaults_of_the_installation_win_over_ours_and_yield_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    text = "# of the administrator\nspark.executor.memory  3g\nspark.executor.cores 2\nother x\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    options = spark_options("spark://host:7077", {"spark.executor.cores": "1"}, archive=None)
    assert options["spark.executor.memory"] == "3g"
    assert options["spark.executor.cores"] == "1"
    assert "other" not in options


def test_an_archive_fits_one_java_only(tmp_path: Path) -> None:
    """Its name identifies the Java build, in portable characters."""
    one, other = (archive_name(java, tmp_path) for java in ("17.0.15+6 (Debian)", "21.0.1"))
    assert one != other
    assert one.replace("-", "").replace(".", "").replace("_", "").isalnum()


def test_an_archive_fits_one_installation_of_spark_only(tmp_path: Path) -> None:
    """Java rejects an archive of other jars, and of the same jars in another path."""
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()
        (folder / "spark.jar").write_bytes(b"jar")
        os.utime(folder / "spark.jar", (1, 1))
    here, there = (archive_name("17", folder) for folder in folders)
    assert here != there
    assert here == archive_name("17", folders[0])
    os.utime(folders[0] / "spark.jar", (2, 2))
    assert here != archive_name("17", folders[0])


def test_the_jars_are_found_without_importing_spark() -> None:
    assert list(spark_jars().glob("spark-core_*.jar"))


def test_the_users_path_of_executors_stays_with_a_daemon_of_their_own() -> None:
    own = {"spark.python.daemon.module": "own", "spark.executorEnv.PYTHONPATH": "lib"}
    options = spark_options("spark://host:7077", own, archive=None)
    assert options["spark.executorEnv.PYTHONPATH"] == "lib"
    del own["spark.python.daemon.module"]
    options = spark_options("spark://host:7077", own, archive=None)
    assert options["spark.executorEnv.PYTHONPATH"] == "sparkmirror.zip:lib"
