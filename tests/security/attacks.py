"""Two attacks on private second moments that are right over the reals and wrong in floats.

Each is a game: a coin picks one of two neighbouring tables, the victim releases its second
moment, the attacker, who knows both tables and the program but not its coins, says which it
was. Differential privacy bounds how often anybody can be right, see `permitted`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import privgram as pg

Matrix = NDArray[np.floating]
#: Releases the table that the coin picked, of one of the games.
Victim = Callable[[int, np.random.Generator], Matrix]


@dataclass(frozen=True)
class Game:
    """Two neighbouring tables and a guarantee that is claimed for their releases."""

    tables: tuple[Matrix, Matrix]
    bound: float
    epsilon: float
    delta: float

    @property
    def sigma(self) -> float:
        """Noise of the Gaussian mechanism, which keeps the guarantee over the reals."""
        d = self.tables[0].shape[1]
        return pg.AnalyzeGauss().calibrate(d, self.bound, self.epsilon, self.delta).sigma

    @property
    def permitted(self) -> float:
        """Best rate of success that any attack on the ideal mechanism can have.

        That is (1 + TV)/2, and the total variation distance is the profile at epsilon 0.
        """
        d = self.tables[0].shape[1]
        noise = pg.AnalyzeGauss().calibrate(d, self.bound, self.epsilon, self.delta)
        return (1 + noise.privacy.delta(0.0)) / 2

    def naive(self, sums: Callable[[Matrix], Matrix]) -> Victim:
        """Clip, sum in floats, add float noise."""
        totals = [sums(clip(table, self.bound)) for table in self.tables]
        sigma = self.sigma

        def release(coin: int, rng: np.random.Generator) -> Matrix:
            noise = np.triu(rng.normal(0.0, sigma, totals[coin].shape))
            return totals[coin] + (noise + np.triu(noise, 1).T)

        return release

    def privgram(self) -> Victim:
        """This library, with the same noise on every entry."""
        moments = [pg.second_moment(table, bound=self.bound) for table in self.tables]
        mechanism = pg.AnalyzeGauss(noise="triangular")

        def release(coin: int, rng: np.random.Generator) -> Matrix:
            return pg.release(
                moments[coin], None, self.epsilon, self.delta, rng=rng, mechanism=mechanism
            ).matrix

        return release


def clip(table: Matrix, bound: float) -> Matrix:
    """Shorten rows to the bound, in the precision of the table."""
    norms = np.sqrt(np.einsum("ij,ij->i", table, table))
    scale = (bound / np.maximum(norms, bound)).astype(table.dtype)
    return table * scale[:, None]


def whole(table: Matrix) -> Matrix:
    """Sum in one product."""
    return table.T @ table


def streamed(table: Matrix, rows: int = 64) -> Matrix:
    """Sum a block after another, as a table that does not fit in memory is summed."""
    total = np.zeros((table.shape[1],) * 2, table.dtype)
    for start in range(0, len(table), rows):
        block = table[start : start + rows]
        total += block.T @ block
    return total


RARE = 16


def rare_attributes(epsilon: float = 0.1, delta: float = 1e-6) -> Game:
    """One row has attributes that no other has; or it has none."""
    with_row = np.zeros((200, 4 + RARE))
    with_row[:-1, :4] = np.random.default_rng(0).integers(0, 2, (199, 4))
    with_row[-1, 4:] = 1.0
    without = with_row.copy()
    without[-1] = 0.0
    return Game((without, with_row), np.sqrt(RARE), epsilon, delta)


def reachable(released: Matrix, value: float, sigma: float) -> NDArray[np.bool_]:
    """Tell where ``fl(value + fl(sigma x))`` is the released number for some float x.

    The products ``fl(sigma x)`` leave out floats, one in eight or so, and which of all sums
    are left out depends on the value. Where the sum itself rounded, True.
    """
    noise = released - value
    rounded = np.spacing(np.abs(noise)) < np.spacing(np.abs(released))
    x = noise / sigma
    near = (np.nextafter(x, -np.inf), x, np.nextafter(x, np.inf))
    return rounded | np.any([sigma * y == noise for y in near], axis=0)


def low_bits(game: Game) -> Callable[[Matrix], float]:
    """Attack: under which table could this release have come about?"""
    upper = np.triu_indices(RARE)
    sigma = game.sigma

    def guess(released: Matrix) -> float:
        entries = released[4:, 4:][upper]
        impossible = [np.sum(~reachable(entries, value, sigma)) for value in (0.0, 1.0)]
        return 0.5 if impossible[0] == impossible[1] else float(impossible[0] > impossible[1])

    return guess


BIG, SMALL = (1 << 18) + 1, 1 << 19


def edge_of_a_binade(epsilon: float = 1.0, delta: float = 1e-6) -> Game:
    """Single precision: a row decides on which side of 2^16 a sum is when small rows come.

    Above, where floats are 2^-7 apart, a block of 64 small rows, 63 2^-14 together, is
    rounded away; below, where they are 2^-8 apart, it counts as 2^-8. Sums within a block are
    exact in any order, so that this does not depend on how the product is computed.
    """
    big = np.full((BIG, 2), 0.5, np.float32)  # each adds 1/4 off the diagonal: 2^16 + 1/4
    small = np.tile(np.float32([0.5, -63 * 2.0**-19]), (SMALL, 1))
    above = np.concatenate([big, small])
    below = above.copy()
    below[0] = [0.5, -0.5]  # 2^16 - 1/4
    return Game((above, below), 1.0, epsilon, delta)


def off_diagonal(game: Game, sums: Callable[[Matrix], Matrix]) -> Callable[[Matrix], float]:
    """Attack: which of the two totals is nearer?"""
    totals = [float(sums(clip(table, game.bound))[0, 1]) for table in game.tables]
    middle, first_is_larger = sum(totals) / 2, totals[0] > totals[1]
    return lambda released: float((released[0, 1] < middle) == first_is_larger)


def exactly(table: Matrix) -> Matrix:
    """Sum as privgram does."""
    return pg.second_moment(table, bound=1.0).matrix()


def play(victim: Victim, guess: Callable[[Matrix], float], games: int, seed: int) -> float:
    """Count games won; an attacker who cannot tell wins half."""
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, games)
    guesses = np.array([guess(victim(coin, rng)) for coin in coins])
    return float(np.sum(1 - np.abs(coins - guesses)))


def threshold(games: int, rate: float, alarm: float) -> int:
    """Smallest count of games won that a rate reaches with a probability below `alarm`."""
    return int(stats.binom.isf(alarm, games, rate)) + 1


def power(games: int, rate: float, alarm: float, true_rate: float) -> float:
    """Probability that an attack of this rate of success reaches the threshold."""
    return float(stats.binom.sf(threshold(games, rate, alarm) - 1, games, true_rate))
