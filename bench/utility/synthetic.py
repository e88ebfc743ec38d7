"""The same comparison on made tasks of many shapes, a check against tuning to a few real ones.

    python -m bench.utility.synthetic [--tasks 60] [--repetitions 10] [--seed 0]

Rows from 1e3 to 1e5, columns from 5 to 80; Gaussian, heavy-tailed, skewed, binary, half-binary
and nearly collinear features; dense, sparse and principal-direction coefficients; targets
linear or bent, centred or not, of which features explain 5 to 90 %.
"""

import argparse

import numpy as np

from bench.paper import uci

HELD_OUT = 5_000


def features(rng: np.random.Generator, kind: str, n: int, d: int) -> np.ndarray:
    spectrum = (1.0 + np.arange(d)) ** -rng.uniform(0, 1.5)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    Z = rng.standard_normal((n, d)) * np.sqrt(spectrum) @ turn
    Z /= Z.std(axis=0)
    match kind:
        case "heavy":
            return Z / np.sqrt(rng.chisquare(4, (n, 1)))
        case "skewed":
            return np.exp(Z * rng.uniform(0.3, 1.0, d))
        case "binary":
            return (rng.normal(scale=0.8, size=d) < Z).astype(float)
        case "half-binary":
            Z[:, ::2] = Z[:, ::2] > 0.7
            return Z
        case "collinear":
            k = max(2, d // 3)
            low = rng.standard_normal((n, k)) @ rng.standard_normal((k, d))
            return low + rng.choice([0.01, 0.1, 0.3]) * rng.standard_normal((n, d))
    return Z


def make(seed: int) -> uci.Task:
    rng = np.random.default_rng(seed)
    n = int(10 ** rng.uniform(3, 5)) + HELD_OUT
    d = int(np.exp(rng.uniform(np.log(5), np.log(80))))
    kind = rng.choice(["gaussian", "heavy", "skewed", "binary", "half-binary", "collinear"])
    Z = features(rng, kind, n, d)
    Z -= Z.mean(axis=0)
    Z /= Z.std(axis=0) + 1e-12
    coef = rng.standard_normal(d)
    shape = rng.choice(["dense", "sparse", "principal"])
    if shape == "sparse":
        coef[max(1, d // 6) :] = 0.0
    elif shape == "principal":
        values, vectors = np.linalg.eigh(Z.T @ Z / n)
        coef = vectors @ (coef * values)
    signal = Z @ coef
    signal /= signal.std()
    if rng.random() < 0.4:
        signal = np.tanh(signal) + 0.3 * signal**2
        signal /= signal.std()
    share = rng.choice([0.05, 0.3, 0.6, 0.9])
    y = np.sqrt(share) * signal + np.sqrt(1 - share) * rng.standard_normal(n)
    if rng.random() < 0.4:
        y += rng.uniform(0, 1.5)
    return uci.Task.prepare(f"{seed} {kind} {shape} {share:.0%}", Z, y, np.arange(n) < HELD_OUT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the first task and of the runs")
    args = parser.parse_args()
    tasks = (make(args.seed + i) for i in range(args.tasks))
    cells = list(uci.run(tasks, repetitions=args.repetitions, seed=args.seed))
    print(uci.summary(cells))
    for name in uci.METHODS:
        shares = []
        for epsilon in uci.EPSILONS:
            here = [cell for cell in cells if cell.epsilon == epsilon]
            excess = [
                (cell.median(name) - cell.least_squares) / (cell.zero - cell.least_squares)
                for cell in here
                if cell.least_squares < 0.99 * cell.zero
            ]
            shares.append(f"{np.median(excess):7.3f}")
        print(f"{name:<20}", *shares)


if __name__ == "__main__":
    main()
