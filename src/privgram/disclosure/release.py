"""From a table, or its second moment, to a release: the one place where a budget is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from privgram import privacy
from privgram._base.files import check_room
from privgram._base.options import function_takes
from privgram._base.saved import save_paid
from privgram._base.text import warn
from privgram.adaptive.rounds import names_of
from privgram.columns.groups import Groups
from privgram.columns.structure import zeros
from privgram.disclosure import samplers
from privgram.disclosure.request import (
    BYTES_OF_ENTRY,
    PricedRelease,
    ReleaseOptions,
    ReleaseRequest,
    TableRelease,
)
from privgram.mechanisms import AdaptiveGaussian, AnalyzeGauss, Mechanism, taken
from privgram.moment.grouped import SecondMoments
from privgram.moment.second_moment import SecondMoment
from privgram.privacy.guarantee import Guarantee
from privgram.releases.groups import Releases
from privgram.releases.release import Release
from privgram.scan.executor import accumulate, total_of
from privgram.scan.request import ScanRequest
from privgram.secret import generators
from privgram.secret.gate import Gate
from privgram.sources.table import CachedSource, TableSource

if TYPE_CHECKING:
    import numpy as np

    from privgram.columns import Columns
    from privgram.disclosure.norm_bound import NormCounts
    from privgram.mechanisms.norm_bound import ChosenBound

#: What is made of a release, and has its `save`: the release itself, or a fit.
Answer = TypeVar("Answer", bound=Any)

#: Above these there is a warning: e^20 is half a billion, and nobody's row should leak as often
#: as once in a hundred releases.
LARGE_EPSILON, LARGE_DELTA = 20.0, 1e-2


@overload
def release(
    source: TableSource,
    columns: Columns | Mapping[str, Any] | Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    by: None = None,
    **options: Any,
) -> Release: ...
@overload
def release(
    source: TableSource,
    columns: Columns | Mapping[str, Any] | Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    by: Groups | str,
    **options: Any,
) -> Releases: ...
@function_takes(TableRelease)  # type: ignore[misc]
def release(request: TableRelease) -> Release | Releases:
    """Release the second moment of a table, or of each of its groups, under differential privacy.

    Returns
    -------
    Release, or Releases of groups

    Raises
    ------
    TypeError
        If epsilon or delta is missing, or a parameter is not of its type.
    ValueError
        If there is no mechanism of that name, a guarantee cannot be met or paid for, or as in
        `second_moment`. Nothing is spent then.
    OSError
        If the table cannot be read, or the ledger or `out` written. What the choice of a
        `PrivateBound` has cost by then, and which it is, is a note of the error.

    Warns
    -----
    UserWarning
        If epsilon is above 20, or delta above 0.01 or one in the public number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> table = np.random.default_rng(0).uniform(0, 1, (10_000, 2))
    >>> columns = pg.Columns({"x": (0, 1), "y": (0, 1)}, intercept=True)
    >>> release = pg.release(table, columns, epsilon=1.0, delta=1e-6)
    >>> release.method, release.reason
    ('one round', 'the first one showed that others gain nothing')
    """
    example = "release(table, epsilon=1.0, delta=1e-6)"
    guarantee = Guarantee.of(request.epsilon, request.delta, request.adjacency, example)
    asked = {each.name: getattr(request, each.name) for each in fields(ReleaseOptions)}
    return release_for(ReleaseRequest(request.source, guarantee, request.columns, **asked))


@overload
def release_for(
    request: ReleaseRequest, *, gate: Gate | None = None, share: float = 1.0
) -> Release | Releases: ...
@overload
def release_for(
    request: ReleaseRequest,
    answer: Callable[[Any], Answer],
    *,
    gate: Gate | None = None,
    share: float = 1.0,
) -> Answer: ...
def release_for(
    request: ReleaseRequest,
    answer: Callable[[Any], Any] = lambda release: release,
    *,
    gate: Gate | None = None,
    share: float = 1.0,
) -> Any:
    """Release what is asked for, as `release`; nothing is spent before all of it can be.

    What the `answer` makes of the release is saved in its place. By a gate that is handed on it is
    for a share of its budget, which the request's guarantee is of; who opened it has warned.
    """
    noise = generators.resolve(request.rng)  # which refuses what is no generator
    scan, choice = _bounded(request)
    with _telling(choice):
        return _released(request, scan, choice, noise, answer, gate, share)


def _released(
    request: ReleaseRequest,
    scan: ScanRequest | None,
    choice: ChosenBound | None,
    noise: tuple[np.random.Generator, bool],
    answer: Callable[[Any], Any],
    gate: Gate | None,
    share: float,
) -> Any:
    """Release by a bound that is settled."""
    moment, reader = _read(request, scan)
    priced = request.priced(moment, choice)
    matrices = moment.values() if isinstance(moment, SecondMoments) else [moment]
    # Once more, after the pass, for what is spent now.
    n_zeros = matrices[0].n_known_zeros
    _check_room(request, priced.mechanism, len(matrices), moment.n_columns, n_zeros)
    generator, reproducible = noise
    if gate is None and not reproducible:  # those are experiments, and are marked as not private
        warn_of_weak(priced.noise, priced.n_rows, paid=choice is not None)
    if gate is None:
        gate = Gate(priced.noise, generator, reader, ledger=request.ledger, price=priced.price)
    else:
        gate = gate.on(reader)
    drawn: Releases | Release
    if isinstance(moment, SecondMoments):
        each = [_draw(priced, one, gate, reproducible, i) for i, one in enumerate(moment.values())]
        drawn = Releases(moment.groups, each, priced.n_rows)
    else:
        drawn = _draw(priced, moment, gate, reproducible, share=share)
        if request.reason:
            method = taken(drawn.parameters, request.reason)
            drawn = replace(drawn, parameters=drawn.parameters | method)
    made = answer(drawn)
    if request.path is not None:
        save_paid(made.save, request.path)
    return made


def _bounded(request: ReleaseRequest) -> tuple[ScanRequest | None, ChosenBound | None]:
    """How the table is read, by a bound that it chose where that is asked for, and the choice.

    The choice is paid for here, after all that can be refused before the table is summed.
    """
    scan, choice = request.scan, request.choice
    if choice is None:
        return scan, None
    assert scan is not None
    counts = choice.count()
    _check_same(scan, counts)
    if scan.scaling is None:  # else it was checked before the pass
        if isinstance(scan.source, CachedSource):  # on a cluster there are no names yet
            request.check_names(names_of(counts))
        request.check_price(counts.n_columns, choice.grid[0])
    blocks = () if scan.scaling is None else zeros(scan.scaling.layout)
    n_zeros = sum(math.comb(len(block), 2) for block in blocks)
    n_groups = 1 if scan.groups is None else len(scan.groups)
    _check_room(request, request.planned, n_groups, counts.n_columns, n_zeros)
    chosen = choice.draw(counts, request.rng, request.ledger)
    if scan.unit is None:
        return replace(scan, bound=chosen.bound), chosen
    return replace(scan, unit=scan.unit.bounded(chosen.bound)), chosen


@contextmanager
def _telling(choice: ChosenBound | None) -> Iterator[None]:
    """Have an error say of a bound's choice that it is paid for, and what it is."""
    try:
        yield
    except Exception as error:
        if choice is not None:
            error.add_note(
                f"epsilon={choice.price.epsilon:g} is spent on the choice of the bound, which is "
                f"{choice.bound!r}: with that as the bound the release costs its own epsilon alone"
            )
        raise


