"""Tables of what is asked and said, a line each, in files beside the tests."""

from pathlib import Path


def lines(test, name, kind):
    """The cells of a kind's lines, which tabs part, in the file of this name beside a test."""
    rows = (line.split("\t") for line in Path(test).with_name(name).read_text().splitlines())
    return [tuple(cells) for first, *cells in rows if first == kind]
