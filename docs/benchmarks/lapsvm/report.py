"""The tables of a set, ours beside the published ones, and the figure of all sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from docs.benchmarks.frame import CONSOLE, Figures
from docs.benchmarks.lapsvm.cases import PARTS
from docs.benchmarks.lapsvm.methods import EARLY, Run
from docs.benchmarks.lapsvm.penalties import Pair
from docs.benchmarks.lapsvm.published import PUBLISHED, Published, Spread
from docs.benchmarks.lapsvm.sets import Setting
from peewit.solvers.arrays import FloatArray

HALF_POINT = 0.5

COLORS = dict(zip(PARTS, ("#0072b2", "#999999", "#d55e00"), strict=True))
MARKERS = dict(zip(EARLY, ("o", "s", "^"), strict=True))
_HOLLOW: dict[str, Any] = {"color": "black", "markersize": 4.5, "markerfacecolor": "none"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """A set with everything measured on it: a run of each method for every split, its penalties.

    ``traces`` are (n_splits, n_iter, 3) errors after each iteration of conjugate gradients.
    """

    name: str
    setting: Setting
    n_rows: int
    n_trained: int
    runs: Mapping[str, Sequence[Run]]
    pairs: Mapping[str, Pair]
    gram_seconds: FloatArray
    graph_seconds: FloatArray
    traces: FloatArray | None

    @property
    def published(self) -> Published:
        """What is known of this set, if anything."""
        return PUBLISHED.get(self.name, Published())

    def errors(self, method: str) -> FloatArray:
        """(n_splits, 3) errors."""
        return np.array([run.errors for run in self.runs[method]])

    def seconds(self, method: str) -> float:
        """Mean CPU seconds."""
        return float(np.mean([run.seconds for run in self.runs[method]]))


def show_errors(result: Result) -> None:
    """One row for each method: errors, and whether they are those that were published."""
    setting, known = result.setting, result.published
    n_splits = result.gram_seconds.size
    title = (
        f"{result.name}: {result.n_rows:,} points, {setting.n_labeled} labeled, "
        f"{result.n_trained - setting.n_labeled:,} unlabeled, {n_splits} splits. "
        "Error %: mean (sd) over splits; se of the test error"
    )
    columns = "|".join(("|penalties", *PARTS, "se {:.2f}|paper: unlabeled|validation|test|asked"))
    table = Figures(title, columns, title_justify="left")
    for method in result.runs:
        errors = result.errors(method)
        published = known.errors.get(method.removesuffix(", paper's pair"))
        reproduced = known.reproduced.get(method)
        error = errors[:, 2].std(ddof=1) / np.sqrt(n_splits) if n_splits > 1 else np.nan
        table.add(
            *(method, _pair(result.pairs[method])),
            *(_spread((part.mean(), _deviation(part))) for part in errors.T),
            error,
            *(("-",) * 3 if published is None else (_spread(part) for part in published)),
            _asked(known, errors.mean(axis=0), error, published, reproduced),
        )
    CONSOLE.print(table)


def _asked(
    known: Published,
    errors: FloatArray,
    standard_error: float,
    published: tuple[Spread, Spread, Spread] | None,
    reproduced: Spread | None,
) -> str:
    """Whether errors are in the paper's sd, and the test error half a point from the other one."""
    told = []
    if known.is_same_data and published is not None:
        parts = [_within(own - mean, sd) for own, (mean, sd) in zip(errors, published, strict=True)]
        told.append(f"paper {'/'.join(parts)}")
    if reproduced is not None:
        low, high = reproduced
        apart = float(errors[2] - np.clip(errors[2], low, high))
        n_errors = "" if np.isnan(standard_error) else f" ({abs(apart) / standard_error:.1f} se)"
        told.append(f"repr. {apart:+.2f}{n_errors}, {_within(apart, HALF_POINT)}")
    return "; ".join(told) or "-"


def _within(apart: float, allowed: float) -> str:
    if abs(apart) <= allowed:
        return "yes"
    return "better" if apart < 0 else "NO"


