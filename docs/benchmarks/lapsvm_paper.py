"""Do Laplacian SVMs in the primal show here what Melacci and Belkin (JMLR 2011) show?

``python -m docs.benchmarks.lapsvm_paper`` measures SVM, RLSC, LapRLSC, LapSVM in the dual, by
Newton and by conjugate gradients with every stop, on G50C (the paper's protocol, and the ten splits
that came with the set), USPST, USPST(B), PCMAC and MNIST3VS8, read from the folder that
``PEEWIT_DATA`` names. Errors stand beside the paper's and beside those of an earlier reproduction
("repr."). Labels are drawn in proportion to the classes, on USPST(B) to the ten digits, which gives
the paper's errors on G50C and USPST; labels at random (``--draw random``) cost up to four points.
The paper's PCMAC file is not at hand. ``--figure DIR`` draws error against iterations.

Below 3,000 points each method has the pair of penalties with the least mean validation error over
all splits, of a grid of 49; above, the paper's pair. "LapSVM Newton" and the dual factor one matrix
for all steps and classes, "Newton (E7)" one for each, as the paper does. Seconds are CPU seconds of
training alone.

Other sets come by ``--file``: an npz with ``X`` and ``y``, or a CSR matrix ``NAME.npz`` with ``y``
in ``NAME_labels.npz``. COIL20 and FACEMIT have the paper's settings as
``--file COIL20.npz --sizes 40 40 360 --width .6 --neighbors 2 --power 1 --penalties 1e-6 1`` and
``--file FACEMIT.npz --sizes 2 50 6997 --width 4.3 --neighbors 6 --power 1 --penalties 1e-6 1e-8
--macro --precision float32 --methods SVM PCG``.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
from rich.console import Console

from docs.benchmarks.lapsvm.cases import Case, Joined
from docs.benchmarks.lapsvm.methods import (
    Run,
    conjugate_gradients,
    factored,
    printed_newton,
    supervised,
    trace,
)
from docs.benchmarks.lapsvm.penalties import (
    LAPLACIAN,
    NORMS,
    PAIRS,
    SUPERVISED,
    Pair,
    best_pair,
    laplacian_errors,
    supervised_errors,
)
from docs.benchmarks.lapsvm.published import PUBLISHED
from docs.benchmarks.lapsvm.report import Result, draw, error_table, time_table
from docs.benchmarks.lapsvm.sets import DEFAULT_SPLITS, SETS, DataSet, DrawName, Setting, from_file
from peewit.solvers.arrays import FloatArray
from peewit.solvers.gram.kernel_functions import KERNELS
from peewit.solvers.svm.regularized_problem import BIASES

GRID_ROWS = 3_000
QUICK_ROWS, QUICK_SPLITS = 600, 2
PRINTED = "Newton (E7)"
METHODS = (*SUPERVISED, *LAPLACIAN, PRINTED, "PCG")
PAPERS = ", paper's pair"


class Experiment:
    """A set with its splits.

    Parameters
    ----------
    data : DataSet
    options : argparse.Namespace
        As `main` reads them.
    """

    def __init__(self, data: DataSet, options: argparse.Namespace) -> None:
        n_splits = options.splits or DEFAULT_SPLITS.get(data.name, 12)
        if options.quick:
            data, n_splits = data.thinned(QUICK_ROWS), QUICK_SPLITS
        self._data, self._options = data, options
        self._methods = options.methods or [
            name for name in METHODS if name != PRINTED or data.n_rows < GRID_ROWS
        ]
        self._cases = [
            Case(data, split, np.dtype(options.precision))
            for split in data.splits(n_splits, options.draw)
        ]

    def pairs(self, known: dict[str, Pair]) -> dict[str, Pair]:
        """Penalties of each method: of least validation error, or else those that are known.

        A set without validation points takes ``known`` ones, which another set has found.
        """
        asked = self._methods
        pairs = dict.fromkeys(asked, self._data.setting.penalties)
        if self._cases[0].n_validation == 0:
            return pairs | {name: pair for name, pair in known.items() if name in pairs}
        errors: dict[str, list[FloatArray]] = defaultdict(list)
        factored_ones = [name for name in LAPLACIAN if name in asked]
        if {"PCG", PRINTED} & {*asked} and "LapSVM Newton" not in asked:
            factored_ones.append("LapSVM Newton")
        for case in self._cases:
            found = supervised_errors(case, self._options.bias)
            if self._data.n_rows < GRID_ROWS and factored_ones:
                found |= laplacian_errors(case, self._options.bias, factored_ones)
            for name, own in found.items():
                errors[name].append(own)
        for name, of_splits in errors.items():
            pairs[name] = best_pair(NORMS if name in SUPERVISED else PAIRS, of_splits)
        if "LapSVM Newton" in pairs:
            pairs["PCG"] = pairs[PRINTED] = pairs["LapSVM Newton"]
        return {name: pairs[name] for name in asked}

    def result(self, pairs: dict[str, Pair]) -> Result:
        """Everything measured, split by split."""
        runs: dict[str, list[Run]] = defaultdict(list)
        seconds, traces = [], []
        for case in self._cases:
            joined = case.joined()
            seconds.append((joined.gram_seconds, joined.graph_seconds))
            for name, run in self._split(case, joined, pairs).items():
                runs[name].append(run)
            if "PCG" in pairs and self._options.figure and case.n_validation:
                traces.append(trace(case, joined, pairs["PCG"], self._options.bias))
        gram, graph = np.array(seconds).T
        used = pairs | {name: pairs["PCG"] for name in runs if name.startswith("PCG ")}
        used |= {name: self._data.setting.penalties for name in runs if name.endswith(PAPERS)}
        return Result(
            name=self._data.name,
            setting=self._data.setting,
            n_rows=self._data.n_rows,
            n_trained=self._cases[0].n_rows,
            runs=runs,
            pairs=used,
            gram_seconds=gram,
            graph_seconds=graph,
            traces=np.array(traces) if traces else None,
        )

    def _split(self, case: Case, joined: Joined, pairs: dict[str, Pair]) -> dict[str, Run]:
        options = self._options
        runs: dict[str, Run] = {}
        for name in SUPERVISED:
            if name in pairs:
                runs[name] = supervised(case, name, pairs[name][0], options.bias)
        by_pair: dict[Pair, list[str]] = defaultdict(list)
        for name in LAPLACIAN:
            if name in pairs:
                by_pair[pairs[name]].append(name)
        for pair, names in by_pair.items():
            runs |= factored(case, joined, names, pair, options.bias)
        papers = self._data.setting.penalties
        is_papers = self._data.name.removesuffix("-published") in PUBLISHED
        if is_papers and pairs.get("LapSVM Newton", papers) != papers:
            again = factored(case, joined, ["LapSVM Newton"], papers, options.bias)
            runs["LapSVM Newton" + PAPERS] = again["LapSVM Newton"]
        if PRINTED in pairs and options.bias == "none":
            runs[PRINTED] = printed_newton(case, joined, pairs[PRINTED])
        if "PCG" in pairs:
            runs |= conjugate_gradients(case, joined, pairs["PCG"], options.bias, options.max_iter)
        order = (*SUPERVISED, *LAPLACIAN, "LapSVM Newton" + PAPERS, PRINTED, *runs)
        return {name: runs[name] for name in dict.fromkeys(order) if name in runs}


def data_sets(options: argparse.Namespace) -> list[DataSet]:
    """The sets asked for, those of files with the settings of the options."""
    names = options.set
    if names is None:
        names = [] if options.file else list(SETS)
    data = [SETS[name]() for name in names]
    n_labeled, n_validation, n_test = options.sizes
    setting = Setting(
        n_labeled=n_labeled,
        n_validation=n_validation,
        n_test=n_test,
        kernel=options.kernel,
        width=options.width,
        degree=options.degree,
        n_neighbors=options.neighbors,
        power=options.power,
        is_macro=options.macro,
    )
    if options.penalties:
        setting = replace(setting, penalties=tuple(options.penalties))
    return data + [from_file(path, setting) for path in options.file]


def measure(data: Sequence[DataSet], options: argparse.Namespace, console: Console) -> None:
    """Two tables for each set, and the figure."""
    known: dict[str, dict[str, Pair]] = {}
    results = []
    for each in data:
        experiment = Experiment(each, options)
        pairs = experiment.pairs(known.get(each.name.removesuffix("-published"), {}))
        known[each.name] = pairs
        results.append(experiment.result(pairs))
        console.print(error_table(results[-1]))
        console.print(time_table(results[-1]))
        if options.figure and any(result.traces is not None for result in results):
            draw(results, options.figure / "lapsvm_pcg.png")


def main() -> None:
    """Run the experiments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", nargs="+", choices=tuple(SETS), help="default all")
    parser.add_argument("--file", type=Path, nargs="+", default=[], help="other sets")
    parser.add_argument("--splits", type=int, help="default 12, of mnist3vs8 6")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=METHODS,
        help="default all, above 3,000 points without Newton (E7)",
    )
    draws = get_args(DrawName)
    parser.add_argument("--draw", choices=draws, default="stratified", help="of labels")
    parser.add_argument("--bias", choices=BIASES, default="none")
    parser.add_argument("--precision", choices=("float32", "float64"), default="float64")
    parser.add_argument("--max-iter", type=int, default=1_000, help="of PCG to the optimum")
    parser.add_argument("--figure", type=Path, help="folder for lapsvm_pcg.png")
    parser.add_argument("--quick", action="store_true", help="600 points, two splits")
    files = parser.add_argument_group("settings of --file")
    files.add_argument("--sizes", type=int, nargs=3, default=(50, 50, 500), metavar=("L", "V", "T"))
    files.add_argument("--kernel", choices=KERNELS, default="gaussian")
    files.add_argument("--width", type=float, help="sigma; found from the features without")
    files.add_argument("--degree", type=int, default=9)
    files.add_argument("--neighbors", type=int, default=10)
    files.add_argument("--power", type=int, default=2)
    files.add_argument("--penalties", type=float, nargs=2, help="above 3,000 points; 1e-2 1")
    files.add_argument("--macro", action="store_true", help="mean of the classes' errors")
    options = parser.parse_args()
    console = Console(width=200)
    try:
        data = data_sets(options)
    except FileNotFoundError as missing:
        console.print(f"skipped: {missing}")
        sys.exit(0)
    measure(data, options, console)


if __name__ == "__main__":
    main()
