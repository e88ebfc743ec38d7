"""Utility benchmark on a folder of regression tasks: prints the table, writes CSV and Markdown.

python bench/utility/run.py FOLDER [--out DIRECTORY] [--repetitions 20] [--seed 0]
"""

import argparse
import sys
from pathlib import Path

from bench.paper import uci


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of .npz tasks: X, y, test")
    parser.add_argument("--out", type=Path, help="write utility.csv and utility.md here")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    cells = []
    for cell in uci.run(uci.load_folder(args.folder), repetitions=args.repetitions, seed=args.seed):
        print(f"{cell.task} at epsilon {cell.epsilon:g}", file=sys.stderr)
        cells.append(cell)
    table = uci.to_markdown(cells)
    print(table, uci.summary(cells), sep="\n\n")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "utility.csv").write_text(uci.to_csv(cells))
        (args.out / "utility.md").write_text(table + "\n")


if __name__ == "__main__":
    main()
