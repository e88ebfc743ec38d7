"""The package's logger, silent unless a program asks for it: `logging.getLogger("privgram")`.

Lines name what is public: formulas, labels, epsilons, and that a table is being read. They hold no
number of rows, which may be private, and nothing of the data.
"""

from __future__ import annotations

import logging

#: Of all modules. Lines are of level INFO.
log = logging.getLogger("privgram")
log.addHandler(logging.NullHandler())
