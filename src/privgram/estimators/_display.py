"""How an estimator is shown: its budget beside its parameters, and looking spends nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator

if TYPE_CHECKING:
    from privgram._release import Release
    from privgram.moment import SecondMoment


class ShownEstimator(BaseEstimator):
    """An estimator with its budget in a line."""

    epsilon: float
    delta: float
    # Not parameters, and so not set by __init__.
    _moment: SecondMoment | None = None
    _release: Release | None = None
    _given: bool = False

    def _budget(self) -> str:
        """The budget and what became of it, in a line."""
        source = self._release
        if source is None:
            state = "nothing spent" if self._moment is None else "not yet spent; holds secret data"
            return f"epsilon={self.epsilon}, delta={self.delta}: {state}"
        text = f"epsilon={source.epsilon:g}, delta={source.delta:g}: spent"
        text += " before, by the release it was fitted from" if self._given else ""
        return text + ("; REPRODUCIBLE noise, not private" if source.reproducible else "")

    def _sk_visual_block_(self) -> Any:
        # scikit-learn asks for this when it draws an estimator, alone or in a pipeline.
        return SimpleNamespace(
            kind="single",
            estimators=self,
            names=type(self).__name__,
            name_details=f"{self!r}\n{self._budget()}",
            name_caption=self._budget(),
            doc_link_label=None,
            dash_wrapped=True,
        )
