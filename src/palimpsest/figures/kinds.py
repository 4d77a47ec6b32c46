"""The kinds of figures and tables by name, and where each is. Imports nothing heavy."""

from __future__ import annotations

from palimpsest.errors import UnknownName
from palimpsest.specs.study import Study

FIGURES = {
    "incremental": "incremental:incremental",
    "overlay": "overlay:overlay",
    "localized": "localized:localized",
    "single": "localized:single",
    "permutation": "permutation:permutation",
    "scatter": "scatter:scatter",
    "comparison": "comparison:comparison",
    "side-by-side": "side_by_side:side_by_side",
    "epochs": "epochs:epochs",
    "schematic": "schematic:schematic",
    "probing": "probing:probing",
    "drift": "drift:drift",
    "cka": "drift:cka",
    "curves": "curves:curves",
    "variants": "variants:variants",
    "heads": "heads:heads",
    "sequential": "sequential:sequential",
}
"""Where each kind of figure is: module and function, loaded when first drawn."""

TABLES = {
    "summary": "tables:summary",
    "by-layer": "by_layer:by_layer",
    "gains": "gains:gains",
    "differences": "comparison:differences",
    "correlations": "correlations:correlations",
    "datasets": "tables:datasets",
    "runtime": "runtime:runtime",
    "heads-difference": "heads:heads_difference",
    "heads-by-layer": "heads:heads_by_layer",
    "heads-by-head": "heads:heads_by_head",
    "heads-tests": "heads:heads_tests",
    "sequential-matrix": "sequential:sequential_matrix",
    "sequential-tests": "sequential:sequential_tests",
    "claims": "claims:claims",
    "claims-by-protocol": "claims:claims_by_protocol",
}


def check_kinds(study: Study) -> None:
    """Complain about drawings of kinds that there are none of."""
    for what, kinds, drawings in (("figure", FIGURES, study.figures), ("table", TABLES, study.tables)):
        for drawing in drawings:
            if drawing.kind not in kinds:
                raise UnknownName(what, drawing.kind, kinds)
