"""scikit-learn's interface: private regressions, classifiers and projections.

They call the library, and compute nothing private of their own.

For example::

    from privgram.estimators import PrivateRidge

    model = PrivateRidge(epsilon=1.0, bounds={"age": (18, 100)}, target_bounds=(60, 200))
    model.fit(table[["age"]], table["pressure"])
    model.coef_, model.result_.conf_int(), model.release_

An estimator holds either an exact second moment, which is secret, or a release, which is not.
`fit` goes all the way. `partial_fit` adds rows, exactly, until `release` spends the budget, once;
the second moment is then dropped. Nothing else spends: until then `coef_`, `predict` and all that
is learnt raise `NotFittedError`. `fit_from` starts from a release there already is, which costs
nothing.

What the budget does not cover: it is spent again by every `fit`, so a cross-validation of five
folds spends it six times, and `score` compares with rows that are not protected.
"""

from privgram._base.installed import extra

with extra("sklearn", "privgram.estimators needs"):
    from sklearn.utils.validation import validate_data as _since_1_6  # noqa: F401

from privgram.estimators._base import BudgetSpentError
from privgram.estimators.classifier import PrivateClassifier
from privgram.estimators.linear import PrivateLinearRegression, PrivateRidge
from privgram.estimators.projection import PrivatePCA

__all__ = [
    "BudgetSpentError",
    "PrivateClassifier",
    "PrivateLinearRegression",
    "PrivatePCA",
    "PrivateRidge",
]
