"""How adaptive rounds follow each other: what each is worth, and what it decides of the next."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.text import warn
from privgram.adaptive import whitening
from privgram.adaptive.radius import (
    bin_edges,
    choose_radius,
    counts_sensitivity,
    cumulative_std,
    tail_power,
)
from privgram.adaptive.rules import ADAPTIVE, SHARE_ROUNDING, UnreadError
from privgram.columns.structure import relations, ties, zeros
from privgram.columns.terms import INTERCEPT
from privgram.noise import (
    GaussianLaw,
    MaskedLaw,
    NoiseLaw,
    TiedLaw,
    combine,
    imposed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram._base.saved import JsonObject
    from privgram.adaptive.radius import RadiusChoice
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.columns import Columns
    from privgram.mechanisms.adaptive import AdaptiveGaussian, AdaptiveGaussianCalibration


# What a round in a frame is worth beside one round: predicted errors of coefficients.
#
# By what was released and what is public alone. Noise of both kinds is drawn with a fixed seed, and
# what it does to every coefficient compared: that of one round after what is known of the second
# moment was imposed, as a release of one round imposes it. A release in a frame imposes what is
# known of factors that are apart.

#: Numbers that are drawn: the logarithm of a ratio is known to a few percent.
_DRAWN = 1 << 11
#: Columns of a kind that are looked at, at most; of more, some at equal distances.
_LOOKED_AT = 64


class Gains:
    """How much less noise a round in a frame has than a single one, by the kind of columns.

    With K the inverse of the second moment as the frame has it, on what its exact equations leave
    of the columns, noise N moves the coefficient of column j in the regression of column k by
    (K N K)_jk, times what depends on j and k alone. A gain is the ratio of geometric means over
    the columns j of one piece, a factor's levels or all single numbers, and single numbers k.
    """

    def __init__(
        self, transform: WhiteningTransform, columns: Columns | None, bound: float
    ) -> None:
        d = len(transform.matrix)
        groups = [_spaced(group) for group in _groups(columns, d)]
        back, within = transform.inverse, transform.known(1.0, columns)
        looked_at = np.unique(np.concatenate(groups))
        rows = _inverse_rows(transform, back, columns, looked_at)
        draws = max(1, _DRAWN // d**2)
        law = known_of(GaussianLaw.isotropic(1.0), columns)
        one, other = _noise(d, draws, (law, within))
        sizes = [
            np.log(np.abs(across @ noise @ across.T) + 1e-300)
            for noise, across in ((one, rows), (other, rows @ back))
        ]
        ratio = sizes[0] - sizes[1]
        places = [np.searchsorted(looked_at, group) for group in groups]
        sums = np.zeros(len(groups))
        for i, group in enumerate(places):
            first, second = np.nonzero(group[:, None] != places[0])
            if len(first):
                pairs = np.ascontiguousarray(ratio[:, group[first], places[0][second]])
                sums[i] = pairs.mean(axis=1).cumsum()[-1]
        self._each = bound**2 * np.exp(sums / draws)

    def are(self, square: float, needed: float) -> bool:
        """Whether the gain is so much over all kinds, and nothing is lost for any of them.

        The noise is that of rows cut at |z|^2 = square.
        """
        each = self._each / square
        return bool(np.exp(np.log(each).mean()) >= needed and each.min() >= 1)


def known_of(law: GaussianLaw, columns: Columns | None) -> GaussianLaw | MaskedLaw | TiedLaw:
    """The law of a release that is projected on what the description of its columns says."""
    return law if columns is None else imposed(law, zeros(columns.layout), ties(columns.layout))


def _noise(d: int, draws: int, laws: Sequence[NoiseLaw]) -> Iterator[Matrix]:
    """Symmetric noise of deviation 1 with a fixed seed, (draws, d, d), projected as laws are."""
    m = d * (d - 1) // 2
    drawn = np.random.default_rng(0).standard_normal((draws, 2, m + d)).swapaxes(0, 1)
    for of_law, law in zip(drawn, laws, strict=True):
        noise, first = np.zeros((draws, d, d)), np.arange(1, d + 1)
        for block in getattr(law, "known_zeros", ()):
            if block[-1] - block[0] + 1 == len(block):
                first[block[0] : block[-1]] = block[-1] + 1  # where zeros stay
        for row, at in enumerate(first.tolist()):
            stop = (row + 1) * (2 * d - row - 2) // 2
            noise[:, row, at:] = noise[:, at:, row] = of_law[:, stop - d + at : stop]
        noise[:, np.arange(d), np.arange(d)] = math.sqrt(2.0) * of_law[:, m:]
        if isinstance(law, MaskedLaw | TiedLaw):
            for one in noise:
                one[:] = law.project(one)
        yield noise


def _groups(columns: Columns | None, size: int) -> list[NDArray[np.intp]]:
    """Places of single numbers, then of each piece with levels."""
    if columns is None or columns.layout.size != size:
        return [np.arange(size)]
    stored = columns.layout.stored
    numbers = [one.start for one in stored if one.size == 1 and one.piece.powers]
    levels = [np.arange(one.start, one.start + one.size) for one in stored if one.size > 1]
    return [np.array(numbers), *levels] if len(numbers) else [np.arange(size)]


def _spaced(places: NDArray[np.intp]) -> NDArray[np.intp]:
    """The places, or some of many, at equal distances."""
    return places[:: -(-len(places) // _LOOKED_AT)]


def _inverse_rows(
    transform: WhiteningTransform, back: Matrix, columns: Columns | None, at: NDArray[np.intp]
) -> Matrix:
    """Rows of the inverse of a frame's second moment on what its columns' equations leave."""
    d = len(back)
    known = [] if columns is None or columns.layout.size != d else relations(columns.layout)
    if not known and transform.second is None:
        return np.asarray(transform.matrix[:, at].T @ transform.matrix)
    from scipy.sparse import csr_array  # which takes longer to import than a short release

    second = np.eye(d) if transform.second is None else transform.second
    each = second.diagonal()
    if not known and np.count_nonzero(second) == d:  # of one factor
        return np.asarray(transform.matrix[:, at].T @ (transform.matrix / each[:, None]))
    sparse = csr_array(back)  # a frame with factors apart mixes the numbers alone
    moment = sparse @ (sparse @ second).T
    if not known:
        return np.asarray(np.linalg.solve(moment, np.eye(d)[:, at]).T)
    equations = np.zeros((len(known), d))
    for row, relation in zip(equations, known, strict=True):
        row[list(relation)] = list(relation.values())
    _, sizes, directions = np.linalg.svd(equations)
    free = directions[int((sizes > 1e-9 * sizes[0]).sum()) :].T
    rows: Matrix = free[at] @ np.linalg.inv(free.T @ moment @ free) @ free.T
    return rows


# The rounds. Nothing of the table is used here but what was released.
# `privgram.disclosure.samplers` goes through them on secret tables; `privgram.planning` goes
# through the same rounds on made ones.


class AdaptiveRounds(ABC):
    """Rounds over one table, and what is recorded of them.

    The second moment has its `n_columns`, `names`, `columns` and `bound`; `again` says whether the
    table can be read again.
    """

    def __init__(self, moment: Any, noise: AdaptiveGaussianCalibration, again: bool) -> None:
        self.moment = moment
        self.noise = noise
        self.again = again
        self.std: list[float] = []  # noise off the diagonal of each round
        self.beyond_std = 0.0  # that of the last number of rows beyond a radius
        self.is_heavy = False  # whether longer rows become rare very slowly
        self.has_bare_zeros = False  # whether a round without a frame has no noise on known zeros
        names = ("round_mu", "round_radius", "round_noise_std", "counts_mu")
        #: What a release records of its rounds.
        self.parameters: JsonObject = {"rounds": 0} | {name: [] for name in names}

    @abstractmethod
    def take(self, moment: Any, share: float) -> Matrix:
        """Release a sum over rows with isotropic noise."""

    @abstractmethod
    def count(self, transform: WhiteningTransform, edges: Vector, share: float) -> Vector:
        """Release about how many rows have numbers longer than each edge."""

    @abstractmethod
    def number(self, share: float) -> float:
        """Release the number of rows, roughly."""

    @abstractmethod
    def mapped(self, transform: WhiteningTransform, radius: float) -> Any:
        """The exact second moment in a frame, of rows clipped to a radius there."""

    @property
    def n_rows(self) -> int | None:
        """The number of rows that count, if it is public: not if some may have been dropped."""
        columns = self.moment.columns
        return None if columns is not None and columns.missing == "drop" else self.noise.n_rows

    @property
    def has_many_zeros(self) -> bool:
        """Whether noise on all known zeros would take long."""
        return False

    def prepare(self, radius: float) -> None:  # noqa: B027 - not all need to be told
        """Be told that `mapped` may follow `count`: one pass can do both."""

    def mu(self, share: float) -> float:
        """The ratio of sensitivity to noise that a share of the budget is."""
        return self.noise.mu * math.sqrt(share) * (1 - SHARE_ROUNDING)

    @property
    def left(self) -> float:
        """The share of the budget that no round has taken yet, by the record of them."""
        taken = self.parameters
        ratios = [*taken["round_mu"], *taken["counts_mu"], taken.get("number_mu", 0)]
        return float(1 - sum(mu**2 for mu in ratios) / self.mu(1.0) ** 2)

    def std_at(self, radius: float, share: float) -> float:
        """Noise off the diagonal for rows up to a radius."""
        return self.noise.std(radius, self.mu(share)) / math.sqrt(2.0)

    def once(self, first: Matrix, left: float) -> tuple[Matrix, NoiseLaw]:
        """Spend what is left on another round without a frame, and average it with the first."""
        rest = self.take(self.moment, left)
        whole = ADAPTIVE.first + left
        rest *= left
        rest += ADAPTIVE.first * first
        law = replace(self.noise, noise_std=self.noise.noise_std / math.sqrt(whole)).law
        return rest / whole, law

    def ranked_std(self, n_bins: int, share: float) -> float:
        """Noise of weighted counts of lengths."""
        return counts_sensitivity(n_bins, self.noise.adjacency) / self.mu(share)

    def choose(self, transform: WhiteningTransform, share: float, left: float) -> RadiusChoice:
        """The radius of a round in a frame, by released counts; `left` is the round's share."""
        first, largest = transform.typical, transform.largest(float(self.moment.bound))
        edges = np.sqrt(
            bin_edges(first - transform.constant, largest - transform.constant, ADAPTIVE.per_octave)
        )
        most = ADAPTIVE.beyond * self.std_at(1.0, left)
        self.beyond_std = float(cumulative_std(len(edges), self.ranked_std(len(edges), share))[0])
        most = max(most, ADAPTIVE.seen * self.beyond_std)
        beyond = self.count(transform, edges, share)
        choice = choose_radius(edges, beyond, most)
        square = choice.size**2
        self.is_heavy = tail_power(edges**2, beyond, square / 2, square, most) < ADAPTIVE.told
        return replace(choice, size=math.sqrt(choice.size**2 + transform.constant))


