"""Fuzz one loader by coverage: PYTHONPATH=tests python -m fuzz.run TARGET [libFuzzer's options].

    PYTHONPATH=tests python -m fuzz.run release_json -runs=100000

Half of the inputs are bytes that libFuzzer changed; half are valid files in which some
fields were changed and whose checksums hold, or, for `update`, bytes by chance. A defect ends
the run and leaves its input in crash-*, which is run again by naming the file.
"""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from pathlib import Path

import atheris


def main() -> None:
    arguments = sys.argv[1:]
    # The plain twin is no target, and slow enough as it is.
    with atheris.instrument_imports(include=["privgram", "fuzz"], exclude=["oracle"]):
        from fuzz import targets

    if not arguments or arguments[0] not in targets.TARGETS:
        sys.exit(f"{__doc__}\nTargets: {', '.join(targets.TARGETS)}")
    name, *options = arguments
    warnings.simplefilter("ignore")  # of NumPy, about files by Python 2
    seeds = targets.TARGETS[name].seeds()

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        if seed % 2 == 0:
            return atheris.Mutate(data, max_size)
        rng = random.Random(seed)
        start = data if rng.randrange(4) else rng.choice(seeds)
        changed = targets.mutate(name, start, seed)
        return (
            changed
            if changed != data and len(changed) <= max_size
            else atheris.Mutate(data, max_size)
        )

    corpus = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    if not any(Path(option).is_file() for option in options):
        options = [
            "-max_len=20000", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1",
            *options, str(corpus),
        ]  # fmt: skip
    atheris.Setup(
        [sys.argv[0], *options], lambda data: targets.run(name, data), custom_mutator=mutate
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
