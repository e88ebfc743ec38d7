"""Releases of a table that grows: all periods at the price of about two.

Of its file, all but the releases is secret.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import check_distinct, check_room, locked, open_locked
from privgram._base.numbers import check_budget, check_integer
from privgram._base.saved import JsonObject, save_paid
from privgram.columns.unit import PrivateBound
from privgram.disclosure.repairs import impose
from privgram.mechanisms import AnalyzeGauss
from privgram.moment import SecondMoment
from privgram.moment.units import no_rows
from privgram.noise import GaussianLaw
from privgram.regression.difference import change
from privgram.releases.record import RELEASE_FORMAT
from privgram.releases.release import Release
from privgram.scan.executor import second_moment
from privgram.scan.progress import Progress
from privgram.secret import generators
from privgram.secret.gate import Gate
from privgram.stream.factors import FACTOR_PLACES, MOST_PERIODS
from privgram.stream.state import (
    Period,
    StreamState,
    StreamTerms,
    WrongKey,
    create_key,
    read_key,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.mechanisms.additive import GaussCalibration
    from privgram.regression.hypothesis import Contrasts
    from privgram.study import Study

__all__ = ["Stream", "WrongKey"]

#: Units of the second moment that noise may have: draws of it have at most 2^90 steps.
MOST_NOISE_UNITS = 2.0 ** (85 - FACTOR_PLACES)

# Secret side: noise meets the exact second moments of the periods here, which are kept for those
# after them.


class Stream:
    """Second moments of a table that grows by a period at a time, all at one price.

    Each period is read once. What is published of it, and of all before it, has the noise of at
    most about two releases, and together they are one release: one Gaussian mechanism, and one
    entry of the ledger, made at the start [1]_, [2]_.

    Parameters
    ----------
    study : Study
        Columns, who is protected, neighbours and the budget. Its table is not read.
    periods : int, optional
        How many there will be, up to 4096. None where nobody knows: then the first twelve are
        followed by as many more, and these by as many as all before. That costs no privacy, since
        every person is of one period, but more noise: see `noise`.
    epsilon, delta : float, optional
        The guarantee of all that the stream publishes. Needed to begin one.
    path : path-like
        File of the stream, made if it does not exist. It holds the exact sums, encrypted, and is
        for the holder of the table alone. The study's ledger has its periods: a copy that goes on
        by itself, or an older one in its place, is refused.
    key : path-like, optional
        File of its key, made with it; by default `path` with ".key" at its end. Keep it apart from
        the file: who has both has the exact sums of what was published.
    months : int
        In how many periods a person may have rows, where a `unit` is protected: a promise, which
        the releases carry, unless it is all of them. Rows are of one period.
    apart : int
        Least distance between two of them, a promise too: 12 where everybody has one month a year.

    Raises
    ------
    ValueError
        If a parameter is out of its range, the budget has no room, or the file is of another study,
        of other parameters, under another key (`WrongKey`) or not the latest that the ledger knows.
        Nothing is spent then.
    OSError
        If the file, the key or the ledger cannot be read or written.
    ImportError
        Without the extra `stream`.

    Notes
    -----
    With months X and A the triangle of ones, A X + B W is published, where A = B C. The columns of
    C have length 1, so that C X + W is one Gaussian mechanism, whatever is published meanwhile
    decides about later periods (docs/theory/streams.md). C is of whole numbers, in 2^-20, and W is
    drawn a period at a time, as `AnalyzeGauss` draws its noise.

    References
    ----------
    .. [1] S. Denisov et al., "Improved differential privacy for SGD via optimal private linear
       operators on adaptive streams", NeurIPS 2022, Theorem 2.1.
    .. [2] N. P. Kalinin, J. Upadhyay, C. H. Lampert, "Continual release moment estimation with
       differential privacy", 2025, arXiv 2502.06597.

    Examples
    --------
    >>> stream = pg.Stream(study, 60, 1.0, 1e-6, path="registry.stream")  # doctest: +SKIP
    >>> stream.release(january).regress("cost ~ age + region").summary()  # doctest: +SKIP
    """

    def __init__(
        self,
        study: Study,
        periods: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        path: str | os.PathLike[str],
        key: str | os.PathLike[str] | None = None,
        months: int = 1,
        apart: int = 1,
    ) -> None:
        self.study = study
        unit = study.unit
        chosen = unit is not None and isinstance(unit.bound, PrivateBound | None)
        if unit is not None and unit.max_rows is None and chosen:
            raise ValueError(
                "the bound of a unit cannot be chosen by a table, of which more is to come: "
                f"unit=pg.Unit({unit.name!r}, max_rows=...) for units of about so many rows"
            )
        self._nothing = no_rows(study.columns, unit)
        self.path = Path(path).absolute()
        beside = self.path.with_name(self.path.name + ".key")
        self.key = beside if key is None else Path(key).absolute()
        check_distinct({}, {"path": self.path, "key": self.key, "ledger": study.ledger.path})
        protected = self._nothing.privacy_unit
        terms: JsonObject = {
            "epsilon": epsilon,
            "delta": delta,
            "adjacency": study.adjacency,
            "periods": periods,
            "months": months,
            "apart": apart,
            "columns": study.columns.to_dict(),
            "n_columns": len(study.columns),
            "bound": float(self._nothing.bound),
            "unit": None if protected is None else protected.to_dict(),
        }
        self._adopt(self._opened(terms) if self.path.exists() else self._begun(terms))
        self._read()

    def _begun(self, wanted: JsonObject) -> StreamTerms:
        """The terms of a new stream, of which there is a file now."""
        if wanted["epsilon"] is None or wanted["delta"] is None:
            raise TypeError("a new stream needs epsilon and delta, the guarantee of all of it")
        epsilon, delta = check_budget(wanted["epsilon"], wanted["delta"])
        periods = wanted["periods"]
        if periods is not None:
            periods = check_integer(periods, "periods", 1, MOST_PERIODS)
        months, apart = (check_integer(wanted[name], name, 1) for name in ("months", "apart"))
        if self.study.unit is None and months > 1:
            raise ValueError(
                "a row is of one period: months is for a unit, such as Study(..., unit='person')"
            )
        if periods is None and months > 1:
            raise ValueError(
                "where nobody knows how many periods there will be, a person is of one: say "
                "periods, or leave months out"
            )
        checked = {"epsilon": epsilon, "delta": delta, "periods": periods}
        terms = StreamTerms(
            **wanted | checked | {"months": months, "apart": apart}, id=secrets.token_hex(16)
        )
        self.study.ledger.check(self._calibrate(terms).price)
        check_room(self.path, size=16 * terms.n_columns**2)
        key = read_key(self.key) if self.key.exists() else create_key(self.key)
        # The file first: if this process dies before the ledger has the price, who opens the
        # stream next pays it, and nothing was published.
        StreamState(terms).create(self.path, key)
        return terms

    def _opened(self, wanted: JsonObject) -> StreamTerms:
        """The terms of the stream that is there; what is as by default may be otherwise."""
        terms = StreamState.read(self.path, read_key(self.key)).terms
        for name, value in wanted.items():
            by_default = value == {"months": 1, "apart": 1}.get(name) and name != "unit"
            if not by_default and getattr(terms, name) != value:
                raise ValueError(
                    f"{self.path.name} is a stream of other {name}: open it with the study that it "
                    "was begun with, and leave out what it knows; or begin another at another path"
                )
        return terms

    def _adopt(self, terms: StreamTerms) -> None:
        """Take the terms, and enter the price of all periods, once."""
        self._stream = terms
        self._noise = self._calibrate(terms)
        self._alone = self._calibrate(replace(terms, months=1))
        what = f"stream {self.path.name}"
        self._price = replace(self._noise.price, what=what, condition=terms.condition, id=terms.id)
        self._gate(terms).enter()

    def _gate(self, terms: StreamTerms) -> Gate:
        study, sums = self.study, terms.sums()
        return Gate(
            self._noise,
            generators.resolve(None)[0],
            ledger=study.ledger.entered_as("", study.columns.selected, study.identity),
            price=self._price,
            overlap=None if terms.months == 1 else sums.epochs[0].most_of,
        )

    def _calibrate(self, terms: StreamTerms) -> GaussCalibration:
        """Noise of the periods' own matrices: of one release of rows that move as far as C X."""
        # C X moves as many times as far as one second moment: noise is for what is added.
        bound = self._nothing.sensitivity_bound * math.sqrt(terms.sums().epochs[0].sensitivity)
        # One that takes another's place may be of another period, which is another direction.
        d = self._nothing.n_columns
        noise: GaussCalibration = replace(
            AnalyzeGauss().noise_for(terms.guarantee, max(d, 2), bound), n_columns=d
        )
        if noise.noise_std > MOST_NOISE_UNITS * self._nothing.resolution:
            raise ValueError(
                "the noise is too large for any useful release: epsilon or delta must be larger"
            )
        return noise

    @property
    def periods(self) -> int:
        """How many periods were published."""
        return len(self._read().past)

    def noise(self, period: int) -> float:
        """Noise of the sum of all up to a period, in that of one release with this guarantee."""
        period = check_integer(period, "period", 1, self._stream.periods)
        relative = self._noise.noise_std / self._alone.noise_std
        weights = self._stream.sums(period).between(0, period)
        return relative * float(np.linalg.norm(weights))

    def release(
        self,
        source: Any,
        period: int | None = None,
        *,
        threads: int | None = None,
        progress: Progress = False,
        out: str | os.PathLike[str] | None = None,
    ) -> Release:
        """Publish a further period: the second moment of all so far.

        Parameters
        ----------
        source : table or SecondMoment
            The rows of the period alone: whatever `Study` takes; or their second moment, of the
            same columns, bound and unit.
        period : int, optional
            Its number, from 1; by default the next one.
        threads, progress, out
            As in `privgram.release`.

        Returns
        -------
        Release
            Of all periods up to this one, as any other.

        Raises
        ------
        ValueError
            If the period is not the next one, the columns are others, or the period seems to be
            the one before once more. Nothing is published then. That last error tells something
            of the data, and is for the holder's eyes.
        OSError
            If the table cannot be read, or the stream's file written. Where that of the release
            cannot be, after the period was published, a `UserWarning` says so.
        """
        path = RELEASE_FORMAT.check_out(out, path=self.path, key=self.key)
        before = self._read()
        self._next(before, period)  # before the pass
        moment = self._moment(source, threads, progress)
        digest = _digest(moment)
        with self._held(before) as state:
            number = self._next(state, period)
            again = [i for i, period in enumerate(state.past, 1) if period.digest == digest]
            if again and period is None and moment.n_rows:
                raise ValueError(
                    f"this seems to be period {again[-1]} once more, and was not published again: "
                    f"its release is stream.upto({again[-1]}). If another period has the same "
                    f"sums, say which one it is: period={number} (on the command line, --period)"
                )
            made = self._published(state, number, moment, digest)
            # The file first: a period of a process that dies before the ledger has it is entered
            # by the next to open the stream, and was not shown meanwhile.
            state = state.append(self.path, read_key(self.key), made)
            self._enter(state)
        release = self._sum(state, 0, number)
        if path is not None:
            save_paid(release.save, path)
        return release

    def upto(self, period: int | None = None) -> Release:
        """The release of all periods up to one, by default the last, as it was published."""
        state = self._read()
        return self._sum(state, 0, _among(period, "period", state))

    def window(self, length: int = 1, last: int | None = None) -> Release:
        """Give the release of some periods that follow each other.

        Computed from what was published; it costs nothing.

        Parameters
        ----------
        length : int
            How many.
        last : int, optional
            The last of them, by default the last that was published.

        Returns
        -------
        Release
        """
        state = self._read()
        last = _among(last, "last", state)
        return self._sum(state, last - check_integer(length, "length", 1, last), last)

    def change(
        self, formula: str, length: int = 1, since: int | None = None, **options: Any
    ) -> Contrasts:
        """Tell how the coefficients of a regression changed.

        Parameters
        ----------
        formula : str
            As `Release.regress` takes it, and `options` too.
        length : int
            Periods in each of two windows, of which the second is the last that were published.
        since : int, optional
            Last period of the first window; by default the one before the second window.

        Returns
        -------
        Contrasts
            The last coefficients less the first, with standard errors and tests. They count that
            the two windows share noise.

        Raises
        ------
        RefusedError
            A ValueError: if one of the two regressions has no standard errors.
        ValueError
            If the windows overlap, or reach beyond what was published.
        """
        state = self._read()
        now = len(state.past)
        check_integer(length, "length", 1, now // 2 or 1)
        since = check_integer(now - length if since is None else since, "since", length)
        if since > now - length:
            raise ValueError(
                f"the windows overlap: the first may end with period {now - length} at the latest"
            )
        first, last = (self._sum(state, end - length, end) for end in (since, now))
        return change(last.regress(formula, **options), first.regress(formula, **options))

    def __repr__(self) -> str:
        terms = self._stream
        of = "an unknown number" if terms.periods is None else terms.periods
        return (
            f"<Stream {self.path.name!r} of {of} periods: "
            f"epsilon={terms.epsilon:g}, delta={terms.delta:g}, {terms.adjacency}>"
        )

    def _read(self) -> StreamState:
        with self._held() as state:
            return state

    @contextmanager
    def _held(self, known: StreamState | None = None) -> Iterator[StreamState]:
        """What file and ledger have of the stream, for this process and thread alone.

        By the lock of the key, which nothing replaces.
        """
        with open_locked(self.key, os.O_RDONLY) as handle, locked(handle):
            state = StreamState.read(self.path, read_key(self.key), known)
            if state.terms.id != self._stream.id:
                raise ValueError(f"{self.path.name} is another stream than the one that was opened")
            self._enter(state)
            yield state

    def _enter(self, state: StreamState) -> None:
        """Enter in the ledger what was published; refuse a file that is not the latest.

        A period whose noise is drawn twice shows the table. So what the file has must go on from
        what the ledger has: by one period at most, unless the ledger is new to the stream, and has
        just been charged for all of it.
        """
        ledger, stream = self.study.ledger, state.terms.id
        entered, marks = ledger.periods(stream), [period.mark for period in state.past]
        if len(entered) > len(marks):
            raise ValueError(
                f"{self.path.name} went back: {ledger.path.name} has {len(entered)} published "
                f"periods of this stream, and the file {len(marks)}. Put the latest file back: "
                "published again, a period would get other noise"
            )
        if entered and len(marks) > len(entered) + 1:
            raise ValueError(
                f"{ledger.path.name} went back: it has {len(entered)} published periods of this "
                f"stream, and {self.path.name} has {len(marks)}. Put the latest ledger back"
            )
        # Also what is there already: another copy of the stream has other digests.
        for number, mark in enumerate(marks, 1):
            if entered[number - 1 : number] != (mark,):
                ledger.enter_period(stream, number, mark)

    def _next(self, state: StreamState, period: int | None) -> int:
        number, limit = len(state.past) + 1, state.terms.periods
        if period is not None and check_integer(period, "period", 1) != number:
            was = "was published" if period < number else "is not the next one"
            hint = f": stream.upto({period}) is its release" if period < number else ""
            raise ValueError(f"period {period} {was}{hint}; the next period is {number}")
        if limit is not None and number > limit:
            raise ValueError(
                f"all {limit} periods of this stream were published: begin another one, and add "
                "their releases by pg.pool"
            )
        return number

    def _moment(self, source: object, threads: int | None, progress: Progress) -> SecondMoment:
        columns, unit = self.study.columns, self.study.unit
        if not isinstance(source, SecondMoment):
            return second_moment(
                source, columns=columns, unit=unit, threads=threads, progress=progress
            )
        alike = (*SecondMoment._alike, "sensitivity_bound", "of_group")
        if any(getattr(source, what) != getattr(self._nothing, what) for what in alike):
            raise ValueError(
                "this second moment has other columns, another bound or another unit than the "
                "study: pass the table, or make it by the study's"
            )
        return source

    def _published(
        self, state: StreamState, number: int, moment: SecondMoment, digest: bytes
    ) -> Period:
        """A further period: its noise is drawn, and meets the exact sum, here."""
        sums = state.terms.sums(number)
        gate, share = self._gate(state.terms), sums.epochs[0].sensitivity ** -2
        *before, weights = sums.factor(number)
        gate.resume(np.array(before), FACTOR_PLACES, share)
        exact = moment.triangle()
        adopted = [
            gate.adopt(self._nothing, part, totals)
            for part, totals in enumerate([*(period.exact for period in state.past), exact])
        ]
        mixed = gate.mix(adopted, weights.tolist(), FACTOR_PLACES)
        noisy = gate.release(mixed, share).values
        # Of units it is private: a unit that takes another's place may have other periods.
        public = self.study.unit is None and state.terms.adjacency == "replace"
        n_rows = moment.n_rows + moment.n_dropped if public else None
        return Period(n_rows, noisy[_above(len(noisy))], exact, digest)

    def _sum(self, state: StreamState, start: int, stop: int) -> Release:
        """What was published of the periods after `start`, up to `stop`."""
        terms, periods = state.terms, state.past[:stop]
        weights, d = terms.sums(stop).between(start, stop), terms.n_columns
        matrix = np.zeros((d, d))
        total = weights @ np.array([period.published for period in periods])
        matrix[_above(d)] = matrix.T[_above(d)] = total
        scale = float(np.linalg.norm(weights))
        law = self._noise.law
        matrix, known = impose(
            matrix, GaussianLaw(law.std * scale, law.std_diagonal * scale), self.study.columns
        )
        counts = [period.n_rows for period in periods[start:]]
        n = None if None in counts else sum(count for count in counts if count is not None)
        parameters = {
            "sigma": law.std_diagonal * scale,
            "noise_std_diagonal": law.std_diagonal * scale,
            "stream": terms.id,
            "periods": [start + 1, stop],
            "stream_std": law.std,
            "stream_weights": weights.tolist(),
        }
        return Release(
            matrix=matrix,
            names=self.study.columns.names,
            mechanism=AnalyzeGauss(),
            parameters=parameters,
            noise=known,
            epsilon=terms.epsilon,
            delta=terms.delta,
            adjacency=terms.adjacency,
            privacy=self._noise.privacy,
            bound=terms.bound,
            n_rows=n,
            columns=self.study.columns,
            condition=terms.condition,
            privacy_unit=self._nothing.privacy_unit,
        )


@lru_cache(maxsize=8)
def _above(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(d)


def _digest(moment: SecondMoment) -> bytes:
    """SHA-256 of an exact second moment."""
    high, low = moment.int128()
    counts = f"{moment.n_rows} {moment.n_dropped} ".encode()
    return hashlib.sha256(counts + high.tobytes() + low.tobytes()).digest()


def _among(period: int | None, name: str, state: StreamState) -> int:
    """A period that was published; the last by default."""
    last = len(state.past)
    if not last:
        raise ValueError("nothing was published yet: stream.release(table) publishes a period")
    return check_integer(last if period is None else period, name, 1, last)