def show_times(result: Result) -> None:
    """Training from the Gram matrix on, and how conjugate gradients ended."""
    title = (
        f"{result.name}: CPU seconds of training {result.n_trained:,} points from the Gram matrix "
        f"on (that takes {result.gram_seconds.mean():.3f}, the graph "
        f"{result.graph_seconds.mean():.3f})"
    )
    columns = "|seconds {:.4f}|dual / {:.1f}|Newton / {:.1f}|(E7) / {:.1f}|steps {:.1f}|most {:.0f}"
    columns += "|converged|test error {:.2f}|paper: seconds|dual /|Newton /|steps"
    table = Figures(title, columns, title_justify="left")
    slower = [
        result.seconds(name) if name in result.runs else np.nan
        for name in ("LapSVM dual", "LapSVM Newton", "Newton (E7)")
    ]
    for method, runs in result.runs.items():
        if method in {"SVM", "RLSC", "LapRLSC"}:
            continue
        seconds, steps = result.seconds(method), [run.n_iter for run in runs]
        table.add(
            *(method, seconds, *np.divide(slower, seconds), np.mean(steps), max(steps)),
            f"{sum(run.is_converged for run in runs)}/{len(runs)}",
            result.errors(method)[:, 2].mean(),
            *_published_times(result.published, method),
        )
    CONSOLE.print(table)


def _published_times(known: Published, method: str) -> tuple[str, str, str, str]:
    """The paper's seconds, their ratios and Newton steps."""
    if known.seconds is None:
        return "-", "-", "-", "-"
    dual, newton, early = known.seconds
    own = {"LapSVM dual": dual, "LapSVM Newton": newton}
    own |= {f"PCG {rule}": early for rule in EARLY}
    seconds = own.get(method)
    steps = f"{known.n_steps}" if method.startswith("LapSVM Newton") else "-"
    if seconds is None:
        return "-", "-", "-", steps
    return f"{seconds:g}", f"{dual / seconds:.1f}", f"{newton / seconds:.1f}", steps


def draw(results: Sequence[Result], path: Path) -> None:
    """Error against iterations of conjugate gradients, a panel for each set."""
    from matplotlib.figure import Figure

    shown = [result for result in results if result.traces is not None]
    n_columns = min(3, len(shown) + 1)
    n_lines = -(-(len(shown) + 1) // n_columns)
    figure = Figure(figsize=(3.4 * n_columns, 2.7 * n_lines), layout="constrained")
    panels = figure.subplots(n_lines, n_columns, squeeze=False).ravel()
    for axes, result in zip(panels, shown, strict=False):
        _draw_panel(axes, result)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    legend = panels[len(shown)]
    for part, color in COLORS.items():
        legend.plot([], [], color=color, label=part)
    legend.plot([], [], color="black", lw=0.8, ls=":", label="Newton")
    for rule, marker in MARKERS.items():
        legend.plot([], [], marker, **_HOLLOW, label=f"where {rule} stops, on the test points")
    legend.legend(frameon=False, fontsize=8, loc="center left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def _draw_panel(axes: Any, result: Result) -> None:
    """Mean errors over splits, Newton's, and the ends of early stops."""
    mean = np.mean(result.traces, axis=0)
    levels = [mean[-1]]
    if "LapSVM Newton" in result.runs:
        levels.append(result.errors("LapSVM Newton").mean(axis=0))
    for number, color in enumerate(COLORS.values()):
        if np.isnan(mean[:, number]).all():
            continue
        axes.plot(np.arange(1, len(mean) + 1), mean[:, number], color=color, lw=1.2)
        axes.axhline(levels[-1][number], color=color, lw=0.8, ls=":")
    for rule, marker in MARKERS.items():
        ends = [(run.n_iter, run.errors[2]) for run in result.runs[f"PCG {rule}"]]
        axes.plot(*np.mean(ends, axis=0), marker, **_HOLLOW)
    norm, graph = result.pairs["PCG"]
    axes.set_title(f"{result.name}, γ_A = {norm:g}, γ_I = {graph:g}", fontsize=9)
    lowest = np.nanmin(mean)
    axes.set(xscale="log", xlabel="iterations", ylabel="error %")
    axes.set_ylim(0.7 * lowest, min(4.0 * float(np.nanmax(levels)), 1.05 * np.nanmax(mean)))
    axes.spines[["top", "right"]].set_visible(False)


def _pair(pair: Pair) -> str:
    return f"{pair[0]:g}, {pair[1]:g}" if pair[1] else f"{pair[0]:g}"


def _spread(spread: Spread) -> str:
    return "-" if np.isnan(spread[0]) else f"{spread[0]:.2f} ({spread[1]:.2f})"


def _deviation(values: FloatArray) -> float:
    return float(np.std(values, ddof=1)) if values.size > 1 else 0.0
