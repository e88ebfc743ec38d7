"""What may leave: a released matrix with its provenance, and what is made of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgram._base.later import Room
from privgram._release.record import FORM, ReleaseRecord, check
from privgram._release.stated import check_stated
from privgram.columns import Columns
from privgram.columns.unit import PrivacyUnit
from privgram.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privgram import multivariate, plots, regression, report
else:
    multivariate, plots = Room("privgram.multivariate"), Room("privgram.plots")
    regression, report = Room("privgram.regression"), Room("privgram.report")

__all__ = ["Release", "read_release"]


@dataclass(frozen=True, eq=False, repr=False)
class Release(ReleaseRecord):
    __doc__ = ReleaseRecord.__doc__

    regress = regression.regress
    iv = regression.iv
    lasso = regression.lasso
    penalty_path = regression.penalty_path
    best_subset = regression.best_subset
    posterior = regression.posterior
    pca = multivariate.pca
    describe = multivariate.describe
    correlation = multivariate.correlation
    factor_analysis = multivariate.factor_analysis
    cca = multivariate.cca
    lda = multivariate.lda
    graphical_lasso = multivariate.graphical_lasso
    synthesize = multivariate.synthesize
    plot = plots.plot_matrix
    plot_spectrum = plots.plot_spectrum
    plot_privacy = plots.plot_privacy
    to_html = report.to_html

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to `.json` or `.npz`, whole or not at all.

        Parameters
        ----------
        path : path-like
            Its suffix picks the format: `.json` is for other languages too and says more than once
            what these would have to work out, `.npz` is small.  The file is written beside it
            under another name, flushed to disk and renamed.

        Raises
        ------
        ValueError
            For any other suffix.
        OSError
            If it cannot be written.
        """
        from privgram._release.derived import derived

        path = Path(path)
        header, arrays = self._header(), {"matrix": self.matrix}
        if self.sketch is not None:
            arrays["sketch"] = self.sketch
        if path.suffix == ".json":
            header["derived"] = derived(self)
        FORM.save(path, header, arrays)


def read_release(path: Path) -> Release:
    """Read a release written by `Release.save`."""
    header, arrays = FORM.read(path)
    with FORM.understood(path):
        return build(header, arrays)


def build(header: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> Release:
    """Make a release of what its file says, and check that it is sound."""
    from privgram import mechanisms, privacy
    from privgram._release.derived import check_derived

    columns, unit = header["columns"], header.get("privacy_unit")
    mechanism = mechanisms.from_dict(header["mechanism"])
    loaded = Release(
        matrix=arrays["matrix"],
        sketch=arrays.get("sketch"),
        names=tuple(header["names"]),
        mechanism=mechanism,
        noise=NoiseLaw.from_dict(header["noise"]),
        privacy=privacy.Profile.from_dict(header["privacy"]),
        columns=None if columns is None else Columns.from_dict(columns),
        privacy_unit=None if unit is None else PrivacyUnit.from_dict(unit),
        n_units=header.get("n_units"),
        **{
            name: header[name]
            for name in (
                "parameters",
                "epsilon",
                "delta",
                "adjacency",
                "bound",
                "n_rows",
                "reproducible",
                "condition",
            )
        },
    )
    check(loaded)
    check_stated(loaded)
    check_derived(header.get("derived", {}), loaded)
    return loaded
