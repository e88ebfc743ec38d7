"""A release as one page of HTML that explains itself: nothing to load, nothing to run.

It takes releases and what is made of them, and never a table.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from privgram import plots
from privgram._base.installed import __version__, extra
from privgram._base.text import shown
from privgram.columns.structure import by_term, share
from privgram.columns.terms import INTERCEPT
from privgram.columns.variables import Factor, Numeric
from privgram.multivariate import correlation, pca
from privgram.plots._axes import MOST_NAMES
from privgram.plots.of_release import noise_scores
from privgram.regression import RefusedError, regress
from privgram.regression.design import intercept_of
from privgram.releases.record import RELEASE_FORMAT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privgram.regression import OLSResults
    from privgram.releases.record import ReleaseRecord

__all__ = ["to_html"]

#: False alarms of the test by which the guarantee is put into words.
FALSE_ALARMS = 0.05

#: Background of dark pages, as in the template.
DARK_GROUND = "#14171b"

#: `Release.proof_status` in words.
FOUNDED = {
    "exact": "This is proved of the mechanism, and its privacy profile is the exact one.",
    "upper bound": "This is proved of the mechanism; its privacy profile is an upper bound.",
    "stated": "This is stated by the source of the noise's constants, and not confirmed by a proof "
    "in privgram's documentation.",
}


class Plot(NamedTuple):
    """A picture for light and for dark pages, as data URIs, with its size and its description."""

    light: str
    dark: str
    width: int
    height: int
    alt: str


@dataclass(frozen=True)
class RegressionPart:
    """One regression on the page."""

    target: str
    refusal: str | None = None
    known: bool = False  # whether there are standard errors
    groups: Sequence[tuple[str, list[list[str]]]] = ()  # a term, and rows of the table
    note: str = ""
    plot: Plot | None = None
    caption: str = ""


@dataclass(frozen=True)
class ComponentsPart:
    """Correlations and principal components on the page."""

    correlation: Plot | None
    left_out: str
    refusal: str | None = None
    scree: Plot | None = None
    biplot: Plot | None = None
    note: str = ""


def to_html(
    release: ReleaseRecord,
    targets: Iterable[str] = (),
    *,
    ridge: float | str = 0.0,
    title: str | None = None,
    file: str | os.PathLike[str] | None = None,
) -> str:
    """Describe a release in one self-contained page of HTML.

    What was released, under which guarantee, in plain words too; by which mechanism and
    parameters; plots of matrix, spectrum and privacy profile; regressions; how to load and
    use it; and what to be careful about. The page loads nothing and runs no script.

    Parameters
    ----------
    release : Release
    targets : iterable of str
        Columns to explain by all the others, a table and a plot each, or the sentence
        that says why the release cannot.
    ridge : float or "auto"
        Of these regressions; see `privgram.regression.regress`.
    title : str, optional
        Heading of the page.
    file : path-like, optional
        Where the release is saved, to be named on the page with its checksum.

    Returns
    -------
    str
        The page, the same for the same arguments.

    Raises
    ------
    ValueError
        If the target is not a column.
    OSError
        If `file` cannot be read.
    ImportError
        Without Jinja2 and matplotlib: ``pip install "privgram[report]"``.
    """
    with extra("report", "a report needs"):
        import jinja2
        import matplotlib  # noqa: F401
    if isinstance(targets, str):
        targets = [targets]
    fits = [_fit(release, target, ridge) for target in targets]
    others = [name for name in release.names if name != INTERCEPT]
    path = None if file is None else Path(file)
    scores = np.abs(noise_scores(release)[0])
    faint = float((scores[np.triu_indices(len(scores))] < 2).mean())
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_without_controls,
    )
    template = resources.files("privgram.report").joinpath("templates", "report.html")
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        title=title or (f"Private release {path.name}" if path else "A private release"),
        version=__version__,
        release=release,
        warnings=_warnings(release),
        guarantee=_guarantee(release),
        privacy_plot=_draw(
            lambda: plots.plot_privacy(release),
            f"Delta against epsilon on a logarithmic scale, through ({release.epsilon:g}, "
            f"{release.delta:.3g}).",
        ),
        matrix_plot=_draw(
            lambda: plots.plot_matrix(release),
            f"Matrix plot of {release.n_columns} columns; {faint:.0%} of the entries are within two"
            " standard deviations of their noise.",
        ),
        spectrum_plot=_draw(
            lambda: plots.plot_spectrum(release),
            f"The {len(others)} eigenvalues by rank, with the largest that noise may have.",
        ),
        components=_components(release),
        bounded=release.columns is not None,
        centred=intercept_of(release) is not None,
        variables=_variables(release),
        terms=_terms(release),
        columns=_columns(release),
        fits=fits,
        facts=_facts(release, path),
        code=_code(release, path, fits),
    )


def _without_controls(value: object) -> object:
    """Escape what acts rather than is seen, but for ends of lines."""
    return "\n".join(map(shown, value.split("\n"))) if type(value) is str else value


def _draw(plot: Callable[[], Axes], alt: str) -> Plot:
    """Draw for light pages and for dark ones."""
    from matplotlib import pyplot, style

    pictures = []
    width, height = 0.0, 0.0
    with pyplot.ioff():
        for ground in ("default", "dark_background"):
            # In matplotlib's own style, whatever the user's: the page is the same every time.
            options = {"svg.hashsalt": "privgram", "savefig.transparent": True, "savefig.dpi": 150}
            if ground == "dark_background":
                options["axes.facecolor"] = DARK_GROUND
            with style.context(["default", ground, options]):
                figure: Any = plot().figure
                buffer = io.BytesIO()
                try:
                    figure.savefig(buffer, format="svg", metadata={"Date": None})
                    width, height = figure.get_size_inches() * 96
                finally:
                    pyplot.close(figure)
            encoded = base64.b64encode(buffer.getvalue()).decode()
            pictures.append(f"data:image/svg+xml;base64,{encoded}")
    light, dark = pictures
    return Plot(light, dark, round(width), round(height), alt)


def _guarantee(release: ReleaseRecord) -> list[str]:
    """The guarantee in plain words."""
    unit = release.privacy_unit
    one, other, whole, number = "any one row", "one more", "every other row", "rows"
    sought = "one row"
    if unit is not None:
        name = shown(unit.name)
        one, other = f"all rows of any one {name}", f"those of one more {name}"
        whole, number = f"all rows of every other {name}", f"units by {name}"
        sought = f"one {name}"
    change = {
        "replace": f"had {one} of the table held anything else instead (the number of {number} "
        "is public)",
        "add-remove": f"had {one} been left out of the table, or {other} been in it (the "
        f"number of {number} is private)",
    }[release.adjacency]
    factor = f"{math.exp(release.epsilon):.3g}" if release.epsilon < 700 else "a huge number"
    words = [
        f"What this page shows would have come out almost the same {change}: any outcome at most "
        f"{factor} times as likely (e to the power of epsilon), but for a probability of "
        f"{release.delta:.3g} (delta).",
        f"So anyone who knows {whole}, and anything else, and looks for {sought} in the release by "
        f"a test that raises {FALSE_ALARMS:.0%} false alarms, finds it with probability "
        f"{_power(release):.1%} at most; without any release it would be {FALSE_ALARMS:.0%}.",
        FOUNDED[release.proof_status],
    ]
    if "bound_epsilon" in release.parameters:
        part = release.parameters["bound_epsilon"]
        words.append(
            f"Of epsilon, {part:g} was spent on choosing the bound of the "
            f"{'row' if unit is None else 'unit'} norms from the table; epsilon counts it."
        )
    return words


def _power(release: ReleaseRecord) -> float:
    """Greatest power of a test between neighbours at `FALSE_ALARMS` (Wasserman and Zhou 2010)."""
    grid = np.linspace(0.0, min(release.epsilon, 30.0), 121)
    delta = np.asarray(release.privacy.delta(grid))
    up = np.exp(grid) * FALSE_ALARMS + delta
    down = 1 - np.exp(-grid) * (1 - delta - FALSE_ALARMS)
    return float(min(up.min(), down.min(), 1.0))


def _warnings(release: ReleaseRecord) -> dict[str, str]:
    """What a reader must know before trusting the page."""
    warnings: dict[str, str] = {}
    if release.reproducible:
        warnings["Not private."] = (
            "The noise came from a generator with a known seed: anyone who knows the seed can "
            "take it off. Such a release is for experiments."
        )
    if release.condition is not None:
        warnings["Conditional."] = (
            f"The guarantee holds only if {release.condition}; nothing enforces that."
        )
    flaw = release.mechanism.caveat(release)
    if flaw is not None:
        warnings["Published constants with an erratum."] = (
            f"{flaw} The delta on this page is the one that the release really has."
        )
    public = release.n_rows if release.privacy_unit is None else release.n_units
    if public is not None and public > 0 and release.delta > 1 / public:
        what = "rows" if release.privacy_unit is None else "units"
        warnings["A large delta."] = (
            f"It exceeds one in the number of {what}, and so allows mechanisms that publish "
            "some row as it is. This one does not, but the number promises little."
        )
    if _smallest(release) <= 0:
        warnings["Not positive definite."] = (
            "In some directions the noise exceeds the table's signal. Regressions that use "
            "them need ridge='auto', fewer features or a larger epsilon."
        )
    return warnings


def _smallest(release: ReleaseRecord) -> float:
    """The smallest eigenvalue but for what no table has: the levels of all factors sum to ones."""
    matrix, columns = release.matrix, release.columns
    if columns is not None and columns.names == release.names:
        sums = [
            np.bincount(np.arange(len(columns))[one.columns], minlength=len(columns)) / one.weight
            for one in columns.layout.stored
            if not one.piece.powers
        ]
        nothing = np.diff(sums, axis=0) if sums else np.zeros((0, len(columns)))
        free = np.linalg.qr(nothing.T, mode="complete")[0][:, len(nothing) :]
        matrix = free.T @ matrix @ free
    return float(np.linalg.eigvalsh(matrix)[0])


def _columns(release: ReleaseRecord) -> list[list[str]]:
    """Names of the columns, their bounds if they have any, sums of squares and their noise."""
    noise = np.sqrt(
        np.diag(release.noise.entry_variance(release.matrix, np.eye(len(release.names))))
    )
    moments = np.diag(release.matrix - release.noise.shift_matrix(release.n_columns))
    rows = []
    for i, name in enumerate(release.names):
        bounds = []
        if release.columns is not None:
            at = release.columns.names.index(name)
            bounds = [f"{release.columns.lower[at]:g}", f"{release.columns.upper[at]:g}"]
        rows.append([shown(name), *bounds, _number(moments[i]), _number(noise[i])])
    return rows


def _variables(release: ReleaseRecord) -> list[tuple[str, str]]:
    """What each variable is, where the columns are not the variables themselves."""
    columns = release.columns
    if columns is None or columns.plain:
        return []
    return [(shown(name), one.describe()) for name, one in columns.variables.items()]


def _terms(release: ReleaseRecord) -> list[list[str]]:
    """What each term pays, where there are any but the variables themselves."""
    columns = release.columns
    if columns is None or columns.plain:
        return []
    rows = []
    for term, stored in by_term(columns).items():
        size, part = sum(one.size for one in stored), share(columns, stored)
        weight = "-" if not stored else f"{max(one.weight for one in stored):g}"
        rows.append([shown(term), f"{size:,}", weight, f"{part:.1%}"])
    return rows


def _fit(release: ReleaseRecord, target: str, ridge: float | str) -> RegressionPart:
    fit = regress(release, target, ridge=ridge)
    if np.isnan(fit._estimate).any():
        return RegressionPart(shown(target), _sentence(fit.refusal))
    known = fit.refusal is None
    per: Literal["unit", "sd"] = "sd"
    try:
        fit.feature_std()
    except ValueError:  # nothing tells how many rows there are, or their weight
        per = "unit"
    ends, used, errors = fit._ends(0.05), fit._estimate, fit.inference.stderr
    rows = [
        [shown(name), _number(used[i])]
        + ([_number(errors[i]), _number(ends[i, 0]), _number(ends[i, 1])] if known else [])
        for i, name in enumerate(fit.param_names)
    ]
    groups = [(_heading(fit, term, at), rows[at]) for term, at in fit.design.terms.items()]
    groups.append(("", rows[len(fit.design.names) :]))
    penalty = "" if fit.ridge == 0 else f" Penalised by a ridge of {fit.ridge}."
    return RegressionPart(
        shown(fit.target),
        known=known,
        groups=groups,
        note=(
            "In the columns' own units. Standard errors count the sampling of the rows and the "
            "noise of the release, and assume errors of equal variance."
            if known
            else f"In the columns' own units. No standard errors: {fit.refusal}."
        )
        + penalty,
        plot=_draw(
            lambda: fit.plot(per=per),
            f"Coefficients of {len(fit.design.names)} features for {shown(fit.target)}, as in the "
            "table below.",
        ),
        caption="Per standard deviation of each feature, so that features of different units "
        "compare; the table is per unit."
        if per == "sd"
        else "Per unit of each feature.",
    )


def _components(release: ReleaseRecord) -> ComponentsPart | None:
    """Principal components of the correlations, where there are any to draw."""
    # Of a factor all levels but one: together they are correlated by being its levels.
    first = {
        f"{name}[{one.names[0]}]"
        for name, one in release.variables.items()
        if isinstance(one, Factor)
    }
    names = [name for name in release.names if name != INTERCEPT and name not in first]
    if not 2 <= len(names) <= MOST_NAMES:
        return None
    left_out = "The first level of each factor is left out." if first else ""
    part = ComponentsPart(_correlation(release, names), left_out)
    try:
        components = pca(release, 2, standardize=True, columns=names)
        clear, _ = components.n_clear, components.stderr
    except RefusedError as refusal:
        return replace(part, refusal=_sentence(refusal))
    return replace(
        part,
        scree=_draw(
            lambda: plots.plot_scree(components),
            f"Eigenvalues of the correlations of {len(names)} columns by rank; {clear} exceed what "
            "uncorrelated columns would give.",
        ),
        biplot=_draw(
            lambda: plots.plot_biplot(components),
            f"The {len(names)} columns as arrows by their loadings on the first two components.",
        ),
        note="The rows are secret, so there are only columns. About the "
        + ("mean." if components.mean_ is not None else "middle of the bounds."),
    )


def _correlation(release: ReleaseRecord, names: list[str]) -> Plot | None:
    """Correlations, where the release knows them."""
    if intercept_of(release) is None:
        return None
    try:
        correlations = correlation(release, names)
    except RefusedError:
        return None
    clear = np.abs(correlations.matrix) >= 2 * correlations.noise
    part = float(clear[np.triu_indices(len(names), 1)].mean())
    return _draw(
        lambda: plots.plot_correlation(correlations),
        f"Correlations of {len(names)} columns; {part:.0%} are more than noise alone would make.",
    )


def _sentence(refusal: object) -> str:
    text = str(refusal)
    return f"{text[0].upper()}{text[1:]}."


def _heading(fit: OLSResults, term: str, at: slice) -> str:
    """A term and the levels that its coefficients are differences from, where it has several."""
    compared = fit.design.compared.get(term, ())
    left_out = [f"{name} {fit.design.references[name]}" for name in compared]
    if left_out:
        return f"{shown(term)}: differences from {shown(', '.join(left_out))}"
    return shown(term) if at.stop - at.start > 1 else ""


def _count(number: int | None) -> str:
    return "private" if number is None else f"{number:,}"


def _facts(release: ReleaseRecord, path: Path | None) -> list[tuple[str, str]]:
    columns, unit = release.columns, release.privacy_unit
    scaled = "" if columns is None else ", after mapping to [-1, 1]"
    dropped = columns is not None and columns.missing == "drop" and release.n_rows is not None
    too = ", those with missing values too, which were dropped" * dropped
    facts = [
        ("mechanism", str(release.mechanism)),
        ("epsilon", f"{release.epsilon:g}"),
        ("delta", f"{release.delta:.6g}"),
        ("proof_status", release.proof_status),
        ("neighbours", release.adjacency),
        ("rows", _count(release.n_rows) + too),
    ]
    if unit is not None:
        within = ", less the means of each" * unit.fixed_effects
        facts.append(("protected", f"all rows of one {shown(unit.name)}{within}"))
        facts.append(("units", _count(release.n_units)))
    whose = "row" if unit is None else "unit"
    facts.append((f"bound of a {whose}", f"{release.bound:g} (L2 norm{scaled})"))
    facts += [(name.replace("_", " "), _plain(value)) for name, value in release.parameters.items()]
    shift = np.diag(release.noise.shift_matrix(release.n_columns))
    ends = sorted({float(shift.min()), float(shift.max())})
    facts.append(("known shift", " to ".join(f"{value:g}" for value in ends)))
    if path is not None:
        facts.append(("file", f"{path.name}, format version {RELEASE_FORMAT.version}"))
        facts.append(("SHA-256 of the file", hashlib.sha256(path.read_bytes()).hexdigest()))
    facts.append(("page by", f"privgram {__version__}"))
    return facts


def _code(release: ReleaseRecord, path: Path | None, fits: list[RegressionPart]) -> str:
    others = [name for name in release.names if name != INTERCEPT]
    variables = release.variables.items()
    labels = [one.label(name) for name, one in variables if isinstance(one, Numeric)]
    others = [name for name in labels if name in release.names] or others
    target = next((fit.target for fit in fits if fit.refusal is None), others[-1])
    return "\n".join(
        [
            "import privgram as pg",
            "",
            f"release = pg.load({(path.name if path else 'release.json')!r})",
            f"print(release.regress({target!r}).summary())",
            "release.pca(2).components_",
            "release.matrix  # with noise, in the scale of the table above",
        ]
    )


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"
