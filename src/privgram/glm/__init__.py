"""One regression by scores of rows: first a cheap second moment, then clipped sums of scores.

Secret side: of what is read only noisy sums leave. The page docs/theory/glm.md has the proofs in
the order of the code.
"""
