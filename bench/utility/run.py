"""Utility benchmark on a folder of regression tasks: prints the table, and fills the page with it.

python -m bench.utility.run FOLDER [--csv FILE] [--repetitions 20] [--seed 0]
"""

import argparse
import sys
from pathlib import Path

from bench.pages import fill
from bench.paper import uci


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of .npz tasks: X, y, test")
    parser.add_argument("--csv", type=Path, help="write medians and quartiles here")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    cells = []
    for cell in uci.run(uci.load_folder(args.folder), repetitions=args.repetitions, seed=args.seed):
        print(f"{cell.task} at epsilon {cell.epsilon:g}", file=sys.stderr)
        cells.append(cell)
    table = uci.to_markdown(cells)
    print(table, uci.summary(cells), sep="\n\n")
    fill("uci", [table])
    if args.csv:
        args.csv.write_text(uci.to_csv(cells))


if __name__ == "__main__":
    main()
