"""Conjugate gradients iteration by iteration: errors, and what stops them, a panel for each set."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docs.benchmarks.lapsvm.cases import PARTS
from docs.benchmarks.lapsvm.methods import EARLY, SIZES
from docs.benchmarks.lapsvm.report import Result
from peewit.solvers.svm.stopping import STABLE_SHARE

COLORS = dict(zip(PARTS, ("#0072b2", "#999999", "#d55e00"), strict=True))
MARKERS = dict(zip(EARLY, ("o", "s", "^"), strict=True))
SIZE_COLORS = dict(zip(SIZES, ("#444444", "#0072b2", "#009e73", "#cc79a7"), strict=True))
CHANGED = {"color": "#d55e00", "marker": ".", "markersize": 4, "lw": 0.8}
ENDS = {"stability": "-", "validation": "--"}
SETTLED = {"color": "#bbbbbb", "lw": 3.0, "zorder": 0}
_HOLLOW: dict[str, Any] = {"color": "black", "markersize": 4.5, "markerfacecolor": "none"}


def draw(results: Sequence[Result], folder: Path) -> None:
    """Errors, and the sizes and shares that stop, against iterations."""
    folder.mkdir(parents=True, exist_ok=True)
    _draw(results, folder / "lapsvm_pcg.png", _errors_panel, _errors_legend)
    _draw(results, folder / "lapsvm_stops.png", _stops_panel, _stops_legend)


def _draw(
    results: Sequence[Result],
    path: Path,
    panel: Callable[[Any, Result], None],
    legend: Callable[[Any], None],
) -> None:
    from matplotlib.figure import Figure

    shown = [result for result in results if result.traces]
    n_columns = min(3, len(shown) + 1)
    n_lines = -(-(len(shown) + 1) // n_columns)
    figure = Figure(figsize=(3.4 * n_columns, 2.7 * n_lines), layout="constrained")
    panels = figure.subplots(n_lines, n_columns, squeeze=False).ravel()
    for axes, result in zip(panels, shown, strict=False):
        panel(axes, result)
        norm, graph = result.pairs["PCG"]
        axes.set_title(f"{result.name}, γ_A = {norm:g}, γ_I = {graph:g}", fontsize=9)
        axes.set(xscale="log", xlabel="iterations")
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    legend(panels[len(shown)])
    panels[len(shown)].legend(frameon=False, fontsize=8, loc="center left")
    figure.savefig(path, dpi=100)


def _errors_panel(axes: Any, result: Result) -> None:
    """Mean errors over splits, Newton's, and the ends of early stops."""
    mean = np.mean([trace.errors for trace in result.traces or ()], axis=0)
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
    axes.set(ylabel="error %")
    lowest = np.nanmin(mean)
    axes.set_ylim(0.7 * lowest, min(4.0 * float(np.nanmax(levels)), 1.05 * np.nanmax(mean)))


def _errors_legend(axes: Any) -> None:
    for part, color in COLORS.items():
        axes.plot([], [], color=color, label=part)
    axes.plot([], [], color="black", lw=0.8, ls=":", label="Newton")
    for rule, marker in MARKERS.items():
        axes.plot([], [], marker, **_HOLLOW, label=f"where {rule} stops, on the test points")


def _stops_panel(axes: Any, result: Result) -> None:
    """Sizes relative to the zero function, shares that changed class, and ends, by mean."""
    traces = result.traces or ()
    sizes = np.exp(np.mean([np.log(trace.sizes) for trace in traces], axis=0))
    for column, color in zip(sizes.T, SIZE_COLORS.values(), strict=True):
        axes.plot(np.arange(1, len(sizes) + 1), column, color=color, lw=1.2)
    changed = np.mean([trace.changed for trace in traces], axis=0)
    checks = traces[0].every * np.arange(1, changed.size + 1)
    axes.plot(checks[changed > 0], changed[changed > 0], **CHANGED)
    axes.axhline(STABLE_SHARE, color=CHANGED["color"], lw=0.8, ls=":")
    for rule, style in ENDS.items():
        end = np.mean([run.n_iter for run in result.runs[f"PCG {rule}"]])
        axes.axvline(end, color="black", lw=0.8, ls=style)
    axes.axvline(result.settled(), **SETTLED)
    axes.set(yscale="log", ylabel="relative size", ylim=(max(1e-5, sizes.min() / 2), 3.0))


def _stops_legend(axes: Any) -> None:
    for name, color in SIZE_COLORS.items():
        axes.plot([], [], color=color, label=name)
    axes.plot([], [], **CHANGED, label="share of unlabeled that changed class")
    axes.plot([], [], color=CHANGED["color"], lw=0.8, ls=":", label="its limit, 1.5 %")
    for rule, style in ENDS.items():
        axes.plot([], [], color="black", lw=0.8, ls=style, label=f"where {rule} stops")
    axes.plot([], [], **SETTLED, label="error within half a point of the last")
