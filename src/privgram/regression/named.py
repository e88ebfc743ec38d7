"""Numbers of parameters with their names, as pandas has them. Importing this imports pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas


class Named(pandas.Series):  # type: ignore[misc]
    """A Series whose index is names, that takes positions too, as an array does.

    A name is a text, so a number is never one.
    """

    def __getitem__(self, key: object) -> Any:
        return self.iloc[key] if isinstance(key, (int, np.integer)) else super().__getitem__(key)
