"""Figures to stand beside ours: the paper's, and an earlier reproduction's (section E.4)."""

from dataclasses import dataclass, field

Spread = tuple[float, float]
"""Mean and standard deviation, percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What is known of a set.

    ``errors`` of each method are on unlabeled, validation and test points; ``seconds`` are of dual,
    Newton and conjugate gradients stopped early (2.33 GHz, Matlab); ``reproduced`` are ranges of
    test errors of the earlier reproduction; figures can be asked for where ``is_same_data``.
    """

    errors: dict[str, tuple[Spread, Spread, Spread]] = field(default_factory=dict)
    seconds: tuple[float, float, float] | None = None
    n_steps: float | None = None
    reproduced: dict[str, Spread] = field(default_factory=dict)
    is_same_data: bool = False


PUBLISHED = {
    "g50c": Published(
        errors={
            "SVM": ((9.33, 2.0), (9.83, 3.46), (10.06, 2.8)),
            "RLSC": ((10.43, 5.26), (10.17, 4.86), (11.21, 4.98)),
            "LapRLSC": ((6.03, 1.32), (6.17, 3.66), (6.54, 2.11)),
            "LapSVM dual": ((5.52, 1.15), (5.67, 2.67), (5.51, 1.65)),
            "LapSVM Newton": ((6.16, 1.48), (6.17, 3.46), (7.27, 2.87)),
        },
        seconds=(0.155, 0.134, 0.043),
        n_steps=1.0,
        reproduced={"SVM": (9.9, 9.9), "LapRLSC": (5.95, 5.95), "LapSVM Newton": (5.95, 5.95)},
        is_same_data=True,
    ),
    "uspst-b": Published(
        errors={
            "SVM": ((17.0, 2.74), (18.17, 5.94), (17.1, 3.21)),
            "RLSC": ((17.21, 3.02), (17.5, 5.13), (17.27, 2.72)),
            "LapRLSC": ((8.87, 1.88), (10.17, 4.55), (9.42, 2.51)),
            "LapSVM dual": ((8.84, 2.2), (8.67, 4.38), (9.68, 2.48)),
            "LapSVM Newton": ((8.72, 2.15), (9.33, 3.85), (9.42, 2.34)),
        },
        seconds=(1.196, 1.473, 0.300),
        n_steps=4.17,
        reproduced={"SVM": (20.4, 20.4), "LapRLSC": (13.0, 13.0), "LapSVM Newton": (13.0, 13.0)},
        is_same_data=True,
    ),
    "uspst": Published(
        errors={
            "SVM": ((23.84, 3.26), (24.67, 4.54), (23.6, 2.32)),
            "RLSC": ((23.95, 3.53), (25.33, 4.03), (24.01, 3.43)),
            "LapRLSC": ((15.12, 2.9), (14.67, 3.94), (16.44, 3.53)),
            "LapSVM dual": ((14.36, 2.55), (15.17, 4.04), (14.91, 2.83)),
            "LapSVM Newton": ((14.98, 2.88), (15.0, 3.57), (15.38, 3.55)),
        },
        seconds=(12.25, 17.74, 2.03),
        n_steps=4.26,
        reproduced={"SVM": (28.1, 28.1), "LapRLSC": (18.4, 18.4), "LapSVM Newton": (18.9, 18.9)},
        is_same_data=True,
    ),
    "pcmac": Published(
        errors={
            "SVM": ((19.65, 6.91), (20.83, 6.85), (20.09, 6.91)),
            "RLSC": ((19.63, 6.91), (20.67, 6.95), (20.04, 6.93)),
            "LapRLSC": ((9.67, 0.74), (7.67, 4.08), (9.34, 1.5)),
            "LapSVM dual": ((10.78, 1.83), (9.17, 4.55), (11.05, 2.94)),
            "LapSVM Newton": ((9.68, 0.77), (7.83, 4.04), (9.37, 1.51)),
        },
        seconds=(14.82, 15.76, 1.97),
        n_steps=2.33,
        reproduced={"SVM": (25.6, 25.6), "LapRLSC": (19.1, 19.1), "LapSVM Newton": (19.2, 19.2)},
    ),
    "mnist3vs8": Published(
        errors={
            "SVM": ((8.82, 1.11), (7.92, 4.73), (8.22, 1.36)),
            "RLSC": ((8.82, 1.11), (7.92, 4.73), (8.22, 1.36)),
            "LapRLSC": ((1.95, 0.05), (1.67, 1.44), (1.8, 0.3)),
            "LapSVM dual": ((2.29, 0.17), (1.67, 1.44), (1.98, 0.15)),
            "LapSVM Newton": ((2.2, 0.14), (1.67, 1.44), (2.02, 0.22)),
        },
        seconds=(2064.0, 2824.0, 114.4),
        n_steps=5.0,
        reproduced={"SVM": (5.4, 7.5), "LapRLSC": (1.86, 1.86), "LapSVM Newton": (2.06, 2.06)},
        is_same_data=True,
    ),
    "COIL20B": Published(
        errors={
            "SVM": ((16.23, 2.63), (18.54, 6.2), (15.93, 3.0)),
            "RLSC": ((16.22, 2.64), (18.54, 6.17), (15.97, 3.02)),
            "LapRLSC": ((8.07, 2.05), (7.92, 3.96), (8.59, 1.9)),
            "LapSVM dual": ((8.31, 2.19), (8.13, 4.01), (8.68, 2.04)),
            "LapSVM Newton": ((8.16, 2.04), (7.92, 3.96), (8.56, 1.9)),
        },
        seconds=(0.311, 0.367, 0.097),
        n_steps=2.67,
        is_same_data=True,
    ),
    "COIL20": Published(
        errors={
            "SVM": ((29.49, 2.24), (31.46, 7.79), (28.98, 2.74)),
            "RLSC": ((29.51, 2.23), (31.46, 7.79), (28.96, 2.72)),
            "LapRLSC": ((10.35, 2.3), (9.79, 4.94), (11.3, 2.17)),
            "LapSVM dual": ((10.51, 2.06), (9.79, 4.94), (11.44, 2.39)),
            "LapSVM Newton": ((10.54, 2.03), (9.79, 4.94), (11.32, 2.19)),
        },
        seconds=(6.32, 7.26, 3.49),
        n_steps=2.67,
        is_same_data=True,
    ),
}
