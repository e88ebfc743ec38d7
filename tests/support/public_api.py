"""What docs/api/index.rst lists."""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import privgram

PAGE = Path(__file__).parents[2] / "docs" / "api" / "index.rst"


def public() -> dict[str, Any]:
    """Classes, functions and types of the reference; a module stands for its `__all__`."""
    listed: dict[str, Any] = {}
    for entry in re.findall(r"^   ([\w.]+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        value: Any = privgram
        parts = entry.split(".")
        try:
            for k, part in enumerate(parts):
                if not hasattr(value, part):
                    importlib.import_module(".".join(["privgram", *parts[: k + 1]]))
                value = getattr(value, part)
        except ImportError:  # of an extra
            continue
        if inspect.ismodule(value):
            listed |= {f"{entry}.{name}": getattr(value, name) for name in value.__all__}
        else:
            listed[entry] = value
    return {entry: value for entry, value in listed.items() if not inspect.ismodule(value)}
