"""The four claims, in worlds where they are true, where they are false, and where nobody can know yet."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from palimpsest.analysis.claims import CLAIMS, Finding, claims, overall
from palimpsest.analysis.resampling import Evidence, resample
from palimpsest.analysis.table import COORDINATES

DEPTH = 6
RIGHT = {task: np.random.default_rng(i).integers(0, 2, 1500) for i, task in enumerate(("sst2", "qnli"))}
HARDEST = {task: np.random.default_rng(9).permutation(1500) for task in RIGHT}  # everybody fails at the same examples
Score = Callable[[dict[str, Any]], float]


def world(score: Score, trials: int = 3, noise: float = 0.004, protocols: tuple[str, ...] = ("paper",)) -> Any:
    """The tidy table of a paper whose scores are these, and its predictions."""
    rows, predictions = [], {}
    for protocol in protocols:
        for task in RIGHT:
            points: list[dict[str, Any]] = [
                {"kind": "incremental", "size": size, "preserved": k}
                for size in ("500", "5k")
                for k in range(DEPTH + 1)
            ]
            points += [{"kind": "probing", "size": "all", "layer": k} for k in range(DEPTH + 1)]
            points += [
                {"kind": "localized", "size": "5k", "mode": mode, "first": first, "block_size": 2}
                for mode in ("reinitialized", "preserved") for first in range(1, DEPTH)
            ]  # fmt: skip
            points += [{"kind": "permutation", "size": "5k", "permutation": n} for n in range(1, 6)]
            for point in points:
                for trial in [point["permutation"]] if point["kind"] == "permutation" else range(trials):
                    at = {"study": "s", "experiment": point["kind"], "task": task, "protocol": protocol, **point}
                    id = str(len(rows))
                    stream = np.random.default_rng(len(rows))
                    wrong = round((1 - score(at) - stream.normal(0, noise)) * 1500)
                    guess = RIGHT[task].copy()
                    flipped = HARDEST[task][:wrong]
                    guess[flipped] = 1 - guess[flipped]
                    predictions[id] = guess.astype(np.uint8)
                    rows.append({**at, "trial": trial, "id": id, "status": "finished", "metric": "accuracy",
                                 "score": 1 - wrong / 1500, "interventions": "[]"})  # fmt: skip
    table = pd.DataFrame(rows, columns=[*COORDINATES, "id", "interventions", "status", "metric", "score"])
    counts = {name: "Int64" for name, kind in COORDINATES.items() if kind == "count"}
    return table.astype(counts), Evidence(predictions, RIGHT)


def as_claimed(at: dict[str, Any]) -> float:
    """Much data: early layers give all. Few data: late ones, where probing is good, too. Tasks and order matter."""
    match at["kind"]:
        case "incremental":
            share = at["preserved"] / DEPTH
            return 0.55 + (0.4 * share**0.3 if at["size"] == "5k" else 0.3 * share**3)
        case "probing":
            return 0.5 + 0.35 * (at["layer"] / DEPTH) ** 2
        case "localized":
            early = at["first"] <= 2
            loss = 0.25 if early == (at["task"] == "sst2") else 0.02
            return 0.95 - loss if at["mode"] == "reinitialized" else 0.55 + loss
        case _:
            return 0.6


def otherwise(at: dict[str, Any]) -> float:
    """The same profile at every size and for every task, just as probing says, and order is nothing."""
    match at["kind"]:
        case "incremental":
            return 0.55 + 0.3 * (at["preserved"] / DEPTH) ** 2
        case "probing":
            return 0.5 + 0.35 * (at["layer"] / DEPTH) ** 2
        case "localized":
            return 0.75 if at["mode"] == "reinitialized" else 0.65
        case _:
            return 0.85


def judged(score: Score, **options: Any) -> tuple[list[Finding], dict[int, str]]:
    table, evidence = world(score, **options)
    found = claims(table, evidence, resamples=400)
    return found, {claim: verdict for (_, claim), verdict in overall(found).items()}


def test_a_world_as_claimed_supports_all_four() -> None:
    found, verdicts = judged(as_claimed)
    assert verdicts == dict.fromkeys(CLAIMS, "supported")
    for f in found:
        assert f.low <= f.high
        assert f.protocol == "paper"
    order = {f.about: f for f in found if f.claim == 4}
    assert set(order) == {"SST-2, 5k", "QNLI, 5k"}
    assert order["SST-2, 5k"].effect == pytest.approx(0.6 - 0.95, abs=0.01)
    [pair] = [f for f in found if f.claim == 3]
    assert abs(pair.effect) > 0.3


def test_the_more_tasks_are_compared_the_wider_the_bands() -> None:
    """One pair of tasks that differs supports claim 3: with more pairs one of them looks different sooner."""
    table, evidence = world(as_claimed)
    third = table[table["task"] == "qnli"].assign(task="cola")
    two, three = (claims(t, evidence, resamples=400) for t in (table, pd.concat([table, third])))
    [alone] = [f for f in two if f.claim == 3]
    pairs = [f for f in three if f.claim == 3]
    among = next(f for f in pairs if f.about == alone.about)
    assert len(pairs) == 3
    assert among.effect == alone.effect
    assert among.high - among.low > alone.high - alone.low


def test_another_world_contradicts_them() -> None:
    _, verdicts = judged(otherwise, noise=0.0005, trials=8)
    assert verdicts[1] == "contradicted"
    assert verdicts[2] == "contradicted"
    assert verdicts[3] == "contradicted"
    assert verdicts[4] == "contradicted"


def test_noise_leaves_everything_open() -> None:
    found, verdicts = judged(otherwise, noise=0.08)
    assert verdicts[1] == verdicts[2] == verdicts[3] == "not decided yet"
    assert verdicts[4] != "supported"
    # Noise alone makes correlations small: that says nothing about probing.
    assert not [f for f in found if f.claim == 2 and f.verdict == "supported"]
    assert any("order of the layers" in f.reason for f in found if f.claim == 2)


def test_one_trial_decides_nothing() -> None:
    found, verdicts = judged(as_claimed, trials=1)
    assert set(verdicts.values()) == {"not decided yet"}
    assert {f.reason for f in found if not math.isnan(f.effect)} == {"needs at least two trials at every point"}


def test_a_size_with_one_trial_does_not_hold_up_the_others() -> None:
    table, evidence = world(as_claimed)
    once = table[(table["kind"] == "incremental") & (table["size"] == "5k") & (table["trial"] == 0)]
    found = claims(pd.concat([table, once.assign(size="50k")]), evidence, resamples=400)
    assert {verdict for _, verdict in overall(found).items()} == {"supported"}
    assert {f.about.split(", k")[0] for f in found if f.claim == 1} == {"SST-2, 5k against 500", "QNLI, 5k against 500"}
    reasons = {f.about: f.reason for f in found if f.claim == 2}
    assert reasons["SST-2, 50k"] == "needs at least two trials at every point"
    assert not reasons["SST-2, 5k"]


def test_claim_2_is_about_two_sizes() -> None:
    table, evidence = world(as_claimed)
    found = claims(table[table["size"] != "500"], evidence, resamples=400)
    assert {f.verdict for f in found if f.claim == 2 and f.part == "a"} == {"supported"}
    assert {f.reason for f in found if f.claim == 2 and f.part == "b"} == {"needs two sizes"}
    assert overall(found)["paper", 2] == "not decided yet"


def test_probes_that_are_all_alike_have_no_order() -> None:
    found, verdicts = judged(lambda at: 0.5 if at["kind"] == "probing" else as_claimed(at), noise=0.0)
    assert {f.reason for f in found if f.claim == 2} == {"all layers are probed equally well"}
    assert verdicts[2] == "not decided yet"


def test_what_is_missing_is_said() -> None:
    table, evidence = world(as_claimed)
    large = claims(table[(table["kind"] == "incremental") & (table["size"] == "5k")], evidence, resamples=50)
    assert {(f.claim, f.reason) for f in large} == {
        (1, "needs k = 0 and another k at two sizes"),
        (2, "needs probes of all layers and a score for every k"),
    }
    shuffled = claims(table[table["kind"] == "permutation"], evidence, resamples=50)
    assert {f.reason for f in shuffled} == {"needs the intact model at 5k"}
    table.loc[table["kind"] == "permutation", "status"] = "missing"
    assert not [f for f in claims(table, evidence, resamples=50) if f.claim == 4]
    assert claims(table.iloc[:0], evidence) == []


def test_protocols_are_judged_one_by_one() -> None:
    def score(at: dict[str, Any]) -> float:
        return as_claimed(at) if at["protocol"] == "paper" else otherwise(at)

    table, evidence = world(score, noise=0.0005, trials=5, protocols=("paper", "released-code"))
    verdicts = overall(claims(table, evidence, resamples=300))
    assert verdicts["paper", 4] == "supported"
    assert verdicts["released-code", 4] == "contradicted"
    assert verdicts["paper", 1] == "supported"
    assert verdicts["released-code", 1] != "supported"


def test_experiments_are_never_mixed() -> None:
    """Trials of a longer training stand under the same protocol's name; the larger experiment counts."""
    table, evidence = world(as_claimed)
    longer = table[(table["kind"] == "incremental") & table["preserved"].isin([0, 6])].copy()
    longer[["study", "id", "score"]] = ["appendix", "other", 0.1]
    both = claims(pd.concat([table, longer]), evidence, resamples=100)
    assert both == claims(table, evidence, resamples=100)


