"""Faults of a line in what privacy and answers rest on, each with the tests that must find it.

``python tests/mutants/mutants.py`` plants one after the other in a copy of the package and runs its
tests there; one that no test finds is a survivor, and a survivor is a test that is missing. Parts
of names choose some. ``make mutants`` runs all. ``faults.diff`` has them: the file and its tests,
lines that occur once in it together, and what stands there instead.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path("src/privgram")

#: Seconds after which tests hang, which finds a fault too.
LIMIT = 600


LOCALITY = "tests/security/test_row_locality.py"

#: Tests by what faults.diff calls them.
TESTS = {
    "CLIENT": "tests/secret/test_any_client.py::test_any_client",
    "GATE": "tests/secret/test_gate.py",
    "HOSTILE": "tests/secret/test_hostile_clients.py",
    "ADDITIVE": "tests/secret/test_additive.py",
    "SWEEP": "tests/secret/test_sweep.py",
    "CHOICE": "tests/mechanisms/test_exponential.py",
    "GENERATORS": "tests/secret/test_generators.py",
    "KEPT": "tests/secret/test_kept.py",
    "SCORES": "tests/core/test_scores.py",
    "LEDGER": "tests/ledger/test_ledger.py",
    "GAUSSIAN": "tests/ledger/test_gaussian.py",
    "UNITS": "tests/ledger/test_units.py",
    "NORM_BOUND": "tests/disclosure/test_norm_bound.py",
    "SETTLE": "tests/glm/test_settle.py",
    "LINK": "tests/glm/test_link.py",
    "LEVELS": "tests/glm/test_level_rules.py",
    "STATE": "tests/glm/test_state.py",
    "LISTS": f"{LOCALITY}::test_a_row_is_read_by_itself[lists-every 6th]",
    "ARROW": f"{LOCALITY}::test_a_row_is_read_by_itself[Arrow-every 6th]",
    "NO_ROWS": f"{LOCALITY}::test_a_table_of_no_rows_is_read_as_one_of_a_row",
}


#: Compiled modules by their sources.
MODULES = {"_core/scores.c": "scores", "_core/kept.c": "scores"}


class Mutant(NamedTuple):
    """A fault: a text that occurs once in a file of the package, and what stands there instead."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.file}: {old} -> {new or 'nothing'}"


def read_faults(path: Path) -> list[Mutant]:
    """The faults of a list of them."""
    mutants = []
    for block in path.read_text().strip().split("\n\n"):
        head, *lines = block.split("\n")
        file, _, tests = head.partition(": ")
        old, new = ("".join(line[1:] + "\n" for line in lines if line[0] == sign) for sign in "-+")
        named = tuple(TESTS.get(test, test) for test in tests.split())
        mutants.append(Mutant(file, old, new, named))
    return mutants


MUTANTS = read_faults(Path(__file__).with_name("faults.diff"))


#: A test of a minute in a file of quick ones.
SLOWEST = "tests/ledger/test_ledger.py::test_kill_minus_nine_at_any_instant"

# --- Planting them ----------------------------------------------------------------------------

#: Has pytest import the copy, also where an editable install has a finder of its own.
PLUGIN = """
import sys
from pathlib import Path

sys.meta_path[:] = [each for each in sys.meta_path if "Mesonpy" not in type(each).__name__]
import privgram

assert Path(privgram.__file__).is_relative_to(Path(__file__).parent), privgram.__file__
"""


def libraries() -> Path:
    """The folder of the compiled modules that are in use."""
    found = importlib.util.find_spec("privgram._core.scores")
    assert found is not None
    return Path(str(found.origin)).parent


def copied(to: Path) -> Path:
    """A copy of the package that can be imported."""
    package = to / "privgram"
    shutil.copytree(
        ROOT / PACKAGE, package, ignore=lambda _, names: [n for n in names if n == "__pycache__"]
    )
    for library in libraries().glob("*.so"):
        shutil.copy2(library, package / "_core")
    (to / "planted.py").write_text(PLUGIN)
    return package


