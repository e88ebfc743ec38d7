"""What privacy rests on is known to the file: bench/trust.py."""

import pytest

from bench import trust


@pytest.mark.slow
def test_every_file_that_the_room_imports_is_trusted_for_something(capsys):
    trust.main()
    said = capsys.readouterr().out
    names = [path.relative_to(trust.ROOT).as_posix() for path in trust.closure()]
    assert all(f"| `{name}` |" in said for name in names)
    # What fits, releases, plans and prints is not: it may be wrong in anything but privacy.
    clients = ("glm", "disclosure", "estimators", "study", "planning", "plots", "report", "cli")
    assert [name for name in names if name.startswith(clients)] == ["disclosure/laws.py"]
    for needed in ("secret/gate.py", "exact/discrete.py", "_core/scores.c", "ledger/file.py"):
        assert needed in names


def test_a_file_that_nobody_thought_of_is_told():
    with pytest.raises(ValueError, match="trusted for nothing"):
        trust.role_of(trust.ROOT / "stream" / "state.py")
