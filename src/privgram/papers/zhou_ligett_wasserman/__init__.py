r"""S. Zhou, K. Ligett and L. Wasserman, "Differential Privacy with Compression" [1]_.

:math:`\Phi A`, the columns of A scaled to squared norm n, :math:`\Phi` of m independent rows
of N(0, 1/n): m rows that each are a mixture of all n. Given A they are independent draws of
N(0, Sigma), Sigma = A^T A / n, so one pass for A^T A is as good as one for :math:`\Phi A`.

What the paper proves is distributional privacy: a bound on the log-ratio of densities within
a set of tables known to be close to each other (`Compressed.alpha`). It is not (epsilon,
delta)-differential privacy. That exists where the scales of the columns, the reference that
draws must stay close to and a floor of the eigenvalues are public (`Compressed.profile`).
Where the reference is the table's own covariance nothing is claimed: which draws are thrown
away then depends on the table, and an output that one table cannot give its neighbour can.

References
----------
.. [1] S. Zhou, K. Ligett and L. Wasserman, "Differential Privacy with Compression",
   ISIT 2009, arXiv:0901.1365.
"""

from . import theorems
from .compression import Compressed, compress
from .theorems import *  # noqa: F403 - a theorem is a function of this room by its number
from .theorems import TruncatedSketchProfile

__all__ = ["Compressed", "TruncatedSketchProfile", "compress"]
__all__ += theorems.__all__
