"""Make the experiments' figures and tables: python -m docs.experiments FOLDER.

Runs `python -m bench.paper all --scale paper` in FOLDER, or what is left of it, then copies its
pictures to docs/img and puts its tables between the markers of docs/experiments.md. Nothing there
is written by hand.
"""

import shutil
import sys
from pathlib import Path

from bench import pages
from bench.paper.sheffet import FIGURES, reproduce

DOCS = Path(__file__).parent


def main() -> None:
    folder = Path(sys.argv[1])

    def progress(done: float, total: float) -> None:
        print(f"\r{done / total:.1%}", end="", file=sys.stderr, flush=True)

    reproduce(tuple(FIGURES), folder, "paper", progress=progress)
    for name in (*FIGURES, "lasso", "headline"):
        shutil.copy(folder / f"{name}.png", DOCS / "img")
    for name in ("headline", "statements"):
        pages.fill(name, (folder / f"{name}.md").read_text().splitlines())


if __name__ == "__main__":
    main()
