"""Compiled hot loops over a private, single-threaded OpenBLAS.

Parallelism is above: Python threads call these loops, which release the GIL.
"""

from . import blas

# More BLAS threads under our own would only compete with them.
blas.set_num_threads(1)
