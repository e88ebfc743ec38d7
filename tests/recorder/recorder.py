"""A recorder of private runs: what met noise, under which parameters, and what came out.

A run is recorded on a table and replayed on a neighbour, where every primitive draws as before and
gives what it gave on the first table. What is then left of the neighbour is what a run takes from
data other than by its primitives: parameters of a later primitive, or what is published, that
differ. How far the inputs of primitives lie apart is compared with what the guarantee says. In the
manner of Re:cord-play (arXiv 2602.17454).
"""

from __future__ import annotations

import contextlib
import copy
import math
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from privgram.exact import discrete, int128, rounding
from privgram.secret import additive, gate


class Watched(np.random.Generator):
    """A generator that keeps a log of what is drawn from it, with all parameters."""

    def __new__(cls, seed):
        return super().__new__(cls)

    def __init__(self, seed):
        super().__init__(np.random.PCG64(seed))
        self.log = []

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name == "bit_generator":  # compiled code draws from it by itself
            super().__getattribute__("log").append((name, (), {}))
        elif callable(found) and not name.startswith("_"):
            log = super().__getattribute__("log")

            def call(*args, **kwargs):
                log.append((name, args, kwargs))
                return found(*args, **kwargs)

            return call
        return found


@dataclass(frozen=True)
class Primitive:
    """One meeting of data and noise.

    Attributes
    ----------
    kind : {"matrix", "sums", "wisharts", "choice"}
    exact : ndarray
        What is secret, in the noise's steps or in the units of what is released.
    released : ndarray of bool
        Which of it comes out.
    drawn : list
        What was drawn for it since the one before: names and parameters.
    noise : ndarray or None
        The draw, where it is added.
    output : object
    """

    kind: str
    exact: np.ndarray
    released: np.ndarray
    drawn: list
    noise: Any
    output: Any


class Violation(AssertionError):
    """A run that takes something from data other than by its primitives."""


class Recorder:
    """Records the primitives of a run, or replays those of another.

    Parameters
    ----------
    seed : int
        Of the noise.
    frozen : list of Primitive, optional
        Of the run to replay.
    """

    def __init__(self, seed, frozen=None):
        self.rng = Watched(seed)
        self.frozen = frozen
        self.primitives = []
        self._from = 0

    def meet(self, kind, exact, output, noise=None, released=None):
        """Enter a primitive; give what it gave when it was recorded."""
        drawn, self._from = self.rng.log[self._from :], len(self.rng.log)
        exact = np.asarray(exact)
        released = np.ones(exact.shape, bool) if released is None else released
        # A caller may go on in place with what it was given.
        new = Primitive(kind, exact, released, drawn, noise, copy.copy(output))
        number = len(self.primitives)
        self.primitives.append(new)
        if self.frozen is None:
            return output
        if number >= len(self.frozen):
            raise Violation(f"primitive {number} is drawn on the neighbour alone")
        old = self.frozen[number]
        if (new.kind, new.exact.shape) != (old.kind, old.exact.shape):
            raise Violation(f"primitive {number} is another one on the neighbour")
        if not same(new.drawn, old.drawn) or not same(new.noise, old.noise):
            raise Violation(f"parameters of primitive {number} are others on the neighbour")
        return copy.copy(old.output)

    @contextlib.contextmanager
    def watching(self):
        """Put the recorder where data and noise meet."""
        wisharts = rounding.add_wisharts
        gaussian, rounded_sum = discrete.gaussian, additive.rounded_sum
        rounded_matrix = additive.rounded_matrix
        choose = gate.exponential_mechanism

        def watched_gaussian(variance, size, rng):
            rng.log.append(("gaussian", (variance, size), {}))
            return gaussian(variance, size, rng)

        def watched_sum(total, noise, std, shift):
            made = rounded_sum(total, noise, std, shift)
            steps = int128.to_integers(total) << shift
            return self.meet("sums", steps, made, int128.to_integers(noise))

        def watched_matrix(total, drawn, std, shift):
            *above, diagonal = parts = list(drawn)
            made = rounded_matrix(total, iter(parts), std, shift)
            steps, noise = (np.zeros(made.shape, object) for _ in range(2))
            below, over = np.tril_indices(len(made)), np.triu_indices(len(made), 1)
            steps[below] = steps.T[below] = int128.to_integers(total) << shift
            above = [int128.to_integers(part) for part in above]
            noise[over] = noise.T[over] = np.concatenate([*above, np.zeros(0, object)])
            np.fill_diagonal(noise, int128.to_integers(diagonal))
            return self.meet("matrix", steps, made, noise)

        def watched_wisharts(exact, *parameters):
            made = wisharts(exact, *parameters)
            values = int128.to_integers(exact).astype(float)
            # The variates between hold as many digits as were needed: what was drawn tells them.
            return self.meet("wisharts", values, made, [parameters[0], parameters[-1]])

        def watched_choice(losses, rate, rng):
            return self.meet("choice", np.array(losses, object), choose(losses, rate, rng), rate)

        with contextlib.ExitStack() as stack:
            for where, name, new in (
                (discrete, "gaussian", watched_gaussian),
                (additive, "rounded_sum", watched_sum),
                (rounding, "add_wisharts", watched_wisharts),
                (additive, "rounded_matrix", watched_matrix),
                (gate, "exponential_mechanism", watched_choice),
            ):
                stack.enter_context(mock.patch.object(where, name, new))
            yield self


def same(one, other):
    """Whether two things are equal to the last bit, arrays and what holds them too."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other) and np.shape(one) == np.shape(other)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    return bool(one == other)


def moved(old, new):
    """How far two runs lie apart at one primitive, in deviations of its Gaussian noise, squared.

    Of the deviations that were drawn with, not of those that are stated.
    """
    scales = [math.sqrt(args[0]) for name, args, _ in old.drawn if name == "gaussian"]
    if old.kind == "sums":
        [scale] = scales
        return float((((new.exact - old.exact) / scale) ** 2).sum())
    difference = (new.exact - old.exact)[np.triu_indices(len(old.exact))]
    out = old.released[np.triu_indices(len(old.exact))]
    off = ~np.eye(len(old.exact), dtype=bool)[np.triu_indices(len(old.exact))]
    deviation = np.where(off, scales[0], scales[-1])  # of one number there is the diagonal alone
    return float(((difference[out] / deviation[out]) ** 2).sum())
