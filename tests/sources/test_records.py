"""A record is a row, whatever is in its cells and however the file is cut: by every source."""

import csv
import io
import re

import numpy as np
import pytest
from support.helpers import refuses

from privgram import Columns, second_moment
from privgram._core.arrow import scan
from privgram.sources import files as source

pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.csv")

COLUMNS = Columns({"age": (0, 100), "x": (-2, 2)}, missing="drop")


def int128_of(moment):
    return (moment.n_rows, moment.n_dropped, *(half.tolist() for half in moment.int128()))


def write(path, records, end="\r\n", bom=""):
    text = io.StringIO(newline="")
    # Where lines end in CR alone, the writer thinks that a newline needs no quotes.
    quoting = csv.QUOTE_ALL if end == "\r" else csv.QUOTE_MINIMAL
    csv.writer(text, lineterminator=end, quoting=quoting).writerows(records)
    path.write_bytes((bom + text.getvalue()).encode())


def test_one_persons_text_is_one_record(tmp_path):
    """20,000 lines in a cell across the end of a chunk were 20,000 people."""
    path = tmp_path / "t.csv"
    note = "\n".join(["100,x"] * 20_000)
    records = [(50, note if i == 76_260 else "a note of some twenty-five words, or letters")
               for i in range(120_000)]  # fmt: skip
    write(path, [("age", "note"), *records])
    assert path.stat().st_size > source.PARSE_BYTES > 70_000 * 40
    ages = {"age": np.full(120_000, 50.0)}
    for threads in (1, 2):
        moment = second_moment(path, 100.0, columns=["age"], threads=threads)
        assert int128_of(moment) == int128_of(second_moment(ages, 100.0))


@pytest.mark.slow
def test_cell_beyond_a_chunk(tmp_path):
    path = tmp_path / "t.csv"
    write(path, [("age", "note"), (1, "a"), (2, "100,x\n" * 1_500_000), (3, "b")])
    assert second_moment(path, 9.0, columns=["age"]).n_rows == 3


AWKWARD = ["", "plain", "a, b", 'say ""', '"', "\n", "\r\n", "100,x\n" * 30, "é\n\n", ",\r", '"\n"']


def awkward(n=500):
    rng = np.random.default_rng(7)
    rows = []
    for i in range(n):
        x = "" if i % 11 == 0 else repr(round(rng.uniform(-3, 3), rng.integers(1, 17)))
        rows.append((AWKWARD[i % len(AWKWARD)], str(i % 120), x, "w" * 500 if i % 97 == 0 else ""))
    return rows


def values(rows):
    age = np.array([float(row[1]) for row in rows])
    return {"age": age, "x": np.array([float(row[2]) if row[2] else np.nan for row in rows])}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("chunk", [7, 100, 4096, None])
def test_neither_chunks_nor_threads_matter(tmp_path, monkeypatch, end, bom, chunk):
    """Against Python's own parser; blank lines between records, names beyond 128 KiB."""
    rows = awkward(200)
    path = tmp_path / "t.csv"
    write(path, [("note", "age", "x", "n" * 140_000 + "\na"), *rows], end, bom)
    # Blank lines at the end, too, and none at the end of the last record of another file.
    path.write_bytes(path.read_bytes() + 3 * end.encode())
    if chunk:
        monkeypatch.setattr(source, "PARSE_BYTES", chunk)
    expected = int128_of(second_moment(values(rows), columns=COLUMNS))
    for threads in (1, 3):
        assert int128_of(second_moment(path, columns=COLUMNS, threads=threads)) == expected


def test_cuts_are_where_a_parser_of_single_characters_cuts():
    """Random texts of the characters that matter, in pieces of all sizes."""

    def ends(text):
        quoted, cell, i, found = False, True, 0, []
        while i < len(text):
            c = text[i : i + 1]
            if quoted:
                if text[i : i + 2] == b'""':
                    i += 1
                elif c == b'"':
                    quoted = cell = False
            elif c == b'"' and cell:
                quoted = True
            elif text[i : i + 2] == b"\r\n":
                i, cell = i + 1, True
                found.append(i + 1)
            elif c in b"\r\n":
                cell = True
                found.append(i + 1)
            else:
                cell = c == b","
            i += 1
        return found, quoted

    rng = np.random.default_rng(1)
    for _ in range(3000):
        text = rng.choice(list(b'""\n\r,a'), rng.integers(1, 25)).astype(np.uint8).tobytes()
        expected, open_at_end = ends(text)
        step = int(rng.integers(1, 9))
        cuts, start, state = set(), 0, (0, False)
        for stop in [*range(step, len(text), step), len(text)]:
            final = stop == len(text)
            end, *state = scan(text[start:stop], *state, final)
            if end > 0:
                start, state[0] = start + end, state[0] - end
                cuts.add(start)
        assert cuts <= set(expected), text
        assert max(cuts, default=0) == max(expected, default=0)
        assert state[1] == open_at_end
        first, _, _ = scan(text, 0, False, True, True)
        assert first == (expected or [-1])[0]