class Compiler:
    """Compiles a module from changed C, in a copy of the sources that is set up once."""

    def __init__(self, folder: Path) -> None:
        self.source, self.build = folder / "source", folder / "build"
        self._lock = threading.Lock()

    def _set_up(self) -> None:
        if self.build.exists():
            return
        listed = subprocess.run(
            ["git", "ls-files", "-z", "src", "packaging", "meson.*", "pyproject.toml"],
            cwd=ROOT, capture_output=True, check=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self.source / name)
        version = subprocess.run(
            [sys.executable, "packaging/version.py"], cwd=ROOT, capture_output=True, text=True
        )
        (self.source / "packaging/version.py").write_text(
            f"#!{sys.executable}\nprint({version.stdout.strip()!r})\n"
        )
        self._run("meson", "setup", str(self.build), str(self.source), "--buildtype=release")

    @staticmethod
    def _run(*command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def compile(self, mutant: Mutant, module: str) -> Path:
        """Compile a module with a fault in it."""
        with self._lock:
            self._set_up()
            file = self.source / PACKAGE / mutant.file
            text = file.read_text()
            library = next(libraries().glob(f"{module}.*.so")).name
            try:
                file.write_text(text.replace(mutant.old, mutant.new))
                self._run("ninja", "-C", str(self.build), f"{PACKAGE}/_core/{library}")
                planted = self.build / PACKAGE / "_core" / library
                kept = planted.with_name(f"{time.monotonic_ns()}-{library}")
                shutil.copy2(planted, kept)
            finally:
                file.write_text(text)
        return kept


def run_tests(folder: Path, tests: tuple[str, ...], limit: float | None = LIMIT) -> int:
    """Run tests against the copy in a folder; pytest's code."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "planted",
        "-p",
        "no:cacheprovider",
    ]
    command += ["-m", "not long and not nightly", "--deselect", SLOWEST, *tests]
    env = os.environ | {
        "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"
    }  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return 1
    if done.returncode not in (0, 1) or (done.returncode and limit is None):
        print(done.stdout[-3000:], done.stderr[-2000:], file=sys.stderr)
    return done.returncode


def killed(mutant: Mutant, folder: Path, compiler: Compiler) -> bool:
    """Whether tests find a fault."""
    package = folder / "privgram"
    if mutant.file.endswith(".c"):
        module = MODULES[mutant.file]
        library = compiler.compile(mutant, module)
        place = next(package.glob(f"_core/{module}.*.so"))
        before = place.read_bytes()
        shutil.copy2(library, place)
    else:
        place = package / mutant.file
        before = place.read_bytes()
        place.write_text(before.decode().replace(mutant.old, mutant.new))
    try:
        code = run_tests(folder, mutant.tests)
    finally:
        place.write_bytes(before)
    if code not in (0, 1) and code >= 0:  # below 0 the fault itself ended the process
        raise RuntimeError(f"the tests of {mutant.name!r} did not run: pytest ended with {code}")
    return code != 0


def main(arguments: list[str] | None = None) -> int:
    """Plant faults, and say which ones no test found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of names; by default all")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    asked = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if not asked.names or any(n in m.name for n in asked.names)]
    survivors, ran = [], 0
    with tempfile.TemporaryDirectory(prefix="privgram-mutants-") as name:
        root = Path(name)
        folders: list[Path] = []
        for i in range(asked.jobs):
            (root / str(i)).mkdir()
            copied(root / str(i))
            folders.append(root / str(i))
        tests = tuple(sorted({test for mutant in chosen for test in mutant.tests}))
        if run_tests(folders[0], tests, limit=None):
            print("the tests fail without any fault")
            return 2
        compiler = Compiler(root)

        def plant(mutant: Mutant) -> bool:
            folder = folders.pop()
            try:
                return killed(mutant, folder, compiler)
            finally:
                folders.append(folder)

        with ThreadPoolExecutor(asked.jobs) as pool:
            for mutant, found in zip(chosen, pool.map(plant, chosen), strict=True):
                ran += 1
                said = "killed" if found else "SURVIVED"
                print(f"[{ran}/{len(chosen)}] {said} {mutant.name}", flush=True)
                if not found:
                    survivors.append(mutant)
    print(f"{len(survivors)} of {len(chosen)} survived")
    return int(bool(survivors))


if __name__ == "__main__":
    raise SystemExit(main())
