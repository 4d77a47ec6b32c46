"""How people call things: tasks, metrics, sizes, layers."""

from __future__ import annotations

from palimpsest.specs.expansion import DIRECT
from palimpsest.specs.size import parse_size

TASKS = {
    "sst2": "SST-2",
    "cola": "CoLA",
    "qnli": "QNLI",
    "mrpc": "MRPC",
    "rte": "RTE",
    "wnli": "WNLI",
    "stsb": "STS-B",
    "qqp": "QQP",
    "mnli": "MNLI",
    "squad2": "SQuAD 2.0",
}
METRICS = {
    "accuracy": "Accuracy",
    "mcc": "MCC",
    "f1": "F1",
    "pearson": "Pearson r",
    "spearman": "Spearman ρ",
    "em": "Exact match",
    "has_answer_em": "Exact match where there is an answer",
    "has_answer_f1": "F1 where there is an answer",
    "no_answer_f1": "F1 where there is none",
    "best_f1": "F1 at the best threshold",
    "best_f1_threshold": "Threshold of the best F1",
    "best_em": "Exact match at the best threshold",
    "best_em_threshold": "Threshold of the best exact match",
}

_LONGEST = 40


def task_name(task: str) -> str:
    """The papers' spelling of a known task; other names as they are, shortened if very long."""
    return TASKS.get(task) or short(task)


def chain_name(chain: str) -> str:
    """What comes before a final task, or beside it: ``after MRPC, RTE``, ``with MRPC, RTE``, or ``direct``."""
    if chain == DIRECT:
        return chain
    how, names = ("with", chain.removeprefix("with ")) if chain.startswith("with ") else ("after", chain)
    return f"{how} {', '.join(task_name(name) for name in names.split(', '))}"


def mode_name(mode: str) -> str:
    """What is done to a block of layers, as it is spelt in sentences."""
    return {"reinitialized": "re-initialised"}.get(mode, mode)


def metric_name(metric: str) -> str:
    return METRICS.get(metric) or short(metric)


def printable(text: str) -> str:
    """A text from the user on one line, without characters that cannot be shown."""
    return "".join(c if c.isprintable() else " " for c in str(text))


def short(text: str) -> str:
    """A name from the user, of bearable length."""
    text = printable(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def size_order(label: str) -> tuple[int, float]:
    """Sorts size labels: counts by number, then fractions, then all."""
    size = parse_size(label)
    if size is None:
        return 2, 0.0
    return (1, size) if isinstance(size, float) else (0, float(size))


def size_name(label: str) -> str:
    return "all examples" if label == "all" else f"{label} of the examples" if "%" in label else f"{label} examples"


def span(first: int, last: int) -> str:
    """A block of layers: 1–3, or 4."""
    return str(first) if first == last else f"{first}–{last}"
