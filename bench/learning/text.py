"""Two tables of texts with labels, and fits of hashed words of them.

Glosses of WordNet by lexicographer file (Debian's wordnet-base), and short descriptions of Debian's
packages by section (`apt-cache dumpavail`). Features are counts of words by a public hash, of
length 1, so they cost nothing.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression

from privgram.estimators import PrivateClassifier

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDNET = Path("/usr/share/wordnet")
SIZE = 512

#: Rows at most, of which one in six is for tests.
ROWS, TESTED = 24_000, 6


def glosses() -> Iterator[tuple[str, str]]:
    """The gloss and the lexicographer file of each synset, as a number."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (WORDNET / f"data.{part}").read_text("utf-8").splitlines():
            if not line.startswith("  "):  # the licence
                yield line.partition("|")[2].strip(), line.split(maxsplit=2)[1]


def packages() -> Iterator[tuple[str, str]]:
    """The short description and the section of each package."""
    shown = subprocess.run(
        ["apt-cache", "dumpavail"], capture_output=True, check=True, encoding="utf-8"
    ).stdout
    for record in shown.split("\n\n"):
        found = dict(re.findall(r"^(Description|Section): (.*)$", record, re.MULTILINE))
        if len(found) == 2:
            yield found["Description"], found["Section"].rpartition("/")[2]


SOURCES = {"WordNet": glosses, "Debian": packages}


@cache
def table(name: str) -> tuple[Any, Any]:
    """Features and labels of texts that differ, in a drawn order."""
    labelled = sorted(dict(SOURCES[name]()).items())
    order = np.random.default_rng(0).permutation(len(labelled))[:ROWS]
    words = HashingVectorizer(n_features=SIZE, stop_words="english", dtype=np.float32)
    x = words.transform([labelled[i][0] for i in order]).toarray()
    return x, np.array([labelled[i][1] for i in order])


def accuracy(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Of rows for tests; at infinite epsilon by scikit-learn without privacy."""
    x, y = table(name)
    test = np.arange(len(y)) % TESTED == 0
    rows, labels = x[~test], y[~test]
    if np.isinf(epsilon):
        model: Any = LogisticRegression(C=1.0, max_iter=50).fit(rows, labels)
    else:
        model = PrivateClassifier(
            epsilon=epsilon,
            delta=1e-5,
            classes=sorted(set(y.tolist())),
            bound=1.0,
            adjacency="add-remove",
            random_state=seed,
        ).fit(rows, labels)
    largest = np.unique(labels, return_counts=True)[1].max() / len(labels)
    return {
        "rows": len(labels),
        "classes": len(set(y.tolist())),
        "largest class": float(largest),
        "accuracy": float(model.score(x[test], y[test])),
    }