def test_an_experiment_that_has_not_run_does_not_stand_in_for_one_that_has() -> None:
    table, evidence = world(as_claimed)
    planned = pd.concat([table, table])
    planned["study"], planned["status"], planned["score"] = "larger", "missing", float("nan")
    planned["id"] = [f"planned {n}" for n in range(len(planned))]
    both = claims(pd.concat([planned, table]), evidence, resamples=100)
    assert both == claims(table, evidence, resamples=100)


def test_the_rank_correlation_is_scipys() -> None:
    table, evidence = world(as_claimed)
    [found] = [f for f in claims(table, evidence, resamples=50) if f.claim == 2 and f.about == "SST-2, 5k"]
    mine = table[table["task"] == "sst2"]
    points = resample(mine[(mine["kind"] == "incremental") & (mine["size"] == "5k")], ["preserved"], evidence, 10)
    probes = resample(mine[mine["kind"] == "probing"], ["layer"], evidence, 10)
    gains = np.diff([points.at("sst2", k)[0] for k in range(DEPTH + 1)])
    scores = [probes.at("sst2", k)[0] for k in range(1, DEPTH + 1)]
    assert found.effect == pytest.approx(stats.spearmanr(gains, scores).statistic)
    assert found.low <= found.effect <= found.high


def test_noise_at_one_size_is_no_difference_between_sizes() -> None:
    """Probing tells as much at both sizes; but at 5k layers add less, and that is known from three trials only."""
    order = [2, 1, 3, 5, 4, 6]

    def alike(at: dict[str, Any]) -> float:
        match at["kind"]:
            case "incremental":
                return 0.6 + (0.012 if at["size"] == "500" else 0.004) * sum(order[: at["preserved"]])
            case "probing":
                return 0.6 + 0.03 * at["layer"]
            case _:
                return 0.65

    table, _ = world(alike, trials=30, noise=0)
    scarce = table["kind"].eq("incremental") & table["size"].eq("5k") & table["trial"].gt(2)
    tuned = table["kind"].eq("incremental")
    verdicts = []
    for n in range(8):
        noisy = table.assign(score=table["score"] + tuned * np.random.default_rng(n).normal(0, 0.012, len(table)))
        found = claims(noisy[~scarce], resamples=200)
        verdicts += [f.verdict for f in found if (f.claim, f.part) == (2, "b")]
    assert len(verdicts) == 16
    assert verdicts.count("supported") <= 3


def test_a_gain_known_from_one_trial_divides_nothing() -> None:
    table, evidence = world(as_claimed, trials=4)
    gone = table["kind"].eq("incremental") & table["preserved"].isin([0, DEPTH]) & table["trial"].gt(0)
    pairs = [f for f in claims(table[~gone], evidence, resamples=200) if f.claim == 3]
    assert {f.reason for f in pairs} == {"needs at least two trials at every point"}


def test_what_learns_nothing_contradicts_nothing() -> None:
    found, verdicts = judged(lambda _: 0.5, noise=0.0)
    assert "contradicted" not in verdicts.values()
    assert {f.reason for f in found if f.claim in (1, 4)} == {"pretraining has no sure benefit"}


def test_blocks_of_two_sizes_are_not_averaged() -> None:
    table, evidence = world(as_claimed)
    wide = table[table["kind"].eq("localized") & table["first"].lt(3)]
    wide = wide.assign(block_size=4, id="wide" + wide["id"], score=0.1)
    before, after = (claims(t, evidence, resamples=200) for t in (table, pd.concat([wide, table])))
    assert [f for f in before if f.claim == 3] == [f for f in after if f.claim == 3]
