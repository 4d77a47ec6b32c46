"""The four findings of Tamkin et al. 2020 as statements about numbers, each with an effect, an interval and a verdict.

They are tested protocol by protocol. All intervals come from validation examples and trials drawn again together (see
:mod:`palimpsest.analysis.resampling`); where a finding is about the largest of several differences, the interval holds
for all of them at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

from palimpsest.analysis.names import mode_name, size_order, span, task_name
from palimpsest.analysis.resampling import Evidence, Floats, Points, percentile, resample, simultaneous
from palimpsest.analysis.selection import depth, is_, unique
from palimpsest.analysis.statistics import finished

Verdict = Literal["supported", "contradicted", "not decided yet"]

CLAIMS = {
    1: "How much pretrained layers help depends on the amount of finetuning data.",
    2: "How well a layer can be probed does not tell how much its parameters help, the less so with more data.",
    3: "At equal size of the data, which layers help most differs between tasks.",
    4: "Shuffling the pretrained layers costs performance: what they learnt together matters.",
}
"""The numbered findings of the paper's introduction, in other words."""

SMALL = 0.02  # of a score: a difference that surely is smaller counts as none
SMALL_SHARE = 0.05  # of what pretraining gains
NOTHING = "pretraining has no sure benefit"
KNOWN = 0.05  # of a perfect rank correlation: where noise leaves less, there is no order to compare
PREDICTS = 0.7  # the rank correlation from which on probing may be said to predict: half of the variance of the ranks


@dataclass(frozen=True)
class Finding:
    """One test of a claim. `about` says where it was looked for.

    The parts of claim 2: "a", at the largest size; "b", the smallest against the largest; "smaller", to compare with.
    """

    claim: int
    part: str
    protocol: str
    about: str
    measure: str
    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    verdict: Verdict = "not decided yet"
    reason: str = ""


@dataclass(frozen=True)
class _Arm:
    """The finished trials under one protocol, and the number of layers."""

    protocol: str
    incremental: pd.DataFrame
    probing: pd.DataFrame
    localized: pd.DataFrame
    permutation: pd.DataFrame
    depth: int
    points: Callable[..., Points]


def claims(
    table: pd.DataFrame, evidence: Evidence | None = None, resamples: int = 1000, seed: int = 0
) -> list[Finding]:
    """Test the four claims on a tidy table (of one study or of several), under every protocol that it has.

    Where several experiments of a protocol could be used, the largest is. What is missing is said in `reason`.
    """
    known = evidence or Evidence()

    def points(rows: pd.DataFrame, by: Sequence[str], **how: Any) -> Points:
        return resample(rows, by, known, resamples, seed, **how)

    found: list[Finding] = []
    layers = depth(table)
    for protocol in unique(table["protocol"]):
        rows = table[is_(table, "protocol", protocol)]
        kinds = {kind: _largest(rows[is_(rows, "kind", kind)]) for kind in ("incremental", "probing", "permutation")}
        blocks = rows[is_(rows, "kind", "localized") & (rows["block_size"].fillna(1) > 1)]
        arm = _Arm(protocol, **kinds, localized=_largest(blocks), depth=layers, points=points)
        for test in (_data, _probing, _tasks, _order):
            found += test(arm)
    return sorted(found, key=lambda f: (f.claim, f.part))


def overall(findings: Iterable[Finding]) -> dict[tuple[str, int], Verdict]:
    """The verdict on each claim under each protocol.

    Claims about all tasks are contradicted by one of them; those about some (2: not "in general"; 3: "differ") are
    supported by one.
    """
    parts: dict[tuple[str, int], dict[str, list[Verdict]]] = {}
    for f in (f for f in findings if f.part != "smaller"):
        parts.setdefault((f.protocol, f.claim), {}).setdefault(f.part, []).append(f.verdict)
    return {
        key: _all([_any(v) if (key[1], part) in _EXISTENTIAL else _all(v) for part, v in by_part.items()])
        for key, by_part in parts.items()
    }


_EXISTENTIAL = {(2, "a"), (3, "")}


def _all(verdicts: Sequence[Verdict]) -> Verdict:
    if "contradicted" in verdicts:
        return "contradicted"
    return "supported" if set(verdicts) == {"supported"} else "not decided yet"


def _any(verdicts: Sequence[Verdict]) -> Verdict:
    if "supported" in verdicts:
        return "supported"
    return "contradicted" if set(verdicts) == {"contradicted"} else "not decided yet"


