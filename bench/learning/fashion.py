"""Fashion-MNIST by scattering features: the features, computed once, and fits of them.

Images are those of Debian's dataset-fashion-mnist; scattering is PyPI's kymatio, which the project
does not need otherwise. Each image is normalised by itself, in 27 groups of three channels, so that
features cost nothing. On held-out training rows 27 groups were better than 81.
"""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram.estimators import PrivateClassifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

IMAGES = Path("/usr/share/datasets/fashion-mnist")
GROUPS, NUMBERS = 27, 147
TRAINED = 60_000


def _raw(name: str, header: int) -> NDArray[np.uint8]:
    return np.frombuffer(gzip.decompress((IMAGES / f"{name}.gz").read_bytes()), np.uint8)[header:]


def labels() -> NDArray[np.intp]:
    """Of the images, those for tests at the end."""
    names = "train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"
    return np.concatenate([_raw(name, 8) for name in names]).astype(np.intp)


def scattering() -> Iterator[NDArray[np.float32]]:
    """Features of length about 1, by a hundred images."""
    import scipy.special

    scipy.special.sph_harm = None  # which kymatio imports and does not use in two dimensions
    from kymatio.numpy import Scattering2D

    names = "train-images-idx3-ubyte", "t10k-images-idx3-ubyte"
    images = np.concatenate([_raw(name, 16) for name in names]).reshape(-1, 28, 28)
    transform = Scattering2D(J=2, shape=(28, 28))
    for start in range(0, len(images), 500):
        parts = transform(images[start : start + 500].astype(np.float32) / 255)
        parts = parts.reshape(-1, GROUPS, NUMBERS)
        spread = parts.std(axis=2, keepdims=True) + 1e-5
        normal = (parts - parts.mean(axis=2, keepdims=True)) / spread
        yield normal.reshape(len(normal), -1) / np.float32(np.sqrt(GROUPS * NUMBERS))


def features(folder: Path, size: int) -> NDArray[np.float32]:
    """All 3,969 features or a public random projection on fewer, in a file of the folder."""
    path = folder / f"fashion-{size}.npy"
    whole = GROUPS * NUMBERS
    if path.exists():
        return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]
    blocks = scattering()
    if size < whole:
        rng = np.random.default_rng(0)
        turn = (rng.standard_normal((whole, size)) / np.sqrt(size)).astype(np.float32)
        large = features(folder, whole)
        blocks = (large[i : i + 2000] @ turn for i in range(0, len(large), 2000))
    shape = len(labels()), size
    out = np.lib.format.open_memmap(folder / "part.npy", "w+", np.float32, shape)
    at = 0
    for block in blocks:
        out[at : at + len(block)] = block
        at += len(block)
    out.flush()
    (folder / "part.npy").rename(path)
    return features(folder, size)


def fit(x: Any, y: Any, epsilon: float, seed: int, **more: Any) -> tuple[PrivateClassifier, float]:
    """A fit of the images for training, and the processor time that it took."""
    model = PrivateClassifier(
        epsilon=epsilon,
        delta=1e-5,
        classes=range(10),
        bound=1.0,
        adjacency="add-remove",
        random_state=seed,
        **more,
    )
    start = time.process_time()
    model.fit([(x[:TRAINED], y[:TRAINED])])
    return model, time.process_time() - start


def accuracy(size: int, epsilon: float, seed: int, folder: Path) -> dict[str, float]:
    """Of the images for tests."""
    x, y = features(folder, size), labels()
    model, seconds = fit(x, y, epsilon, seed)
    return {"accuracy": float(model.score(x[TRAINED:], y[TRAINED:])), "seconds": seconds}
