"""scikit-learn's interface: private regressions and classifiers.

They call the library, and compute nothing private of their own.

For example::

    from privgram.estimators import PrivateRidge

    model = PrivateRidge(columns={"age": (18, 100), "pressure": (60, 200)}, epsilon=1.0)
    model.fit(table[["age"]], table["pressure"])
    model.coef_, model.result_.conf_int(), model.release_

`fit` spends the budget. An estimator never holds rows or their exact sums. Until it is fitted all
that is learnt raises `NotFittedError`.

What the budget does not cover: it is spent again by every `fit`, so a cross-validation of five
folds spends it six times, and `score` compares with rows that are not protected.
"""

from privgram._base.installed import extra

with extra("sklearn", "privgram.estimators needs"):
    from sklearn.utils.validation import validate_data as _since_1_6  # noqa: F401

from privgram.estimators.classifier import PrivateClassifier
from privgram.estimators.linear import PrivateRidge

__all__ = ["PrivateClassifier", "PrivateRidge"]