def names_of(moment: Any) -> tuple[str, ...]:
    """Names of the columns as a release has them: x0, x1, ... where they have none."""
    return tuple(moment.names or (f"x{i}" for i in range(moment.n_columns)))


def run_rounds(mechanism: AdaptiveGaussian, rounds: AdaptiveRounds) -> tuple[Matrix, NoiseLaw]:
    """Let each round's release decide the next: nothing else of the table is used here."""
    moment = rounds.moment
    if not rounds.again:
        released = rounds.take(moment, 1.0)
        return released, rounds.noise.law
    target = -1 if mechanism.target is None else names_of(moment).index(mechanism.target)
    plain = whitening.plain_transform(moment.columns, moment.n_columns, float(moment.bound), target)
    # Where factors are apart, what is known of them is imposed on the first round.
    rounds.has_bare_zeros = bool(plain.levels) and rounds.has_many_zeros
    first = rounds.take(moment, ADAPTIVE.first)
    try:
        return _further_rounds(mechanism, rounds, first, plain, target)
    except UnreadError as error:
        warn(
            f"the table could not be read again ({error}), so the release is of what the first "
            "reading of it gave, without further rounds. Nothing of the budget is lost",
            paid=True,
        )
        rounds.parameters["unread"] = True
        return rounds.once(first, rounds.left)


