"""The tables of a set, ours beside the published ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from docs.benchmarks.frame import CONSOLE, Figures
from docs.benchmarks.lapsvm.cases import PARTS
from docs.benchmarks.lapsvm.methods import EARLY, SIZES, Run, Trace
from docs.benchmarks.lapsvm.penalties import Pair
from docs.benchmarks.lapsvm.published import PUBLISHED, Published, Spread
from docs.benchmarks.lapsvm.sets import Setting
from peewit.solvers.arrays import FloatArray

HALF_POINT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """A set with everything measured on it: a run of each method for every split, its penalties.

    ``traces`` are of conjugate gradients, one for each split.
    """

    name: str
    setting: Setting
    n_rows: int
    n_trained: int
    runs: Mapping[str, Sequence[Run]]
    pairs: Mapping[str, Pair]
    gram_seconds: FloatArray
    graph_seconds: FloatArray
    traces: Sequence[Trace] | None

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

    def settled(self) -> int:
        """The iteration from which on the mean test error stays within half a point of the last."""
        errors = np.mean([trace.errors[:, 2] for trace in self.traces or ()], axis=0)
        apart = np.flatnonzero(np.abs(errors - errors[-1]) > HALF_POINT)
        return int(apart[-1]) + 2 if apart.size else 1


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


def show_stops(result: Result) -> None:
    """Where conjugate gradients end, and how far they have come by then."""
    title = f"{result.name}: at the ends of conjugate gradients, relative to the zero function"
    columns = "|iterations {:.0f}|" + "|".join(f"{size} {{:.1e}}" for size in SIZES)
    table = Figures(
        f"{title}; means over splits, geometric ones of sizes",
        columns + "|changed % {:.2f}|test error {:.2f}",
        title_justify="left",
    )
    traces = result.traces or ()
    ends = {f"{rule} stops": [run.n_iter for run in result.runs[f"PCG {rule}"]] for rule in EARLY}
    ends["error within half a point"] = [result.settled()] * len(traces)
    ends["last"] = [len(trace.errors) for trace in traces]
    for name, places in ends.items():
        at = [(trace, int(place)) for trace, place in zip(traces, places, strict=True)]
        sizes = np.exp(np.mean([np.log(trace.sizes[place - 1]) for trace, place in at], axis=0))
        changed = [
            trace.changed[place // trace.every - 1]
            for trace, place in at
            if place % trace.every == 0
        ]
        errors = [trace.errors[place - 1, 2] for trace, place in at]
        table.add(
            name,
            np.mean(places),
            *sizes,
            100.0 * np.mean(changed) if changed else None,
            np.mean(errors),
        )
    CONSOLE.print(table)


def _pair(pair: Pair) -> str:
    return f"{pair[0]:g}, {pair[1]:g}" if pair[1] else f"{pair[0]:g}"


def _spread(spread: Spread) -> str:
    return "-" if np.isnan(spread[0]) else f"{spread[0]:.2f} ({spread[1]:.2f})"


def _deviation(values: FloatArray) -> float:
    return float(np.std(values, ddof=1)) if values.size > 1 else 0.0
