"""``privgram logistic``: a logistic regression of a study's table."""

from ._study import logistic as command

__all__ = ["command"]
