"""The version, for files that say what wrote them."""

__version__ = "1.0.0rc1"
