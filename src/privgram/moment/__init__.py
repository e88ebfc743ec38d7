"""Second moments of tables and of their groups: exact, mergeable, secret."""

from privgram.moment.second_moment import SecondMoment

__all__ = ["SecondMoment"]
