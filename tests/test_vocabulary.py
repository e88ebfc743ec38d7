"""One vocabulary: a word of the glossary and a name of the code has one meaning."""

import ast
import functools
import inspect
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from support.public_api import public

import privgram

pytestmark = pytest.mark.slow

ROOT = Path(privgram.__file__).parent
DOCS = Path(__file__).parent.parent / "docs"

#: Names that stand in two modules on purpose: a command of the shell has the name of what it calls
#: ("plan", "release", "summarize"); "regress" is of a table, at a price, and of a release,
#: at none; "to_html" is the method of that name, of a release and of a fit; and "total" sums the
#: same in exact integers for two kinds of noise.
ON_PURPOSE = {"plan", "regress", "release", "summarize", "to_html", "total"}

#: What nothing is called any more, and what it is called.
REPLACED = {
    "Refined": "AdaptiveGaussian", "Auto": "PrivateBound", "ScoreFit": "GLMResults",
    "Fit": "OLSResults", "InstrumentalFit": "IVResults", "standing": "proof_status",
    "Standing": "ProofStatus", "unlisted": "unknown", "looks": "rounds", "limbs": "int128",
    "offered": "answered",
}  # fmt: skip


def glossary(heading: str) -> list[tuple[str, str]]:
    """The rows of one table of the page: what it explains, and the meaning."""
    page = (DOCS / "guide" / "glossary.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section
    return re.findall(r"^\| `?(.+?)`? \| (.+) \|$", section[1], re.MULTILINE)[1:]


def test_word_of_the_glossary_has_one_row():
    words = [word for word, _ in glossary("Words")]
    assert len(words) == len(set(words)) > 30
    assert words == sorted(words, key=str.lower)


def test_meanings_differ():
    """Two names of one meaning would be two words for one thing."""
    meanings = Counter(meaning for _, meaning in glossary("Words"))
    assert meanings.most_common(1)[0][1] == 1


def top_level(tree: ast.Module) -> set[str]:
    """Classes, functions and constants that a module defines, without private functions."""
    names = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if not isinstance(target, ast.Attribute):
                    names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return {name for name in names if name[:2] != "__" and (name[0] != "_" or name.isupper())}


@functools.cache
def modules() -> dict[str, ast.Module]:
    """The modules of the package, by path."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(ROOT.rglob("*.py"))
    }


def test_top_level_name_has_one_meaning():
    places = defaultdict(set)
    for path, tree in modules().items():
        for name in top_level(tree):
            places[name].add(path)
    assert len(places) > 500
    several = {name: where for name, where in places.items() if len(where) > 1}
    assert set(several) == ON_PURPOSE, {k: several.get(k) for k in set(several) ^ ON_PURPOSE}


def test_replaced_names_stay_away():
    uses = []
    for path, tree in modules().items():
        for node in ast.walk(tree):
            for field in ("name", "id", "attr", "arg"):
                if (name := getattr(node, field, None)) in REPLACED:
                    uses.append(f"{path}:{getattr(node, 'lineno', 0)}: {name}")
    old = "|".join(REPLACED)
    in_prose = re.compile(
        rf"`[\w.]*\b({old})\b[\w.()=]*`|^ *(\w+ : )?([\w, ]+ or )?({old})(, .*| or .*)?$"
    )
    for path in sorted(ROOT.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if in_prose.search(line):
                uses.append(f"{path.name}:{number}: {line}")
    assert not uses


def fields_of(doc: str) -> set[str]:
    """What the section "Attributes" of a docstring names."""
    section = re.search(r"^Attributes\n-+\n(.*?)(?=^\S.*\n-+$|\Z)", doc, re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^(\w[\w, ]*) : ", section[1] if section else "", re.MULTILINE)
    return {name for head in heads for name in head.split(", ")}


def has_attribute(value: type, name: str) -> bool:
    """Whether a class, a base of it, or else its subclasses define or assign it."""
    classes = [base for base in value.__mro__ if base.__module__.startswith("privgram")]
    return (
        hasattr(value, name)
        or any(name in inspect.get_annotations(base) for base in classes)
        or any(re.search(rf"self\.{name}\b[^=\n]*=", inspect.getsource(x)) for x in classes)
        or any(has_attribute(subclass, name) for subclass in value.__subclasses__())
    )


def test_attributes_that_docstrings_name_are_there():
    """A renamed field is renamed in its docstring too."""
    classes = [value for value in public().values() if inspect.isclass(value)]
    named = [(value, fields_of(inspect.getdoc(value) or "")) for value in classes]
    assert sum(len(fields) for _, fields in named) > 200
    missing = [
        f"{value.__name__}.{name}"
        for value, fields in named
        for name in sorted(fields)
        if not has_attribute(value, name)
    ]
    assert not missing


def test_classes_that_prose_names_are_there():
    """A class in backquotes, on a page or in a docstring, is one of ours or of what we import."""
    defined = {"Head"}  # an example
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                defined.add(node.name)
            defined |= {getattr(node, "id", ""), getattr(node, "attr", "")}
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                defined |= {alias.name for alias in node.names}
    foreign = {  # of Dask, R, lifelines, scikit-learn and dp_accounting
        "CoxPHFitter", "FunctionTransformer", "Surv",
        "Client", "LassoLarsIC", "LinearRegression", "LocalCluster", "LogisticRegression", "NaN",
        "Normalizer", "Ridge", "StandardScaler", "TruncatedSVD", "UnsupportedEventError",
    }  # fmt: skip
    pages = [DOCS.parent / "README.md", DOCS.parent / "CHANGELOG.md", *ROOT.rglob("*.py")]
    pages += [*(DOCS / "guide").glob("*.md"), *(DOCS / "theory").glob("*.md")]
    pages.remove(DOCS / "theory" / "audit.md")  # of classes of bench/
    unknown = set()
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for name in re.findall(r"`(?:[a-z_]+\.)*([A-Z][a-z]+[A-Za-z]*)[`.(]", text):
            if name not in defined | foreign:
                unknown.add(f"{page.name}: {name}")
    assert not unknown, sorted(unknown)
