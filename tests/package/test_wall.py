"""The wall: the public side of the house never imports the secret side.

Read from the source, so that imports inside functions count too. Imports for
type checking alone do not: they move no data.
"""

import ast
import importlib.util
import re
from pathlib import Path

import pytest
from support import parsed
from support.parsed import ROOT

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
    "papers._gamma",
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
    "papers.sheffet.wishart",
    "papers.zhou_ligett_wasserman.theorems",
    "plots",
    "page",
    "ledger",
    "cli.released",
    "cli.ledger",
)
SECRET = ("moment", "sources", "scan", "disclosure", "secret", "_core.rows")


def modules() -> dict[str, ast.Module]:
    """Modules by their names below privgram; compiled ones import nothing but are imported."""
    return {
        name[len("privgram.") :]: ast.parse("") if path.suffix == ".pyi" else tree
        for name, (path, tree) in parsed.modules().items()
    }


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
    trees = modules()
    root = trees.pop("")
    public_names = {
        alias.name: node.module
        for node in ast.walk(root)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    result = {}
    for name, tree in trees.items():
        visitor = Imports(name, public_names)
        visitor.visit(tree)
        result[name] = {target for target in visitor.names if target in trees}
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
    assert "mechanisms.additive" in reachable(graph, "mechanisms")


#: What draws, and the kernels that make a row's integers; who may import them, besides the room,
#: `exact`, the compiled code itself and the papers, which register laws of their own.
GUARDED = {
    "exact.discrete": set(),
    "exact.choice": set(),
    "exact.variates": {"disclosure.laws"},  # which registers laws of their own
    "secret.additive": set(),
    "_core.scores": {
        "regression.families",  # what a family says of a row, which is public
    },
    "_core.kept": set(),
    # The first pass and its second moment, which a gate adopts.
    "_core.rows": {
        "moment.accumulators", "moment.device", "moment.second_moment", "moment.sql",
        "moment.units", "scan.executor", "glm.score_steps", "cli.doctor",
    },
}  # fmt: skip

#: Where a gate is given what it does not check: the door of each is named in docs/theory/trust.md.
ADOPTERS = {"disclosure.samplers", "stream", "glm.targets", "study.tables"}


def test_nobody_else_draws_or_makes_the_integers_of_rows(graph):
    for guarded, allowed in GUARDED.items():
        found = {
            name
            for name, targets in graph.items()
            if guarded in targets and not inside(name, ("secret", "exact", "_core", "papers"))
        }
        assert found == allowed, f"{sorted(found ^ allowed)} and {guarded}"


#: Who draws by laws of their own, each of which is trusted for its own profile.
LAWS = {"disclosure.laws", "papers.sheffet.drawing"}


@pytest.mark.parametrize(
    ("method", "of", "allowed"), [("adopt", "", ADOPTERS), ("register", "draw", LAWS)]
)
def test_what_a_gate_is_to_believe_comes_by_few_doors(method, of, allowed):
    found = {
        name
        for name, tree in modules().items()
        if not inside(name, ("secret",))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == method
        and (not of or getattr(node.value, "id", "") == of)
    }
    assert found == allowed


INTEGERS = re.compile(r"^[<>=]?(u?int(8|16|32|64|p|c)?|[iu][1248]|u?(byte|short|long|longlong))$")
CASTS = {"astype", "asarray", "array", "ascontiguousarray", "asfortranarray", "fromiter"}
ROUNDED = {"rint", "round_", "fix"}

#: Where numbers are made integers that are on the secret side; each is of what is whole already.
WHOLE = {
    "sources.arrow": {"_decimals", "_large_decimals", "_indices", "_runs", "_codes"},  # of Arrow's
    "sources.labelled": {"codes"},  # numbers of classes
    "sources.table": {"keys_of"},  # whole keys of units
    "scan.units": {"__init__", "parts_of"},  # digests
    "moment.device": {"_whole"},  # a kernel's whole floats, below 2^53
    "moment.grouped": {"to_bytes"},
    "moment.second_moment": {"to_bytes", "_from_parts"},
    "moment.sql": {"_restored"},  # Python's integers
    "stream.state": {"read"},
    "stream.factors": {"factor"},  # public
    "estimators.classifier": {"predict"},  # of a public fit
}


def casts(tree: ast.AST) -> set[str]:
    """Functions in which an array may become integers."""
    found = set()

    def name_of(node: ast.AST) -> str:
        if isinstance(node, ast.Constant):
            return str(node.value)
        return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")

    def visit(node: ast.AST, where: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.FunctionDef) else where
            if isinstance(child, ast.Call):
                called = name_of(child.func)
                of_numpy = isinstance(child.func, ast.Attribute)
                given = [*child.args, *(word.value for word in child.keywords)]
                cast = called in CASTS and any(INTEGERS.match(name_of(one)) for one in given)
                made = of_numpy and given and (called in ROUNDED or INTEGERS.match(called))
                loose = any(
                    w.arg == "casting" and name_of(w.value) == "unsafe" for w in child.keywords
                )
                if cast or made or loose:
                    found.add(inner)
            visit(child, inner)

    visit(tree, "")
    return found


def test_no_number_of_a_row_becomes_an_integer_outside_the_kernels():
    rooms = ("sources", "scan", "moment", "disclosure", "glm", "stream", "estimators", "adaptive")
    public = {"adaptive.radius"}  # weights; and counts that are whole
    for name, tree in modules().items():
        if inside(name, rooms) and name not in public:
            assert casts(tree) <= WHOLE.get(name, set()), name


@pytest.mark.parametrize(
    "line",
    [
        "x.astype(np.int64)", "x.astype('<i8')", "x.astype(int, copy=False)",
        "np.array(x, np.intp)", "np.asarray(x, dtype='int32')", "np.int64(x)",
        "np.rint(x)", "xp.uint8(x)", "np.add(x, y, out=total, casting='unsafe')",
    ],
)  # fmt: skip
def test_casts_are_seen(line):
    """The test of the test."""
    assert casts(ast.parse(f"def f(x):\n    return {line}")) == {"f"}
    assert (
        casts(ast.parse("def f(x):\n    return x.astype(np.float64), np.zeros(3, int), x.round(2)"))
        == set()
    )
