"""Private linear regression on real tasks, one exact release against three special methods.

Comparison methods, each reimplemented from its paper and given accounting at least as tight:
`adassp` (Wang 2018), `linear_mixing` (Lev et al. 2025), `hessian_mixing` (Lev et al. 2026).
`adaptive` and `second_moment` are privgram's, by adaptive rounds and by one: a release that answers
every regression, of which one is asked.
"""

from bench.paper.uci.benchmark import (
    EPSILONS,
    METHODS,
    Cell,
    run,
    summary,
    to_csv,
    to_markdown,
)
from bench.paper.uci.tasks import Task, load_folder, load_task

__all__ = [
    "EPSILONS",
    "METHODS",
    "Cell",
    "Task",
    "load_folder",
    "load_task",
    "run",
    "summary",
    "to_csv",
    "to_markdown",
]
