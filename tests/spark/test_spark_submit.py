# SPDX-License-Identifier: Apache-2.0
"""A program that spark-submit started uses its JVM and the options of its command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

PROGRAM = """
import json, sys
from pathlib import Path
from sparkmirror.spark.context import spark_options, start_spark
from sparkmirror.spark.submitted_conf import submitted_master

file = {"spark.executor.cores": "3", "spark.ui.enabled": "true", "spark.files.overwrite": "true"}
options = spark_options(submitted_master(), file, archive=None)
running = start_spark(options, Path(sys.argv[1]) / "spark.log")
answer = {
    "squares": running.context.parallelize(range(3), 2).map(lambda n: n * n).collect(),
    "exit code": running.exit_code(),
    "options": dict(running.context.getConf().getAll()),
}
running.stop()
(Path(sys.argv[1]) / "answer.json").write_text(json.dumps(answer))
"""


def test_options_of_spark_submit_win_over_the_file(tmp_path: Path) -> None:
    """There is one JVM, and no process handle of it."""
    home = Path(str(distribution("pyspark").locate_file("pyspark")))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    conf = ("spark.executor.cores=2", "spark.ui.enabled=false", "spark.driver.host=127.0.0.1")
    command = [home / "bin" / "spark-submit", "--master", "local[2,4]"]
    command += [part for one in conf for part in ("--conf", one)]
    environment = {**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_HOME": str(home)}
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    environment["PYSPARK_PYTHON"] = sys.executable
    done = subprocess.run(
        [*command, program, tmp_path], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["squares"] == [0, 1, 4]
    assert answer["exit code"] is None
    options = answer["options"]
    assert options["spark.master"] == "local[2,4]"
    assert options["spark.executor.cores"] == "2"
    assert options["spark.ui.enabled"] == "false"
    assert options["spark.files.overwrite"] == "true"
    assert options["spark.speculation"] == "false"


def test_the_command_line_runs_under_spark_submit(tmp_path: Path) -> None:
    """The program that ships with the package has a file ending that spark-submit takes."""
    home = Path(str(distribution("pyspark").locate_file("pyspark")))
    sparkmirror = [sys.executable, "-m", "sparkmirror.cli.main"]
    script = subprocess.run([*sparkmirror, "submit-script"], capture_output=True, check=True)
    environment = {**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    done = subprocess.run(
        [home / "bin" / "spark-submit", script.stdout.decode().strip(), "--version"],
        env=environment,
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().startswith("sparkmirror ")
