"""How good predictions are. Every metric is a number up to 1 (SQuAD's too, which others give in percent)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata
from sklearn.metrics import f1_score, matthews_corrcoef

from palimpsest.tasks import squad
from palimpsest.tasks.base import Task

Values = npt.NDArray[np.generic]


def accuracy(targets: Values, predictions: Values) -> float:
    return float(np.mean(targets == predictions))


def f1(targets: Values, predictions: Values, classes: int = 2) -> float:
    """Of class 1 where there are two classes, else the mean over all classes (macro)."""
    if classes == 2:
        return float(f1_score(targets, predictions, labels=[0, 1], pos_label=1, average="binary", zero_division=0.0))
    return float(f1_score(targets, predictions, labels=list(range(classes)), average="macro", zero_division=0.0))


def mcc(targets: Values, predictions: Values) -> float:
    """Matthews' correlation coefficient; 0 when either side is constant."""
    if np.ptp(targets) == 0 or np.ptp(predictions) == 0:
        return 0.0
    return float(matthews_corrcoef(targets, predictions))


def pearson(targets: Values, predictions: Values) -> float:
    """0 when either side is constant, not a number when a prediction is none."""
    a, b = np.asarray(targets, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("nan")
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    # Scaling first keeps very small and very large values from under- and overflowing when squared.
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def spearman(targets: Values, predictions: Values) -> float:
    """Pearson's correlation of the ranks, ties sharing theirs."""
    if not np.isfinite(np.asarray(predictions, dtype=np.float64)).all():
        return float("nan")
    return pearson(rankdata(targets), rankdata(predictions))


_PLAIN: dict[str, Callable[[Values, Values], float]] = {
    "accuracy": accuracy,
    "mcc": mcc,
    "pearson": pearson,
    "spearman": spearman,
}


def score(task: Task, predictions: npt.ArrayLike | Sequence[str]) -> dict[str, float]:
    """The task's metrics, in its order, of predictions for its whole validation split.

    Predictions are class numbers, numbers, or answer texts ("" for none).
    """
    targets = task.validation.targets
    n = len(task.validation)
    given = len(predictions) if isinstance(predictions, Sequence) else len(np.asarray(predictions))
    if given != n:
        raise ValueError(f"{task.name}: {given} predictions for {n} validation examples")
    if not isinstance(targets, np.ndarray):
        em, f = squad.em_f1(list(predictions), targets)  # type: ignore[arg-type]  # spans are predicted as texts
        found = {"em": em, "f1": f}
        return {metric: found[metric] for metric in task.metrics}
    values = np.asarray(predictions)
    return {
        metric: f1(targets, values, len(task.labels)) if metric == "f1" else _PLAIN[metric](targets, values)
        for metric in task.metrics
    }
