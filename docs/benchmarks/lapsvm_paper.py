"""Do Laplacian SVMs in the primal show here what Melacci and Belkin (JMLR 2011) show?

``python -m docs.benchmarks.lapsvm_paper`` measures SVM, RLSC, LapRLSC, LapSVM in the dual, by
Newton and by conjugate gradients with every stop, on G50C (the paper's protocol, and the ten splits
that came with the set), USPST, USPST(B), PCMAC and MNIST3VS8, read from the folder that
``PEEWIT_DATA`` names. Errors stand beside the paper's and beside those of an earlier reproduction
("repr."). Labels are drawn in proportion to the classes, on USPST(B) to the ten digits, which gives
the paper's errors on G50C and USPST; labels at random (``--draw random``) cost up to four points.
The paper's PCMAC file is not at hand. ``--figure DIR`` draws against iterations the errors, and the
sizes and shares that stop conjugate gradients.

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
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np

from docs.benchmarks.frame import options
from docs.benchmarks.lapsvm import methods, penalties
from docs.benchmarks.lapsvm.cases import Case, Joined
from docs.benchmarks.lapsvm.figures import draw
from docs.benchmarks.lapsvm.published import PUBLISHED
from docs.benchmarks.lapsvm.report import Result, show_errors, show_stops, show_times
from docs.benchmarks.lapsvm.sets import DEFAULT_SPLITS, SETS, DataSet, DrawName, Setting, from_file
from peewit.solvers.arrays import FloatArray
from peewit.solvers.gram.kernel_functions import KERNELS
from peewit.solvers.svm.regularized_problem import BIASES

GRID_ROWS = 3_000
QUICK_ROWS, QUICK_SPLITS = 600, 2
PRINTED = "Newton (E7)"
METHODS = (*penalties.SUPERVISED, *penalties.LAPLACIAN, PRINTED, "PCG")
PAPERS = ", paper's pair"


class Experiment:
    """A set with its splits, and options as `main` reads them."""

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

    def pairs(self, known: dict[str, penalties.Pair]) -> dict[str, penalties.Pair]:
        """Penalties of each method: of least validation error, or else those that are known.

        A set without validation points takes ``known`` ones, which another set has found.
        """
        asked = self._methods
        pairs = dict.fromkeys(asked, self._data.setting.penalties)
        if self._cases[0].n_validation == 0:
            return pairs | {name: pair for name, pair in known.items() if name in pairs}
        errors: dict[str, list[FloatArray]] = defaultdict(list)
        factored_ones = [name for name in penalties.LAPLACIAN if name in asked]
        if {"PCG", PRINTED} & {*asked} and "LapSVM Newton" not in asked:
            factored_ones.append("LapSVM Newton")
        for case in self._cases:
            found = penalties.supervised_errors(case, self._options.bias)
            if self._data.n_rows < GRID_ROWS and factored_ones:
                found |= penalties.laplacian_errors(case, self._options.bias, factored_ones)
            for name, own in found.items():
                errors[name].append(own)
        for name, of_splits in errors.items():
            pairs[name] = penalties.best_pair(
                penalties.NORMS if name in penalties.SUPERVISED else penalties.PAIRS, of_splits
            )
        if "LapSVM Newton" in pairs:
            pairs["PCG"] = pairs[PRINTED] = pairs["LapSVM Newton"]
        return {name: pairs[name] for name in asked}

    def result(self, pairs: dict[str, penalties.Pair]) -> Result:
        runs: dict[str, list[methods.Run]] = defaultdict(list)
        seconds, traces = [], []
        for case in self._cases:
            joined = case.joined()
            seconds.append((joined.gram_seconds, joined.graph_seconds))
            for name, run in self._split(case, joined, pairs).items():
                runs[name].append(run)
            if "PCG" in pairs and self._options.figure and case.n_validation:
                traces.append(methods.trace(case, joined, pairs["PCG"], self._options.bias))
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
            traces=traces or None,
        )

    def _split(
        self, case: Case, joined: Joined, pairs: dict[str, penalties.Pair]
    ) -> dict[str, methods.Run]:
        options = self._options
        runs: dict[str, methods.Run] = {}
        for name in penalties.SUPERVISED:
            if name in pairs:
                runs[name] = methods.supervised(case, name, pairs[name][0], options.bias)
        by_pair: dict[penalties.Pair, list[str]] = defaultdict(list)
        for name in penalties.LAPLACIAN:
            if name in pairs:
                by_pair[pairs[name]].append(name)
        for pair, names in by_pair.items():
            runs |= methods.factored(case, joined, names, pair, options.bias)
        papers = self._data.setting.penalties
        is_papers = self._data.name.removesuffix("-published") in PUBLISHED
        if is_papers and pairs.get("LapSVM Newton", papers) != papers:
            again = methods.factored(case, joined, ["LapSVM Newton"], papers, options.bias)
            runs["LapSVM Newton" + PAPERS] = again["LapSVM Newton"]
        if PRINTED in pairs and options.bias == "none":
            runs[PRINTED] = methods.printed_newton(case, joined, pairs[PRINTED])
        if "PCG" in pairs:
            runs |= methods.conjugate_gradients(
                case, joined, pairs["PCG"], options.bias, options.max_iter
            )
        order = (
            *penalties.SUPERVISED,
            *penalties.LAPLACIAN,
            "LapSVM Newton" + PAPERS,
            PRINTED,
            *runs,
        )
        return {name: runs[name] for name in dict.fromkeys(order) if name in runs}


def data_sets(options: argparse.Namespace) -> list[DataSet]:
    """The sets asked for, those of files with the settings of the options."""
    names = options.set
    if names is None:
        names = [] if options.file else list(SETS)
    data = [SETS[name]() for name in names or ()]
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
    return data + [from_file(path, setting) for path in options.file or ()]


def measure(data: Sequence[DataSet], options: argparse.Namespace) -> None:
    known: dict[str, dict[str, penalties.Pair]] = {}
    results = []
    for each in data:
        experiment = Experiment(each, options)
        pairs = experiment.pairs(known.get(each.name.removesuffix("-published"), {}))
        known[each.name] = pairs
        results.append(experiment.result(pairs))
        show_errors(results[-1])
        show_times(results[-1])
        if results[-1].traces:
            show_stops(results[-1])
            draw(results, options.figure)


def main() -> None:
    asked = options(
        __doc__,
        quick={"points": QUICK_ROWS, "splits": QUICK_SPLITS},
        set=([str], tuple(SETS), "default all"),
        file=([Path], "other sets"),
        splits=(int, "default 12, of mnist3vs8 6"),
        methods=([str], METHODS, "default all, above 3,000 points without Newton (E7)"),
        draw=("stratified", get_args(DrawName), "of labels"),
        bias=("none", BIASES),
        precision=("float64", ("float32", "float64")),
        max_iter=(1_000, "of PCG to the optimum"),
        figure=(Path, "folder for lapsvm_pcg.png and lapsvm_stops.png"),
        sizes=([50, 50, 500], "of --file: points labeled, for validation and tested on"),
        kernel=("gaussian", KERNELS, "of --file, as all that follow"),
        width=(float, "sigma; found from the features without"),
        degree=9,
        neighbors=10,
        power=2,
        penalties=([float], "above 3,000 points; 1e-2 1"),
        macro=(False, "mean of the classes' errors"),
    )
    measure(data_sets(asked), asked)


if __name__ == "__main__":
    main()