def _data(arm: _Arm) -> Iterator[Finding]:
    """Claim 1: the benefit of preserving k layers with the most data and with the least, at the k that tells most."""
    for task, rows in _by_task(arm.incremental):
        measure = "benefit of k layers, large minus small"
        ks = _layers_by_size(rows)
        sizes = _sure(rows, sorted((size for size in ks if 0 in ks[size]), key=size_order))
        common = sorted(ks[sizes[0]] & ks[sizes[-1]] - {0}) if sizes else []
        if len(sizes) < 2 or not common:
            yield _open(arm, 1, "", task_name(task), measure, "needs k = 0 and another k at two sizes")
            continue
        small, large = sizes[0], sizes[-1]
        both = rows[rows["size"].isin([small, large])]
        points = arm.points(both, ["size", "preserved"], at_once=len(common))
        means, draws = _stack(
            _minus(_minus(points.at(task, large, k), points.at(task, large, 0)),
                   _minus(points.at(task, small, k), points.at(task, small, 0))) for k in common
        )  # fmt: skip
        low, high = simultaneous(means, draws)
        best = _most_telling(means, low, high)
        about = f"{task_name(task)}, {large} against {small}, k = {common[best]}"
        whole = [_minus(points.at(task, size, common[-1]), points.at(task, size, 0)) for size in (small, large)]
        helps = any(percentile(draws)[0] > 0 for _, draws in whole)
        few = points.fewest() < 2
        yield _judged(arm, 1, "", about, measure, few, means, low, high, best, SMALL, helps)


def _probing(arm: _Arm) -> Iterator[Finding]:
    """Claim 2: over layers, the rank correlation of probing score and what preserving the layer adds, by size."""
    measure = "rank correlation of probing and gain"
    probes = dict(_by_task(arm.probing))
    for task, rows in _by_task(arm.incremental):
        ks = _layers_by_size(rows)
        everything = set(range(arm.depth + 1))
        sizes = sorted((size for size in ks if ks[size] >= everything), key=size_order)
        probed = {int(k) for k in probes[task]["layer"]} if task in probes else set()
        if not sizes or arm.depth < 3 or not probed >= everything - {0}:
            yield _open(arm, 2, "a", task_name(task), measure, "needs probes of all layers and a score for every k")
            continue
        points = arm.points(rows, ["size", "preserved"])
        probing = arm.points(probes[task], ["layer"])
        layers = range(1, arm.depth + 1)
        score, score_draws = _stack(probing.at(task, k) for k in layers)
        if np.ptp(score) == 0:
            yield _open(arm, 2, "a", task_name(task), measure, "all layers are probed equally well")
            continue
        found: dict[str, tuple[float, Floats]] = {}
        reach: dict[
            str, tuple[float, float]
        ] = {}  # what noise would leave of a perfect correlation, and of replicates'
        few = {size: min(points.fewest(task, size), probing.fewest()) < 2 for size in sizes}
        sure = _sure(rows, sizes)
        for size in sizes:
            gain, gain_draws = _gains(points, task, size, layers)
            found[size] = float(_spearman(gain[None], score[None])[0]), _spearman(gain_draws, score_draws)
            low, high = percentile(found[size][1])
            # Noise makes correlations small by itself: less than a perfect prediction would reach is what counts. It is
            # in the scores as measured, and once more in their replicates.
            once = _stability(*_gains(points.plainly(), task, size, layers))
            once *= _stability(*_stack(probing.plainly().at(task, k) for k in layers))
            reach[size] = once, once * _stability(gain, gain_draws) * _stability(score, score_draws)
            verdict: Verdict = "contradicted" if low > PREDICTS else "not decided yet"
            reason = ""
            if high < PREDICTS * reach[size][1]:
                verdict = "supported"
            elif high < PREDICTS:
                reason = "the order of the layers is not known well enough"
            part = "a" if size == sure[-1] else "smaller"
            about = f"{task_name(task)}, {size}"
            yield _finding(arm, 2, part, about, measure, found[size][0], low, high, verdict, few[size], reason)
        difference = "difference of these correlations"
        if len(sure) < 2:
            yield _open(arm, 2, "b", task_name(task), difference, "needs two sizes")
            continue
        small, large = sure[0], sure[-1]
        about = f"{task_name(task)}, {small} minus {large}"
        if min(reach[small][1], reach[large][1]) < KNOWN:
            yield _open(arm, 2, "b", about, difference, "the order of the layers is not known well enough")
            continue
        # The size with more noise has the smaller correlation by that alone: both are brought to its noise.
        (a, b), (c, d) = (_alike(reach[small][n], reach[large][n]) for n in (0, 1))
        effect = a * found[small][0] - b * found[large][0]
        low, high = percentile(c * found[small][1] - d * found[large][1])
        sparse = few[small] or few[large]
        yield _finding(arm, 2, "b", about, difference, effect, low, high, _sign(low, high), sparse)


