"""The package as its source has it."""

import ast
from functools import cache
from pathlib import Path

import privgram

ROOT = Path(privgram.__file__).parent


@cache
def modules() -> dict[str, tuple[Path, ast.Module]]:
    """Parse every module of the package, by its full name; compiled ones have their stub."""
    found = {}
    for path in sorted([*ROOT.rglob("*.py"), *ROOT.rglob("*.pyi")]):
        parts = ("privgram", *path.relative_to(ROOT).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path, ast.parse(path.read_text(encoding="utf-8"))
    return found