def _further_rounds(
    mechanism: AdaptiveGaussian,
    rounds: AdaptiveRounds,
    first: Matrix,
    plain: WhiteningTransform,
    target: int,
) -> tuple[Matrix, NoiseLaw]:
    moment, bound = rounds.moment, float(rounds.moment.bound)
    left = 1 - ADAPTIVE.first
    names = names_of(moment)
    if INTERCEPT in names:
        at = names.index(INTERCEPT)
        rows = float(first[at, at])
    elif (counted := rounds.n_rows) is not None:
        rows = float(counted)
    else:
        rows = rounds.number(ADAPTIVE.number)
        left -= ADAPTIVE.number
    rows = max(rows, 1.0)
    number = mechanism.rounds_worth(rounds.noise.mu * rows / math.sqrt(moment.n_columns))
    if number == 1:
        return rounds.once(first, left)
    transform = whitening.whiten(_with_known(plain, first, rounds), rounds.std[-1], rows, plain)
    if transform.longer:  # few levels, one of them rare: its rows alone need be long
        if rounds.has_bare_zeros:  # what is combined in a frame has noise everywhere
            return rounds.once(first, left)
        transform = whitening.whiten(first, rounds.std[-1], rows)
    gains = Gains(transform, moment.columns, bound)
    if not gains.are(transform.reach(ADAPTIVE.uncounted), ADAPTIVE.gain):
        return rounds.once(first, left)
    for enough in ADAPTIVE.clear_enough[: number - 2]:
        radius = math.sqrt(min(transform.reach(ADAPTIVE.reach), transform.largest(bound)))
        noise = rounds.std_at(radius, ADAPTIVE.middle)
        if transform.clear >= enough or not transform.teaches(noise, rows):
            break
        left -= ADAPTIVE.trial
        needed = ADAPTIVE.gain if transform.clear >= 1 else ADAPTIVE.gain_if_hidden
        rounds.prepare(radius)
        if not gains.are(rounds.choose(transform, ADAPTIVE.trial, left).size ** 2, needed):
            return rounds.once(first, left)
        left -= ADAPTIVE.middle
        middle = rounds.take(rounds.mapped(transform, radius), ADAPTIVE.middle)
        transform = whitening.whiten(
            _with_known(transform, middle, rounds), rounds.std[-1], rows, transform
        )
        gains = Gains(transform, moment.columns, bound)
    if target >= 0:
        transform = transform.towards(target)
    expected = rounds.std_at(math.sqrt(transform.reach(ADAPTIVE.reach)), left)
    share = ADAPTIVE.counts_if_noisy if expected > math.sqrt(rows) else ADAPTIVE.counts
    left -= share
    choice = rounds.choose(transform, share, left)
    drowned = rounds.std_at(choice.size, left) > transform.loudest(rows)
    if drowned or not gains.are(choice.size**2, ADAPTIVE.gain_of_last):
        return rounds.once(first, left)
    last = rounds.take(rounds.mapped(transform, choice.size), left)
    released, law = _together(transform, first, last, rounds)
    rounds.parameters |= {
        "clipped_rows": choice.beyond,
        "clipped_rows_std": rounds.beyond_std,
        "clipping_bias": ADAPTIVE.allowance * rounds.std[-1] / math.sqrt(rows),
    }
    if rounds.is_heavy:
        rounds.parameters["heavy_tail"] = True
    return (released + released.T) / 2, law