def _read(
    request: ReleaseRequest, scan: ScanRequest | None
) -> tuple[SecondMoment | SecondMoments, Any]:
    """The second moment of a table or of its groups, and what reads it again."""
    if isinstance(request.source, SecondMoment | SecondMoments):
        return request.source, None
    assert scan is not None
    total = total_of(scan)
    if not request.rereads:
        return total, None
    _check_same(scan, total)
    return total, lambda new: accumulate(scan, new)[0]


def _check_room(
    request: ReleaseRequest, mechanism: Mechanism, n_matrices: int, n_columns: int, n_zeros: int
) -> None:
    """See that there is room for what is saved of matrices, with so many zeros in a triangle."""
    if request.path is not None:
        # Known zeros, which Gaussian noise leaves, are not saved.
        gaussian = isinstance(mechanism, AnalyzeGauss | AdaptiveGaussian)
        entries = n_matrices * (n_columns**2 - (2 * n_zeros if gaussian else 0))
        check_room(request.path, entries * BYTES_OF_ENTRY[request.path.suffix])


def _check_same(scan: ScanRequest, read: SecondMoment | SecondMoments | NormCounts) -> None:
    """See that a table that is read again can be."""
    if isinstance(scan.source, CachedSource):
        scan.source.check_again(read.n_rows + read.n_dropped)


def _draw(
    priced: PricedRelease,
    moment: SecondMoment,
    gate: Gate,
    reproducible: bool,
    part: int | None = None,
    share: float = 1.0,
) -> Release:
    """Release one second moment."""
    mechanism, noise = priced.mechanism, priced.noise
    sample = samplers.sample_release(mechanism, moment, noise, gate, part, share)
    release = Release(
        matrix=sample.matrix,
        names=names_of(moment),
        mechanism=mechanism,
        parameters={**noise.parameters, **sample.parameters},
        noise=sample.law,
        epsilon=noise.epsilon,
        delta=mechanism.reached(noise),
        adjacency=noise.adjacency,
        privacy=noise.privacy,
        bound=float(moment.bound),
        n_rows=priced.n_rows if priced.groups is None and noise.unit is None else None,
        columns=moment.columns,
        sketch=sample.sketch,
        reproducible=reproducible,
        condition=mechanism.condition,
        privacy_unit=noise.unit,
        n_units=None if noise.unit is None else priced.n_rows,
    )
    return release if priced.choice is None else _with_choice(release, priced.choice)


def _with_choice(release: Release, choice: ChosenBound) -> Release:
    """Count in what the choice of the bound cost."""
    price = choice.price
    # A profile composes with the choice if it is the same whatever is chosen.
    stated = privacy.StatedProfile(release.epsilon, release.delta)
    profile = release.privacy if release.mechanism.scale_free else stated
    chosen = {name: getattr(choice, name) for name in ("quantile", "lower", "upper")}
    chosen["epsilon"] = price.epsilon
    return replace(
        release,
        epsilon=release.epsilon + price.epsilon,
        privacy=privacy.compose([profile, price.privacy]),
        parameters=release.parameters | {f"bound_{name}": x for name, x in chosen.items()},
        reproducible=release.reproducible or choice.reproducible,
    )


def warn_of_weak(guarantee: Guarantee, n_rows: int | None, paid: bool = False) -> None:
    """Say what a guarantee means that protects hardly anyone; `n_rows` only if it is public.

    Before anything is spent, or after a part of it was (`paid`).
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if epsilon > LARGE_EPSILON:
        warn(
            f"epsilon={epsilon:g} protects hardly anyone: a release may be e^{epsilon:g} times as "
            "likely with somebody's row as with another. About 1 is common, and above 10 little "
            "is left",
            paid=paid,
        )
    if delta > LARGE_DELTA or (n_rows and delta > 1 / n_rows):
        warn(
            f"delta={delta:g} promises little: with that probability the guarantee may fail "
            "altogether, and from 1 / rows on it allows publishing somebody's row as it is. Take "
            "it far below",
            paid=paid,
        )