def test_quotes_that_do_not_open_a_cell(tmp_path, monkeypatch):
    """An inch is no quotation: only at its beginning does a quote open a cell."""
    monkeypatch.setattr(source, "PARSE_BYTES", 10)
    path = tmp_path / "t.csv"
    path.write_text('age,note\n1,5" pipe\n2,"a ""b"" c"d"\n3,x"\n')
    assert second_moment(path, 9.0, columns=["age"]).n_rows == 3


@pytest.mark.parametrize("text", ['age,note\n1,a\n2,"never\n3,closed\n', 'age,"no\n1,te\n'])
def test_quotation_without_an_end(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="ends inside a quoted cell"):
        second_moment(path, 9.0, columns=["age"])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_empty_line_of_one_column_is_a_missing_value(tmp_path, monkeypatch, end):
    path = tmp_path / "t.csv"
    path.write_bytes(end.join(["age", "1", "", "3", "", ""]).encode())
    columns = Columns({"age": (0, 9)}, missing="drop")
    for chunk in (1, 2, 3, 1 << 20):
        monkeypatch.setattr(source, "PARSE_BYTES", chunk)
        moment = second_moment(path, columns=columns)
        assert (moment.n_rows, moment.n_dropped) == (2, 2)
    refuses(lambda: second_moment(path, 9.0), ValueError, r"row 1 .*missing")


def test_file_without_rows(tmp_path):
    path = tmp_path / "t.csv"
    for text in ("age,x", "age,x\n", "\n\nage,x\r", '"age",x\r\n'):
        path.write_bytes(text.encode())
        assert second_moment(path, columns=COLUMNS).n_rows == 0
    for text in ("\ufeff", "\n\n"):
        path.write_text(text)
        refuses(lambda: second_moment(path, 1.0), OSError, "is empty")


@pytest.mark.parametrize("threads", [1, 2])
def test_file_that_grows(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(source, "PARSE_BYTES", 1000)
    monkeypatch.setattr("privgram.scan.progress.INTERVAL", 0.0)
    path = tmp_path / "t.csv"
    path.write_text("age\n" + "1\n" * 10_000)

    def append(rows, total):
        with path.open("a") as file:
            file.write("2\n")

    with pytest.raises(OSError, match=r"t\.csv changed while it was read"):
        second_moment(path, 9.0, threads=threads, progress=append)


@pytest.mark.parametrize("size", [16, 1 << 22])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_bad_row_is_named_by_the_line_of_its_file(tmp_path, monkeypatch, end, size):
    """Where it begins, as an editor counts; a heading of two lines and empty ones count too."""
    monkeypatch.setattr(source, "PARSE_BYTES", size)
    path = tmp_path / "t.csv"
    newline = "\r" if end == "\r" else "\n"
    lines = ["", f'age,"x{newline}"', "1,0", "", f'2,"1{newline}"', "3,0.5", "4,nan", "5,1"]
    path.write_bytes(end.join([*lines, ""]).encode())
    columns = Columns({"age": (0, 100), f"x{newline}": (-2, 2)}, missing="error")
    with pytest.raises(ValueError, match=r"^row 1 \(in .*t\.csv.*, line 6\)"):
        second_moment(path, columns=columns)
    path.write_bytes(end.join([*lines[:4], *lines[5:], ""]).encode())
    with pytest.raises(ValueError, match=r"^row 2 \(in .*t\.csv.*, line 7\)"):
        second_moment(path, columns=columns, threads=2)


def test_dataset_that_cuts_cells_is_refused(tmp_path):
    """Arrow cuts a file at any newline unless told of quoted ones."""
    from pyarrow import csv as arrow_csv
    from pyarrow import dataset

    for name in "tu":
        (tmp_path / f"{name}.csv").write_text("age\n1\n2\n")
    for flag in (False, True):
        parse = arrow_csv.ParseOptions(newlines_in_values=flag)
        form = dataset.CsvFileFormat(parse_options=parse)
        table, other = (dataset.dataset(tmp_path / f"{name}.csv", format=form) for name in "tu")
        for given in (table, dataset.dataset([table, other])):
            if flag:
                assert second_moment(given, 9.0).n_rows >= 2
            else:
                with pytest.raises(ValueError, match=re.escape("newlines_in_values=True")):
                    second_moment(given, 9.0)