def _tasks(arm: _Arm) -> Iterator[Finding]:
    """Claim 3: two tasks' profiles over blocks of layers, as shares of what pretraining gains, where farthest apart."""
    measure = "difference of a block's share of the gain"
    if arm.localized.empty:
        return
    size = max(unique(arm.localized["size"]), key=size_order)
    rows = arm.localized[is_(arm.localized, "size", size)]
    width = int(rows["block_size"].mode().iloc[0])
    rows = rows[is_(rows, "block_size", width)]
    ends = arm.incremental[is_(arm.incremental, "size", size) & arm.incremental["preserved"].isin([0, arm.depth])]
    profiles: dict[str, tuple[list[tuple[str, int]], Floats, Floats]] = {}
    places, tasks = rows[["mode", "first"]].drop_duplicates(), unique(rows["task"])
    compared = len(places) * max(1, len(tasks) * (len(tasks) - 1) // 2)
    blocks = arm.points(rows, ["mode", "first"], at_once=compared)
    baselines = arm.points(ends, ["preserved"])
    for task, _ in _by_task(rows):
        if (task, 0) not in baselines.places or (task, arm.depth) not in baselines.places:
            yield _open(arm, 3, "", task_name(task), measure, f"needs the full model and k = 0 at {size}")
            continue
        full, none = baselines.at(task, arm.depth), baselines.at(task, 0)
        gain = _minus(full, none)
        if percentile(gain[1])[0] <= 0:
            yield _open(arm, 3, "", task_name(task), measure, f"{NOTHING} that could be shared out")
            continue
        own = [(place[1], place[2]) for place in blocks.places if place[0] == task]
        parts = [
            _minus(full, blocks.at(task, *p)) if p[0] == "reinitialized" else _minus(blocks.at(task, *p), none)
            for p in own
        ]
        profiles[task] = (own, *_stack((mean / gain[0], draws / gain[1]) for mean, draws in parts))
    pairs: list[tuple[tuple[str, str], list[tuple[str, int]], Floats, Floats]] = []
    for a, b in itertools.combinations(profiles, 2):
        common = [p for p in profiles[a][0] if p in profiles[b][0]]
        (ma, da), (mb, db) = (_centred(profiles[t], common) for t in (a, b))
        pairs.append(((a, b), common, ma - mb, da - db))
    if not pairs:
        return
    # One pair that differs supports the claim: the bands hold for the blocks of all pairs at once.
    bands = simultaneous(np.concatenate([m for *_, m, _ in pairs]), np.concatenate([d for *_, d in pairs], axis=1))
    begin = 0
    for pair, common, means, _ in pairs:
        low, high = (band[begin : begin + len(common)] for band in bands)
        begin += len(common)
        best = _most_telling(means, low, high)
        mode, first = common[best]
        about = f"{' against '.join(map(task_name, pair))}, layers {span(first, first + width - 1)} {mode_name(mode)}"
        few = min(points.fewest(task) for points in (blocks, baselines) for task in pair) < 2
        yield _judged(arm, 3, "", about, measure, few, means, low, high, best, SMALL_SHARE)


def _order(arm: _Arm) -> Iterator[Finding]:
    """Claim 4: the mean over permutations, which are drawn again, minus the intact model on the same examples."""
    measure = "shuffled minus intact"
    if arm.permutation.empty:
        return
    size = max(unique(arm.permutation["size"]), key=size_order)
    rows = arm.permutation[is_(arm.permutation, "size", size)]
    ends = arm.incremental[is_(arm.incremental, "size", size) & arm.incremental["preserved"].isin([0, arm.depth])]
    shuffled, baselines = arm.points(rows, ["size"], unit="permutation"), arm.points(ends, ["preserved"])
    for task, _ in _by_task(rows):
        about = f"{task_name(task)}, {size}"
        if (task, arm.depth) not in baselines.places:
            yield _open(arm, 4, "", about, measure, f"needs the intact model at {size}")
            continue
        intact = baselines.at(task, arm.depth)
        effect, draws = _minus(shuffled.at(task, size), intact)
        low, high = percentile(draws)
        verdict: Verdict = "supported" if high < 0 else "contradicted" if low > -SMALL else "not decided yet"
        reason = ""
        if (task, 0) in baselines.places and percentile(_minus(intact, baselines.at(task, 0))[1])[0] <= 0:
            verdict, reason = (verdict, "") if verdict == "supported" else ("not decided yet", NOTHING)
        few = min(shuffled.fewest(task, size), baselines.fewest(task, arm.depth)) < 2
        yield _finding(arm, 4, "", about, measure, effect, low, high, verdict, few, reason)


def _largest(rows: pd.DataFrame) -> pd.DataFrame:
    """The finished rows of the experiment with the most of them, so that experiments are never mixed."""
    rows = rows[finished(rows) & rows["score"].notna()]
    if rows.empty:
        return rows
    sizes = rows.groupby(["study", "experiment"], sort=False)["id"].nunique()
    study, experiment = max(zip(sizes.index, sizes, strict=True), key=lambda item: item[1])[0]
    return rows[is_(rows, "study", study) & is_(rows, "experiment", experiment)]


def _sure(rows: pd.DataFrame, sizes: list[str]) -> list[str]:
    """Of these sizes, in order, those with two trials or more at every k; all of them, if that leaves less than two."""
    fewest = rows.groupby(["size", "preserved"])["id"].nunique().groupby("size").min()
    enough = [size for size in sizes if fewest[size] > 1]
    return enough if len(enough) > 1 else sizes


def _by_task(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for task in unique(rows["task"]):
        yield task, rows[is_(rows, "task", task)]


def _layers_by_size(rows: pd.DataFrame) -> dict[str, set[int]]:
    return {size: {int(k) for k in rows.loc[is_(rows, "size", size), "preserved"]} for size in unique(rows["size"])}


def _minus(a: tuple[float, Floats], b: tuple[float, Floats]) -> tuple[float, Floats]:
    return a[0] - b[0], a[1] - b[1]


def _stack(values: Iterable[tuple[float, Floats]]) -> tuple[Floats, Floats]:
    means, draws = zip(*values, strict=True)
    return np.array(means), np.stack(draws, axis=1)


def _centred(
    profile: tuple[list[tuple[str, int]], Floats, Floats], places: Sequence[tuple[str, int]]
) -> tuple[Floats, Floats]:
    """A profile at these places, less its mean in each mode: which layers matter, not how much all of them do."""
    columns = [profile[0].index(place) for place in places]
    means, draws = profile[1][columns].copy(), profile[2][:, columns].copy()
    for mode in {mode for mode, _ in places}:
        here = [i for i, place in enumerate(places) if place[0] == mode]
        means[here] -= means[here].mean()
        draws[:, here] -= draws[:, here].mean(axis=1, keepdims=True)
    return means, draws


def _most_telling(means: Floats, low: Floats, high: Floats) -> int:
    """Which of the numbers is farthest from zero, in widths of its band."""
    return int(np.argmax(np.abs(means) / np.maximum(high - low, 1e-12)))


def _spearman(a: Floats, b: Floats) -> Floats:
    """Row by row; 0 where a row is constant."""
    ranks = [stats.rankdata(x, axis=1) for x in (a, b)]
    x, y = (r - r.mean(axis=1, keepdims=True) for r in ranks)
    below = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    return np.asarray(np.where(below > 0, (x * y).sum(axis=1) / np.where(below > 0, below, 1), 0.0))


def _stability(means: Floats, draws: Floats) -> float:
    """The mean rank correlation of what was measured with its replicates: 1 when the order is certain."""
    return max(0.0, float(_spearman(draws, np.broadcast_to(means, draws.shape)).mean()))


def _gains(points: Points, task: str, size: str, layers: Iterable[int]) -> tuple[Floats, Floats]:
    """What preserving each layer adds to those below it."""
    return _stack(_minus(points.at(task, size, k), points.at(task, size, k - 1)) for k in layers)


def _alike(a: float, b: float) -> tuple[float, float]:
    """Factors that bring correlations which noise has shrunk to a and b of themselves to the smaller of the two."""
    return min(a, b) / a, min(a, b) / b


def _sign(low: float, high: float) -> Verdict:
    return "supported" if low > 0 else "contradicted" if high < 0 else "not decided yet"


def _open(arm: _Arm, claim: int, part: str, about: str, measure: str, reason: str) -> Finding:
    return Finding(claim, part, arm.protocol, about, measure, reason=reason)


def _finding(
    arm: _Arm, claim: int, part: str, about: str, measure: str, effect: float, low: float, high: float,
    verdict: Verdict, few: bool, reason: str = "",
) -> Finding:  # fmt: skip
    if few:
        verdict, reason = "not decided yet", "needs at least two trials at every point"
    return Finding(claim, part, arm.protocol, about, measure, float(effect), low, high, verdict, reason)


def _judged(
    arm: _Arm, claim: int, part: str, about: str, measure: str, few: bool, means: Floats, low: Floats,
    high: Floats, best: int, small: float, helps: bool = True,
) -> Finding:  # fmt: skip
    """Any difference supports the claim; that all are surely small contradicts it, if pretraining `helps` at all."""
    verdict: Verdict = "not decided yet"
    reason = ""
    if bool(((low > 0) | (high < 0)).any()):
        verdict = "supported"
    elif bool(((low > -small) & (high < small)).all()):
        verdict, reason = ("contradicted", "") if helps else ("not decided yet", NOTHING)
    bounds = float(low[best]), float(high[best])
    return _finding(arm, claim, part, about, measure, means[best], *bounds, verdict, few, reason)
