"""Modules that moved: their former names lead to them."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

__all__ = ["FORMER", "install"]

#: Former and present names, below `privgram`.
FORMER = {
    "clipping": "regression.clipping",
    "norm_bound": "drawing.norm_bound",
    "random": "drawing.random",
    "reference": "moment.reference",
    "ridge": "regression.ridge",
    "rows": "moment.rows",
    "sklearn": "estimators",
    "spectrum": "multivariate",
    "utility": "privacy.published",
}

#: What became of those that lead nowhere.
GONE = {
    "experiments": "the experiments are in a checkout of the sources: python -m bench.paper",
    "plan": "plan, Plan and PlanRow are names of privgram itself",
    "release": "release, Release and load are names of privgram itself",
}


class _Former(MetaPathFinder, Loader):
    """Finds a module by its former name."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        root, _, name = fullname.partition(".")
        if root == "privgram" and name in GONE:
            raise ModuleNotFoundError(f"there is no module {fullname}: {GONE[name]}", name=fullname)
        return spec_from_loader(fullname, self) if root == "privgram" and name in FORMER else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(f"privgram.{FORMER[spec.name.partition('.')[2]]}")
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # importing by another name has overwritten it


def install() -> None:
    """Let former names be imported."""
    if not any(isinstance(finder, _Former) for finder in sys.meta_path):
        sys.meta_path.append(_Former())
