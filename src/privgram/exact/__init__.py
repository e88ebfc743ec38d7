"""Exact integers: integers of 128 bits, digits that BLAS multiplies exactly, certified matrices.

Nothing here knows of privacy. The second moment, the mechanisms and low rank compute with it
wherever data meet noise.
"""
