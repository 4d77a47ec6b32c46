"""The paper's claims as tables: every test with its effect and interval, and the verdicts protocol by protocol."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from palimpsest.analysis.claims import CLAIMS, PREDICTS, SMALL, SMALL_SHARE, Finding, overall
from palimpsest.analysis.names import short
from palimpsest.errors import NothingFinished
from palimpsest.figures.text_table import TextTable, number

_HOW = (
    "Intervals: 95 %, from validation examples (for accuracy and the MCC of two classes) and trials drawn again "
    "together (claim 1: for all k at once; claim 3: for all blocks of all pairs of tasks, shares less their mean over "
    "blocks; claim 2: of correlations that noise has shrunk). Supported: away from zero "
    f"as claimed (claim 2: correlations below {PREDICTS} times what noise would leave of a perfect one). Contradicted: "
    f"away from zero the other way, or surely smaller than {SMALL} (claim 3: {SMALL_SHARE} of the gain)."
)


def claims(claims: Sequence[Any]) -> TextTable:
    """One row per test of a claim, and the verdict on each claim after its tests."""
    findings = _tested(claims)
    many = len({f.protocol for f in findings}) > 1
    verdicts = overall(findings)
    rows = []
    for claim in CLAIMS:
        for protocol in dict.fromkeys(f.protocol for f in findings if f.claim == claim):
            own = [short(protocol)] if many else []
            for f in (f for f in findings if (f.claim, f.protocol) == (claim, protocol)):
                bounds = "–" if math.isnan(f.low) else f"({number(f.low)}, {number(f.high)})"
                verdict = f.verdict + (f": {f.reason}" if f.reason else "")
                rows.append([str(claim), *own, f.about, f.measure, number(f.effect), bounds, verdict])
            rows.append([str(claim), *own, "claim as a whole", "", "", "", verdicts[protocol, claim].upper()])
    data = pd.DataFrame([dataclasses.asdict(f) for f in findings], columns=_fields())
    columns = ["Claim", *(["Protocol"] if many else []), "Where", "Effect", "Size", "95 % interval", "Verdict"]
    return TextTable(columns, rows, data, note=_note(), right=frozenset({"Size", "95 % interval"}))


def claims_by_protocol(claims: Sequence[Any]) -> TextTable:
    """One row per protocol, one column per claim: which claims depend on what was done?"""
    findings = _tested(claims)
    verdicts = overall(findings)
    protocols = list(dict.fromkeys(f.protocol for f in findings))
    rows = [[short(p), *(verdicts.get((p, c), "–") for c in CLAIMS)] for p in protocols]
    data = pd.DataFrame(
        [{"protocol": p, **{f"claim_{c}": verdicts.get((p, c)) for c in CLAIMS}} for p in protocols],
        columns=["protocol", *(f"claim_{c}" for c in CLAIMS)],
    )
    return TextTable(["Protocol", *(f"Claim {c}" for c in CLAIMS)], rows, data, note=_note())


def _tested(findings: Sequence[Finding]) -> list[Finding]:
    """Findings of protocols under which at least one claim could be looked at; all of them if there is none."""
    if not findings:
        raise NothingFinished("nothing finished yet that the claims could be tested on; run the study first")
    able = {f.protocol for f in findings if not math.isnan(f.effect)}
    return [f for f in findings if f.protocol in able or not able]


def _fields() -> list[str]:
    return [field.name for field in dataclasses.fields(Finding)]


def _note() -> str:
    return "\n".join([*(f"{number}. {text}" for number, text in CLAIMS.items()), _HOW])
