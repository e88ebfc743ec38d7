"""Releases of a table that grows: all periods at the price of about two."""

from privgram.stream.running import Stream
from privgram.stream.state import WrongKey

__all__ = ["Stream", "WrongKey"]
