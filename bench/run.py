"""Run the benchmarks of this commit, suite by suite, and fill the page of speed with the results.

    python -m bench.run [--quick] [--bench REGEX ...] [other options of asv run]

Results are kept after every suite, so that Ctrl-C, SIGTERM or a suite that fails cost only what
was being measured: the page is filled with the rest. --quick is one sample each of smaller tables,
which goes nowhere; --bench takes regular expressions of names, and the machine's limits
are measured besides.
"""

import argparse
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import report

HERE = Path(__file__).parent


class Stopped(BaseException):
    """A signal asked for the end."""


def stop(number, _):
    raise Stopped(number)


def asv(*arguments):
    """Run asv in a session of its own, so that it is interrupted once, and give its status."""
    with subprocess.Popen(
        [sys.executable, "-m", "asv", *arguments], cwd=HERE, start_new_session=True
    ) as process:
        try:
            return process.wait()
        except Stopped:
            process.send_signal(signal.SIGINT)  # it ends the benchmark, which has another session
            process.wait()
            raise


def suites(benchmarks, wanted):
    """Group the names of benchmarks that match by module and class."""
    wanted = [*wanted, r"limits\.Limits"]
    names = [name for name in sorted(benchmarks) if any(re.search(w, name) for w in wanted)]
    grouped = itertools.groupby(names, lambda name: name.rpartition(".")[0])
    return [(suite, list(members)) for suite, members in grouped]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--bench", nargs="+", default=[""], metavar="REGEX")
    options, others = parser.parse_known_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)

    config = HERE / ("asv.quick.conf.json" if options.quick else "asv.conf.json")
    if options.quick:
        os.environ["PRIVGRAM_BENCH_QUICK"] = "1"  # see common.py
        # Importing everything anew takes longer than most benchmarks do.
        others += ["--quick", "--launch-method", "forkserver"]
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=HERE, check=True, capture_output=True, text=True
    ).stdout.strip()
    run = ["--config", str(config), "run", "--environment", f"existing:{sys.executable}",
           "--set-commit-hash", commit, *others]  # fmt: skip

    status, start = 0, time.monotonic()
    results = HERE / json.loads(config.read_text())["results_dir"]
    asv("machine", "--yes")
    try:
        if asv(*run, "--bench", "just-discover"):
            sys.exit("asv finds no benchmarks")
        todo = suites(report.benchmarks(results), options.bench)
        for number, (suite, names) in enumerate(todo, 1):
            minutes = (time.monotonic() - start) / 60
            print(f"=== suite {number} of {len(todo)}: {suite}, at {minutes:.1f} min", flush=True)
            exactly = "|".join(map(re.escape, names))
            status = asv(*run, "--bench", rf"^({exactly})(\(|$)") or status
    except Stopped as stopped:
        status = 128 + stopped.args[0]
        print("=== stopped; the page has what was measured", flush=True)
    if not options.quick:
        report.write(results, commit)
    sys.exit(status)


if __name__ == "__main__":
    main()
