#!/usr/bin/env python3
"""Print the version, which stands in the source and nowhere else: meson.build asks."""

import re
from pathlib import Path

BASE = Path(__file__).parents[1] / "src" / "privgram" / "_base"
TEXT = "".join(path.read_text(encoding="utf-8") for path in BASE.glob("*.py"))
print(*re.findall(r'^__version__ = "(.+)"$', TEXT, re.MULTILINE))
