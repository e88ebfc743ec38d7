import pytest


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder for the C with faults."""
    return tmp_path_factory.mktemp("faults")
