"""What privacy rests on, file by file: ``python -m bench.trust``.

Everything that the secret room imports when it runs, and the compiled code below, is trusted for
something (docs/theory/trust.md). What is not in this table may be wrong in anything but privacy.
"""

from __future__ import annotations

import ast
import importlib.util
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "privgram"

#: What files are trusted for, by the first of these that begins their path.
ROLES = {
    "counts, enters and draws": ("secret/gate", "secret/__init__"),
    "how far a row moves a sum": ("secret/kinds", "secret/sweep"),
    "noise on integers": ("secret/additive", "secret/generators", "exact/discrete",
                          "exact/lattice", "exact/__init__", "exact/int128", "_core/_bitgen",
                          "_core/draws", "_core/chacha", "_core/discrete"),
    "laws of their own": ("disclosure/laws", "exact/", "_core/_blas", "_core/blas", "papers/"),
    "integers of a row or a unit": ("_core/scores", "_core/kept", "_core/rows", "_core/gram",
                                    "_core/coded", "_core/lanes", "_core/_lanes", "_core/simd",
                                    "_core/wide"),
    "a row is mapped by itself": ("_core/_rowmap", "_core/rowmap", "_core/_encode",
                                  "_core/random_features", "_core/arrow", "_core/__init__",
                                  "sources/", "scan/", "columns/", "moment/"),
    "the budget on disk": ("ledger/",),
    "public mathematics: profiles, noise, weights": ("privacy/", "mechanisms/", "noise",
                                                     "adaptive/", "regression/",
                                                     "releases/checks"),
    "files, checks and numbers": ("_base/", "__init__"),
}  # fmt: skip

#: Registered from outside: no import of the room's leads to them.
REGISTERED = (
    "disclosure.laws",
    "papers.sheffet.drawing", "papers.sheffet.certified", "papers.hardt_roth.pfp",
    "papers.hardt_roth.baselines", "papers.zhou_ligett_wasserman.compression",
)  # fmt: skip


def modules() -> dict[str, Path]:
    """Every module of the package by its name below it; of a package its `__init__`."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that one imports when it runs; compiled ones are listed by their sources."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    found = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            here = f"privgram.{package}".rstrip(".")
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), here)
            found.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    below = {one.removeprefix("privgram.") for one in found if one.startswith("privgram.")}
    return {one for one in below if one in known}


def closure() -> list[Path]:
    """All sources that privacy rests on: what the room imports, what is registered, all of C."""
    known = modules()
    todo = [name for name in known if name.partition(".")[0] == "secret"] + [*REGISTERED, "ledger"]
    seen = set(todo)
    while todo:
        name = todo.pop()
        for one in imported(name, known[name], known) - seen:
            seen.add(one)
            todo.append(one)
    compiled = (p for p in (ROOT / "_core").iterdir() if p.suffix in (".c", ".h", ".pyx", ".pxd"))
    return sorted([*(known[name] for name in seen), *compiled])


def role_of(path: Path) -> str:
    """What a source is trusted for."""
    name = path.relative_to(ROOT).as_posix()
    for role, beginnings in ROLES.items():
        if name.startswith(beginnings):
            return role
    raise ValueError(f"{name} is trusted for nothing that bench/trust.py knows")


def main() -> None:
    """Print the table."""
    lines: dict[str, dict[str, int]] = defaultdict(dict)
    for path in closure():
        count = len(path.read_text(encoding="utf-8").splitlines())
        lines[role_of(path)][path.relative_to(ROOT).as_posix()] = count
    print("| trusted for | files | lines |\n|---|--:|--:|")
    for role in ROLES:
        files = lines[role]
        print(f"| {role} | {len(files)} | {sum(files.values()):,} |")
    print("\n| file | lines | trusted for |\n|---|--:|---|")
    for role, files in lines.items():
        for name, count in files.items():
            print(f"| `{name}` | {count:,} | {role} |")
    room = sum(n for files in lines.values() for name, n in files.items() if name[:7] == "secret/")
    print(f"\nThe room itself: {room:,} lines.")


if __name__ == "__main__":
    main()
