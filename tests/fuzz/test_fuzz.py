"""Every loader against bytes that nobody wrote, and files that were changed under good checksums.

A few thousand inputs; `make fuzz` runs as many as there is time for, led by coverage.
"""

import io
import os
import struct
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
from fuzz import blocks, targets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.helpers import refuses

import privgram as pg

LOADERS = [name for name in targets.TARGETS if name != "update"]
FEW = settings(
    max_examples=60, database=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="mprotect and resource are POSIX's"),
]


@pytest.fixture(scope="module", params=LOADERS)
def loader(request):
    return request.param, targets.TARGETS[request.param].seeds()


def test_valid_files_are_loaded(loader, monkeypatch):
    """So that what follows can fail: nothing is refused for a reason of the harness's."""
    monkeypatch.setattr(targets, "REFUSED", ())
    name, seeds = loader
    form = targets.TARGETS[name].form
    for seed in seeds:
        targets.run(name, seed)
        targets.run(name, form.seal(form.open(seed)))


@FEW
@given(which=st.integers(0, 11), number=st.integers(0, 2**32))
def test_changed_fields(loader, which, number):
    name, seeds = loader
    targets.run(name, targets.mutate(name, seeds[which % len(seeds)], number))


@FEW
@given(
    which=st.integers(0, 11),
    start=st.floats(0, 1),
    cut=st.integers(0, 40),
    put=st.binary(max_size=40),
)
def test_changed_bytes(loader, which, start, cut, put):
    name, seeds = loader
    seed = bytearray(seeds[which % len(seeds)])
    at = round(start * len(seed))
    seed[at : at + cut] = put
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, that Python 2 wrote the file
        targets.run(name, bytes(seed))


@FEW
@given(st.binary(max_size=300))
def test_arbitrary_bytes(loader, arbitrary):
    targets.run(loader[0], arbitrary)


@settings(FEW, max_examples=700)
@given(st.randoms(use_true_random=False))
def test_blocks_of_every_layout(random):
    targets.run("update", random.randbytes(120))


def test_harness_sees_what_it_should():
    with pytest.raises(KeyError):
        targets._taken(lambda: {}["x"])
    with pytest.raises(targets.Defect, match="unclear"):
        targets._taken(lambda: int("no number"), "the name of a file")


def test_pages_around_blocks_cannot_be_read():
    code = (
        "import ctypes; from fuzz import blocks; a = blocks.arena(); "
        "ctypes.string_at(a.ctypes.data + len(a) - 1, {})"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = [
        subprocess.run([sys.executable, "-c", code.format(size)], env=env, check=False).returncode
        for size in (1, 2)
    ]
    assert ended[0] == 0
    assert ended[1] != 0
    assert len(blocks.arena()) == blocks.ROOM


def test_header_that_promises_the_largest_matrix():
    form = targets.TARGETS["moment"].form
    parts = form.open(targets.moment_seeds()[1])
    parts[0]["n_columns"] = 32768
    data = form.seal(parts)
    targets.run("moment", data)
    refuses(lambda: pg.SecondMoment.from_bytes(data), ValueError, "length")


@pytest.mark.parametrize("name", ["release_npz", "low_rank"])
def test_zip_bomb(name):
    """128 MiB of zeros in a file of a thousandth of that."""
    seed = targets.TARGETS[name].seeds()[0]
    with zipfile.ZipFile(io.BytesIO(seed)) as archive:
        members = {m.filename: archive.read(m) for m in archive.infolist()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in list(members)[:1]:
            with archive.open(member, "w", force_zip64=True) as file:
                header = io.BytesIO()
                np.lib.format.write_array_header_1_0(
                    header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 24,)}
                )
                file.write(header.getvalue())
                for _ in range(8):
                    file.write(bytes(1 << 24))
    assert len(buffer.getvalue()) < 1 << 20
    targets.run(name, buffer.getvalue())


@pytest.mark.parametrize("name", ["release_npz", "low_rank"])
def test_array_header_that_promises_everything(name):
    seed = targets.TARGETS[name].seeds()[0]
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(seed)) as old, zipfile.ZipFile(buffer, "w") as new:
        for member in old.infolist():
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 20, 1 << 20)}
            )
            new.writestr(member.filename, header.getvalue() + struct.pack("<d", 1.0))
    targets.run(name, buffer.getvalue())
