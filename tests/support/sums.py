"""What of a secret sum meets noise."""

import numpy as np

from privgram.exact import int128
from privgram.secret.gate import Sum, _exact


def integers(total: Sum) -> list[int]:
    """Python's integers; of a matrix its lower triangle, row by row."""
    found = _exact(total)
    whole = int128.to_integers(found) if isinstance(found, tuple) else np.asarray(found)
    return list(whole.reshape(-1).tolist())
