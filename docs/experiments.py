"""Make the experiments' figures and tables: python -m docs.experiments FOLDER.

Runs `python -m bench.paper all --scale paper` in FOLDER, or what is left of it, then copies its
pictures to docs/img and puts its tables between the markers of docs/experiments.md. Nothing there
is written by hand.
"""

import re
import shutil
import sys
from pathlib import Path

from bench.paper.sheffet import FIGURES, reproduce

DOCS = Path(__file__).parent
PAGE = DOCS / "experiments.md"


def filled(text: str, name: str, table: str) -> str:
    """Put a table between `<!-- name -->` and the next `<!-- end -->`."""
    place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", re.DOTALL)
    if len(place.findall(text)) != 1:
        raise ValueError(f"the page has no place, or more than one, for the table {name}")
    return place.sub(lambda _: table, text)


def main() -> None:
    folder = Path(sys.argv[1])

    def progress(done: float, total: float) -> None:
        print(f"\r{done / total:.1%}", end="", file=sys.stderr, flush=True)

    reproduce(tuple(FIGURES), folder, "paper", progress=progress)
    for name in (*FIGURES, "lasso", "headline"):
        shutil.copy(folder / f"{name}.png", DOCS / "img")
    text = PAGE.read_text()
    for name in ("headline", "statements"):
        text = filled(text, name, (folder / f"{name}.md").read_text())
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
