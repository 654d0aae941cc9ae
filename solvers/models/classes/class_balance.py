"""Class sizes: which ones are requested, and offsets under which arg max gives them (H3)."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray, RealArray
from peewit.solvers.labels import Labels

ClassShares: TypeAlias = Literal["none", "labels", "estimated"] | Mapping[str | int, float]
"""Class sizes: free, those of the labels, estimated by models that can, or numbers in proportion to
the known sizes."""

GivenShares: TypeAlias = Literal["estimated", "labels"] | Mapping[str | int, float]
"""Class shares among all nodes: estimated where need be, those of the labels, or known ones."""

BALANCE_DOC = (
    "'labels' offsets classes until each wins the share of the nodes that it has among the "
    'labels. An object such as {"spam": 2, "ham": 1} offsets them until each wins its '
    "known share. 'none' leaves class sizes free."
)

_MAX_NAMES = 5
_TOLERANCE = 1e-3
_MAX_CYCLES = 60
_PATIENCE = 3
_LARGE_MISS = 0.02
_NEXT_TO_NOTHING = 1e-200


def read_class_shares(name: str, setting: ClassShares, labels: Labels) -> FloatArray | None:
    """(n_classes,) requested shares of the nodes, with sum 1; None where sizes are free.

    Classes are compared as text, since JSON has no other keys. Shares of classes without label are
    left out. ``name`` is the hyperparameter's, for the error. Raises ValueError if a labeled class
    has no share.
    """
    if not isinstance(setting, Mapping):
        return labels.class_prior() if setting == "labels" else None
    by_class = {class_text(label): share for label, share in setting.items()}
    for label in labels.class_names:
        if str(label) not in by_class:
            raise ValueError(
                f"{name} must name every class that is labeled, got no share for {label!r}, but "
                f"for {', '.join(by_class)}"
            )
    shares = np.array([by_class[str(label)] for label in labels.class_names], dtype=np.float64)
    shares /= shares.max()  # so that their sum is finite
    shares = np.maximum(shares, _NEXT_TO_NOTHING)
    return shares / float(shares.sum())


def completed_shares(name: str, setting: ClassShares, labels: Labels) -> FloatArray | None:
    """As `read_class_shares`, where classes may be without a share.

    These share the rest as the labels have them. Raises ValueError where there is no rest, or where
    no class that is labeled has a share.
    """
    if isinstance(setting, Mapping):
        given = {class_text(label): share for label, share in setting.items()}
        is_given = np.array([str(label) in given for label in labels.class_names])
        if not is_given.any():
            raise ValueError(
                f"{name} must name a class that is labeled, got {', '.join(given)}; labels have "
                f"{', '.join(map(str, labels.class_names[:_MAX_NAMES]))}"
            )
        if not is_given.all():
            rest, prior = 1.0 - sum(given.values()), labels.class_prior()
            if rest <= 0.0:
                other = labels.class_names[int(np.argmin(is_given))]
                raise ValueError(
                    f"{name} must leave a part of 1 to classes without a share, as {other!r} is, "
                    f"got shares that sum to {sum(given.values()):g}"
                )
            parts = np.where(is_given, 0.0, prior) * (rest / prior[~is_given].sum())
            names = zip(map(str, labels.class_names), parts.tolist(), strict=True)
            whole: dict[str | int, float] = {label: given.get(label, part) for label, part in names}
            return read_class_shares(name, whole, labels)
    return read_class_shares(name, setting, labels)


def unknown_classes(name: str, setting: object, labels: Labels) -> str | None:
    """A warning about requested classes that no label has, or None.

    ``name`` is the hyperparameter's.
    """
    if not isinstance(setting, Mapping):
        return None
    known = {str(label) for label in labels.class_names}
    unknown = sorted({class_text(label) for label in setting} - known)
    if not unknown:
        return None
    return f"{name} names {', '.join(map(repr, unknown))}, which no label has; it was left out"


def class_text(name: str | float) -> str:
    """A class name as text; a whole number has no decimal point."""
    is_whole = isinstance(name, float) and name.is_integer()
    return str(int(name)) if is_whole else str(name)


def share_miss(scores: RealArray, shares: FloatArray) -> float:
    """Largest difference between the share that a class wins and its requested share."""
    return float(np.abs(_won(scores) - shares).max())


def balance_warnings(
    setting: ClassShares, labels: Labels, stats: Mapping[str, float | int | str]
) -> tuple[str, ...]:
    """Warnings about ``class_balance`` after a solve with these ``stats``."""
    messages = []
    unknown = unknown_classes("class_balance", setting, labels)
    if unknown is not None:
        messages.append(unknown)
    miss = float(stats.get("share_miss", 0.0))
    if miss > _LARGE_MISS:
        messages.append(
            f"class_balance is missed by {miss:.2f} of the nodes for one class. Its labels "
            "reach no more nodes, or nodes are too much alike to choose which to move; "
            "label more nodes, or ask for other shares"
        )
    return tuple(messages)


def class_offsets(
    scores: RealArray, lower: FloatArray, upper: FloatArray, first: FloatArray | None = None
) -> FloatArray:
    """(n_classes,) offsets b for which argmax_k scores_ik + b_k keeps every share within bounds.

    Parameters
    ----------
    scores : (n_nodes, n_classes)
        Minus infinity where a class must not win.
    lower, upper : (n_classes,)
        Bounds on the share of the nodes that each class wins; equal ones fix it.
    first : (n_classes,) or None
        Offsets to start from, zeros by default.

    Notes
    -----
    Of all partitions within the bounds the arg max has the largest sum of scores, and b are the
    multipliers of the bounds: above 0 only for a class at its lower bound, below 0 only for one at
    its upper bound. Their dual is minimized one class at a time, each exactly, by a quantile of
    what its nodes lack to win, until shares are within 1e-3 or get no nearer. Where equal rows
    would have to be shared out, no offsets reach the shares; the best ones seen are returned, and
    `share_miss` measures the rest.

    References
    ----------
    (H3); Calder, Cook, Thorpe and Slepcev (2020), section 2.3; Jacobs, Merkurjev and Esedoglu
    (2018), whose auction has the same prices.
    """
    columns = np.ascontiguousarray(scores.T)
    n_classes, n_nodes = columns.shape
    least, most = np.floor(lower * n_nodes), np.ceil(upper * n_nodes)
    offsets = np.zeros(n_classes) if first is None else first.copy()
    best, best_miss, since = offsets, np.inf, 0
    for _ in range(_MAX_CYCLES):
        won = np.bincount(_shift(columns, offsets).argmax(axis=0), minlength=n_classes)
        lacks = np.where(offsets < 0, most, least) - won
        excess = won - np.where(offsets > 0, least, most)
        off = np.maximum(lacks, excess) / n_nodes
        miss = float(off.max())
        since = 0 if miss < best_miss else since + 1
        if since == 0:
            best, best_miss = offsets.copy(), miss
        if best_miss <= _TOLERANCE or since == _PATIENCE:
            break
        for k in np.argsort(-off)[: np.count_nonzero(off > _TOLERANCE)]:
            offsets[k] = _own_offset(columns, offsets, int(k), int(least[k]), int(most[k]))
        offsets = _moved_as_one(offsets, lower, upper)
    return best


def _moved_as_one(offsets: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """The offsets plus the constant that lowers their dual most; it changes no arg max."""
    order = np.argsort(-offsets)
    below = np.append(0.0, np.cumsum((upper - lower)[order]))
    slopes = 1.0 - float(upper.sum()) + below  # the first classes above 0, the others below
    if slopes[-1] - slopes[0] <= _TOLERANCE:
        return offsets
    n_above = min(max(int(np.searchsorted(slopes, 0.0)), 1), offsets.size)
    return np.asarray(offsets - offsets[order[n_above - 1]])


def _own_offset(columns: RealArray, offsets: FloatArray, k: int, least: int, most: int) -> float:
    """The offset nearest to 0 with which class ``k`` wins ``least`` to ``most`` nodes (H3)."""
    others = np.arange(len(columns)) != k
    lack = _shift(columns[others], offsets[others]).max(axis=0) - columns[k]
    n_always = int(np.count_nonzero(lack == -np.inf))
    lack = lack[np.isfinite(lack)]
    n_won = n_always + int(np.count_nonzero(lack < 0))
    wanted = min(max(n_won, least), most)
    place = min(max(wanted - n_always, 0), lack.size)
    if wanted == n_won or lack.size == 0:
        return 0.0
    # halfway between the last node that wins and the first that does not
    ends = np.unique(np.clip([place - 1, place], 0, lack.size - 1))
    return float(np.partition(lack, ends)[ends].mean())


def _shift(columns: RealArray, offsets: FloatArray) -> RealArray:
    return np.asarray(columns + offsets[:, None].astype(columns.dtype))


def _won(scores: RealArray) -> FloatArray:
    """(n_classes,) share of the rows that each class wins."""
    return np.bincount(scores.argmax(axis=1), minlength=scores.shape[1]) / len(scores)
