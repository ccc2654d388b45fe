# SPDX-License-Identifier: Apache-2.0
"""`make bench-profile`: CPU profile of the copy loop.

The copy loop without Spark copies a data set under a sampler. Prints the functions and lines with
the most CPU; time in libraries counts for the line of ours that called them.
"""

from __future__ import annotations

import json
import linecache
import random
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.catch_up import catch_up
from benchmarks.contenders import CEILING
from benchmarks.data_sets import DATA_SETS, OVER_TLS
from benchmarks.questions import Stage, brokers
from benchmarks.secured import Tls

_MOST = 15


def main() -> None:
    """Profile the data set of the command line; default 1 KB lz4."""
    name = sys.argv[1] if len(sys.argv) > 1 else "1 KB lz4"
    [data] = [one for one in (*DATA_SETS, OVER_TLS) if one.name == name]
    with tempfile.TemporaryDirectory(prefix="sparkmirror-profile-") as folder:
        directory = Path(folder)
        stage = Stage(directory, 1, 1.0, random.Random(0), print, is_quick=True)
        tls = Tls(directory / "tls") if data is OVER_TLS else None
        with brokers(stage, tls=tls) as clusters:
            data.write(clusters[0])
            way = tls.way(*clusters) if tls else None
            catch_up(CEILING, data, clusters, directory, way)  # the brokers compile their code
            file = directory / "profile.json"
            sampled = replace(CEILING, environment={"SPARKMIRROR_SAMPLES": str(file)})
            found = catch_up(sampled, data, clusters, directory, way)
        show(json.loads(file.read_text(encoding="utf-8")), found.records)


def show(samples: dict[str, Any], records: int) -> None:
    user, system, lines = samples["user"], samples["system"], samples["lines"]
    total = sum(seconds for *_where, seconds in lines)
    million = (user + system) / records * 1e6
    print(f"{million:.2f} CPU-s per million records, {system / (user + system):.0%} in the kernel")
    functions: Counter[str] = Counter()
    for file, function, _line, seconds in lines:
        functions[f"{Path(file).stem}.{function}"] += seconds
    print("\nshare  function")
    for function, seconds in functions.most_common(_MOST):
        print(f"{seconds / total:6.1%}  {function}")
    print("\nshare  line")
    for file, _function, line, seconds in [one for one in lines if one[2]][:_MOST]:
        text = linecache.getline(file, line).strip()
        print(f"{seconds / total:6.1%}  {Path(file).stem}:{line}  {text}")


if __name__ == "__main__":
    main()
