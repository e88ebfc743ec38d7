from typing import Any

from numpy.typing import NDArray

def views(batch: Any) -> list[NDArray[Any] | None]: ...