def _with_known(transform: WhiteningTransform, released: Matrix, rounds: AdaptiveRounds) -> Matrix:
    """A round's release after what is known of factors that are apart was imposed."""
    law = transform.known(rounds.std[-1], rounds.moment.columns)
    return released if isinstance(law, GaussianLaw) else law.project(released)


def _together(
    transform: WhiteningTransform, first: Matrix, last: Matrix, rounds: AdaptiveRounds
) -> tuple[Matrix, NoiseLaw]:
    """What all rounds release, in the columns, and its law, with what clipping may have moved.

    Where factors are apart, the first round's noise is not independent in the frame: the last
    round's release is all.
    """
    back, std = transform.inverse, math.hypot(1.0, ADAPTIVE.allowance) * rounds.std[-1]
    if transform.levels:
        law, numbers = transform.known(std, rounds.moment.columns), transform.numbers
        # Of levels the frame is diagonal.
        each, whole = back.diagonal(), _with_known(transform, last, rounds)
        left = each[:, None] * whole
        left[numbers] = back[numbers] @ whole
        released = left * each
        released[:, numbers] = left @ back[numbers].T
        return released, law.image(back)
    before = GaussianLaw.isotropic(rounds.std[0]).image(transform.matrix)
    weights, combined = combine([before, GaussianLaw.isotropic(std)], len(first))
    whole = weights[0] * (transform.matrix @ first @ transform.matrix.T) + weights[1] * last
    return back @ whole @ back.T, combined.image(back)
