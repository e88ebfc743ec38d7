"""The wall: the public side of the house never imports the secret side.

Read from the source, so that imports inside functions count too. Imports for
type checking alone do not: they move no data.
"""

import ast
import importlib.util
from pathlib import Path

import pytest

import privgram

ROOT = Path(privgram.__file__).parent
PUBLIC = (
    "releases",
    "mechanisms",
    "adaptive",
    "exact",
    "noise",
    "regression",
    "multivariate",
    "planning",
    "privacy",
    "papers._shared",
    "papers.dwork_et_al",
    "papers.hardt_roth.calibration",
    "papers.hardt_roth.factors",
    "papers.hardt_roth.theorems",
    "papers.sheffet.profiles",
    "papers.sheffet.mechanisms",
    "papers.sheffet.laws",
    "papers.sheffet.published",
    "papers.sheffet.theorems",
    "papers.zhou_ligett_wasserman.theorems",
    "plots",
    "page",
    "ledger",
    "cli.released",
    "cli.ledger",
)
SECRET = ("moment", "sources", "scan", "disclosure", "_core.rows")


def modules() -> dict[str, ast.Module]:
    """Parse every Python module of the package, by its name below privgram."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    # Compiled modules import nothing of ours but matter as targets.
    for path in ROOT.rglob("*.pyi"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found.setdefault(name, ast.parse(""))
    return found


def is_package(name: str) -> bool:
    return (ROOT / Path(*name.split(".")) / "__init__.py").exists()


class Imports(ast.NodeVisitor):
    """What a module imports at run time from privgram, by name below it."""

    def __init__(self, name: str, public_names: dict[str, str]) -> None:
        self.package = name if is_package(name) else name.rpartition(".")[0]
        self.public_names = public_names
        self.names: set[str] = set()

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                self.visit(child)
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "LazyModule":
            for text in ast.walk(node):
                if isinstance(text, ast.Constant):
                    self.add(str(text.value))
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        here = f"privgram.{self.package}".rstrip(".")
        base = importlib.util.resolve_name("." * node.level + (node.module or ""), here)
        self.add(base)
        for alias in node.names:
            self.add(f"{base}.{alias.name}")

    def add(self, name: str) -> None:
        # The root's __init__ only hands names on; who takes one takes its module.
        if name.startswith("privgram."):
            name = name.removeprefix("privgram.")
            self.names |= {name, self.public_names.get(name, name)}


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    parsed = modules()
    root = parsed.pop("")
    public_names = {
        alias.name: node.module
        for node in ast.walk(root)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    result = {}
    for name, tree in parsed.items():
        visitor = Imports(name, public_names)
        visitor.visit(tree)
        result[name] = {target for target in visitor.names if target in parsed}
    return result


def reachable(graph: dict[str, set[str]], start: str) -> dict[str, str]:
    """Every module reached from `start`, with the module that imports it."""
    origin: dict[str, str] = {}
    todo = [start]
    while todo:
        name = todo.pop()
        for target in graph[name]:
            if target not in origin:
                origin[target] = name
                todo.append(target)
    return origin


def inside(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(room + ".") for room in rooms)


@pytest.mark.slow
def test_public_side_never_reaches_the_secret_side(graph):
    for start in (name for name in graph if inside(name, PUBLIC)):
        breaches = {
            target: origin
            for target, origin in reachable(graph, start).items()
            if inside(target, SECRET)
        }
        assert not breaches, f"{start} reaches the secret side: {breaches}"


@pytest.mark.slow
def test_graph_is_seen(graph):
    """Or the test above could not fail: the rooms exist and their imports are found."""
    for room in (
        "releases",
        "regression",
        "planning",
        "privacy",
        "moment",
        "sources",
        "_core.rows",
    ):
        assert room in graph
    assert any(inside(target, SECRET) for target in reachable(graph, "moment.second_moment"))
    assert "mechanisms.additive" in reachable(graph, "planning.plan")
