"""What the papers propose and state, a room for each, on a floor above the library.

`sheffet` has its mechanisms with the constants that it prints, `hardt_roth` low-rank approximation,
`zhou_ligett_wasserman` compression, and `dwork_et_al` the noise of Analyze Gauss. Nothing else of
privgram imports them.

In each a theorem is a function named by its number: Lemma 4.5 of Zhou, Ligett and Wasserman is
``papers.zhou_ligett_wasserman.lemma_4_5``. It returns what its statement sets, such as a variance
or a number of degrees of freedom. Its domain is the printed one, and leaving it is a
`ValueError`. All logarithms are natural.

A few statements are false as printed. Their functions compare the printed value with the exact
profile and raise `PublishedErratumError` where it is not private;
``allow_published_erratum=True`` returns it all the same, for reproducing figures. The errata, with
numbers, are in ``docs/theory/errata.md``.

The papers' neighbours differ in one row ("replace"). A mechanism that sees the data only through
:math:`A^T A` is at least as private under "add-remove", since a row may be replaced by zeros. So a
function takes ``adjacency`` only where the printed constant holds under one notion and not under
the other.

Parameters that mean the same everywhere:

bound : float
    L2 bound B of a row, positive, in data units.
epsilon, delta : float
    Privacy parameters, epsilon > 0 and 0 < delta < 1. A narrower domain is stated in the function.
n_columns : int
    Columns d of the data, at least 1.
adjacency : {"replace", "add-remove"}
    Notion of neighbours that the check is made for.
allow_published_erratum : bool
    Return the value even where it is not private. Otherwise `PublishedErratumError` is raised
    there.
failure : float
    Probability nu that the statement fails, in (0, 1).
"""

from . import dwork_et_al, hardt_roth, sheffet, zhou_ligett_wasserman
from ._shared import PublishedErratumError

__all__ = [
    "PublishedErratumError",
    "dwork_et_al",
    "hardt_roth",
    "sheffet",
    "zhou_ligett_wasserman",
]
