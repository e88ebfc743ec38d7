"""With rows left out, every source answers whatever one row holds: data decide no error."""

import numpy as np
import pytest
from support.helpers import assert_bits

import privgram as pg


@pytest.mark.parametrize(
    "bad", [b"1", b"1,a,9,9", b",,,,,", b"words", b"\xff", b"\xff,a,9", b"x,\xff,9"]
)
@pytest.mark.parametrize("at", [0, 2, 5])
def test_records_of_another_number_of_cells_are_missing(tmp_path, bad, at, monkeypatch):
    """A row each, left out; the others stay what they are, in chunks, groups and persons."""
    path = tmp_path / "t.csv"
    rows = [b"0.5,a,1", b"\n0.25,b,2", b'"0.75",a,1', b"words,b,3", b"-1,a,2"]

    def made(lines, **more):
        path.write_bytes(b"x,g,who\n" + b"\n".join(lines) + b"\n")
        return pg.second_moment(path, **more)

    lines = [*rows[:at], bad, bad, *rows[at:]]
    columns = {"columns": pg.Columns({"x": (-1, 1)}, True, "drop")}
    for size in (1 << 20, 8):
        monkeypatch.setattr("privgram.sources.files.PARSE_BYTES", size)
        moment = made(lines, **columns)
        assert (moment.n_rows, moment.n_dropped) == (4, 3)
        assert_bits(moment, made(rows, **columns))
        for more in (
            {"by": pg.Groups("g", ["a", "b"])},
            {"unit": pg.Unit("who", 3, missing="drop")},
        ):
            moments = made(lines, **columns, **more), made(rows, **columns, **more)
            assert_bits(*(getattr(m, "total", m.copy)() for m in moments))
    with pytest.raises(ValueError, match="holds a missing value"):
        made(lines, columns=pg.Columns({"x": (-1, 1)}, True, "error"))


def test_file_of_records_of_another_number_of_cells(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1\n2\n")
    columns = pg.Columns({"x": (-1, 1)}, True, "drop")
    assert pg.second_moment(tmp_path / "t.csv", columns=columns).n_dropped == 2


@pytest.mark.slow
def test_cells_are_read_as_if_others_could_be(tmp_path):
    """A cell that cannot be read leaves those beside it as they are, to the last bit."""
    rng = np.random.default_rng(3)
    numbers = [repr(x) for x in rng.standard_normal(300)] + [" 1", "1e-3 ", '"2"', "NA", "inf"]
    path, columns = tmp_path / "t.csv", pg.Columns({"x": (-3, 3), "y": ["a"]}, missing="drop")
    moments = []
    for bad in ("", "1,5", "0x10", "é", "a\nb", '""'):
        rows = [f"{x},a" for x in numbers] + [f'"{bad}",a']
        path.write_bytes(("x,y\n" + "\n".join(rows) + "\n").encode())
        moments.append(pg.second_moment(path, columns=columns))
    for moment in moments[1:]:
        np.testing.assert_array_equal(moment.matrix(), moments[0].matrix())
        assert (moment.n_rows, moment.n_dropped) == (moments[0].n_rows, moments[0].n_dropped)


@pytest.mark.parametrize("kind", ["list", "objects", "frame"])
def test_texts_alone_are_missing_as_texts_beside_a_number_are(kind):
    """An error of texts alone would tell whether somebody's row holds the one number."""
    pd = pytest.importorskip("pandas")
    texts, columns = ["CANARY"] * 40, pg.Columns({"x": (0, 9)}, missing="drop")
    make = {
        "list": lambda x: {"x": x},
        "objects": lambda x: {"x": np.array(x, object)},
        "frame": lambda x: pd.DataFrame({"x": pd.Series(x, dtype=object)}),
    }[kind]
    for rows in (texts, [*texts, 3.0]):
        moment = pg.second_moment(make(rows), columns=columns)
        assert (moment.n_rows, moment.n_dropped) == (len(rows) - 40, 40)


@pytest.mark.parametrize("most", [5, 2**53 + 1, 2**63 - 1])
def test_levels_of_a_file_are_whole_numbers_to_the_last_digit(tmp_path, most):
    path = tmp_path / "t.csv"
    path.write_text(f"g\n{most}\n{most - 1}\n{most}\n\nwords\n")
    columns = pg.Columns({"g": pg.Factor([most - 1, most])}, missing="drop")
    moment = pg.second_moment(path, columns=columns)
    assert np.diag(moment.matrix()).round(3).tolist() == [1, 2]
    assert moment.n_dropped == 2
