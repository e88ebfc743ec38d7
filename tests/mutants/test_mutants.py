"""Planted faults are still faults of the code as it is: the list cannot rot."""

import collections
import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
mutants = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(mutants)


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in mutants.MUTANTS}))
def test_every_fault_has_its_place_and_its_tests(file):
    text = (mutants.ROOT / mutants.PACKAGE / file).read_text()
    wrong = []
    for mutant in mutants.MUTANTS:
        if mutant.file != file:
            continue
        if text.count(mutant.old) != 1 or mutant.new == mutant.old:
            wrong.append((text.count(mutant.old), mutant.name))
        for test in mutant.tests:
            path, _, name = test.partition("::")
            body = (mutants.ROOT / path).read_text() if name else ""
            if (
                not (mutants.ROOT / path).exists()
                or f"def {name.partition('[')[0]}(" not in body + "def ("
            ):
                wrong.append((test, mutant.name))
    assert not wrong, wrong


def test_a_fault_is_planted_once():
    counts = collections.Counter((m.file, m.old, m.new) for m in mutants.MUTANTS)
    assert max(counts.values()) == 1
    assert len(mutants.MUTANTS) >= 62
