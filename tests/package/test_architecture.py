"""The floor plan: imports go one way, and the top of the package is a short list of rooms.

Read from the source, every import counted wherever it stands: inside functions and for type
checking too. An import of a name from a package counts as one of the package.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from support.parsed import ROOT, modules

#: The rooms at the top of the package; more of them need a reason.
MOST_ROOMS = 28


def imports(name: str, path: Path, tree: ast.Module, known: set[str]) -> set[str]:
    """The modules of the package that one imports, wherever in it."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            source = ".".join([*base, node.module or ""]).strip(".") if node.level else node.module
            targets = [f"{source}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            while target and target not in known:
                target = target.rpartition(".")[0]
            found.add(target)
    return found - {"", name}


@cache
def graph() -> dict[str, set[str]]:
    known = set(modules())
    return {name: imports(name, *parsed, known) for name, parsed in modules().items()}


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other: Tarjan's strongly connected components."""
    order, low, stack, found = {}, {}, [], []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in sorted(arrows.get(node, ())):
            if target not in order:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], order[target])
        if low[node] == order[node]:
            at = stack.index(node)
            group = sorted(stack[at:])
            del stack[at:]
            if len(group) > 1:
                found.append(group)

    for node in sorted(arrows):
        if node not in order:
            visit(node)
    return found


@pytest.mark.slow
def test_circles_are_found():
    """The test of the test: a circle, one through a function's import, and none."""
    arrows = defaultdict(set, {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert circles(arrows) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []
    drawn = graph()
    assert "privgram.columns" in drawn["privgram"]
    assert len(drawn) > 100


def test_imports_go_one_way():
    assert circles(graph()) == []


def test_nothing_below_imports_the_papers():
    """Also by a name in quotes, as a late import has it; the top hands the room on."""
    papers = "privgram.papers"
    arrows = graph()
    for name, (path, _) in modules().items():
        if name != "privgram" and not name.startswith(papers):
            assert not [target for target in arrows[name] if target.startswith(papers)], name
            assert f'"{papers}' not in path.read_text(encoding="utf-8"), name
    assert "privgram.papers.sheffet.laws" in arrows["privgram.papers.sheffet.mechanisms"]


def test_top_is_a_short_list_of_rooms():
    rooms = {
        path.stem if path.is_file() else path.name
        for path in ROOT.iterdir()
        if path.suffix in (".py", ".so") or (path.is_dir() and path.name != "__pycache__")
    } - {"__init__"}
    assert len(rooms) <= MOST_ROOMS, sorted(rooms)


#: Calls that write to a file, by their last name; and what has them by another way on purpose.
WRITES = {
    "write_bytes", "write_text", "replace", "rename", "renames", "link", "symlink", "ftruncate",
    "truncate", "tofile", "savetxt", "to_csv", "to_parquet", "copyfile", "touch",
}  # fmt: skip
#: Methods of the same names that write nothing: of texts, data classes and columns.
HARMLESS = {"replace"}


def writes(tree: ast.AST) -> list[int]:
    """Lines of a module on which a file is written, or opened to be."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        of = function.value if isinstance(function, ast.Attribute) else None
        of_os = isinstance(of, ast.Name) and of.id in ("os", "shutil")
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if (of is not None and name in WRITES and (of_os or name not in HARMLESS)) or (
            of_os and name in ("write", "open", "fdopen")
        ):
            found.append(node.lineno)
        elif name == "open":
            modes = [*node.args[of is None :][:1], *(k.value for k in node.keywords)]
            texts = [m.value for m in modes if isinstance(m, ast.Constant)]
            if any(isinstance(t, str) and set(t) <= set("rwaxbt+") and set(t) & set("wax+")
                   for t in texts):  # fmt: skip
                found.append(node.lineno)
    return found


def test_writes_are_found():
    """The test of the test."""
    for line in ("p.write_bytes(b)", "os.replace(a, b)", "open(p, 'wb')", "p.open('a')",
                 "open(p, mode='r+')", "os.write(h, b)", "np.ones(2).tofile(p)"):  # fmt: skip
        assert writes(ast.parse(line)) == [1], line
    for line in ("open(p)", "p.open('rb')", "name.replace('a', 'b')", "replace(x, a=1)"):
        assert writes(ast.parse(line)) == [], line


def test_files_are_written_by_one_door():
    """By `_base.files`: whole or not at all, durable, and through no link of a known name."""
    found = {
        (name, line)
        for name, (_, tree) in modules().items()
        if name != "privgram._base.files"
        for line in writes(tree)
    }
    # Standard streams that are closed go nowhere.
    assert {name for name, _ in found} <= {"privgram.cli"}
    assert len(found) <= 1
