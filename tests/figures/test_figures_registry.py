"""Kinds and options by name, and the files that drawings become."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from PIL import Image

from palimpsest.errors import PalimpsestError, SpecError, StoreError, UnknownName
from palimpsest.figures.kinds import FIGURES, TABLES
from palimpsest.figures.registry import check, draw, figure_of, table_of, tabulate
from palimpsest.specs.study import Drawing, Study

STUDY: dict[str, Any] = {
    "tasks": ["sst2"],
    "experiments": [{"kind": "incremental", "sizes": [500], "trials": 2}],
    "figures": [{"kind": "incremental"}, {"kind": "incremental", "options": {"interval": "2sigma"}}],
}


def svg(figure: Any) -> str:
    """The figure's text as it is shown, without formulas."""
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, format="svg")
    return out.getvalue()


def test_figures_are_written_as_png_and_pdf(tables: Any, tmp_path: Path) -> None:
    made = tables(STUDY, depth=2)
    first, second = made.study.figures
    paths = draw(made.study, made.table, first, tmp_path / "new")
    assert [p.name for p in paths] == ["incremental-1.png", "incremental-1.pdf"]
    with Image.open(paths[0]) as image:
        assert round(image.info["dpi"][0]) == 300
    assert paths[1].read_bytes().startswith(b"%PDF")
    assert b"/Subtype /Type3" not in paths[1].read_bytes(), "Type 3 fonts are refused by many publishers"
    assert [p.name for p in draw(made.study, made.table, second, tmp_path)] == [
        "incremental-2.png",
        "incremental-2.pdf",
    ]


def test_drawing_again_gives_the_same_bytes(tables: Any, tmp_path: Path) -> None:
    made = tables(STUDY, depth=2)
    drawing = made.study.figures[0]
    before = [p.read_bytes() for p in draw(made.study, made.table, drawing, tmp_path)]
    assert [p.read_bytes() for p in draw(made.study, made.table, drawing, tmp_path)] == before


def test_drawing_leaves_matplotlib_as_it_was(tables: Any, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    made = tables(STUDY, depth=2)
    draw(made.study, made.table, made.study.figures[0], tmp_path)
    assert dict(mpl.rcParams) == before


def test_tables_are_written_in_four_forms(tables: Any, tmp_path: Path) -> None:
    made = tables(STUDY, depth=2)
    paths = tabulate(made.study, made.table, Drawing(kind="summary"), tmp_path)
    assert [p.name for p in paths] == ["summary.txt", "summary.md", "summary.csv", "summary.tex"]
    assert "SST-2" in paths[0].read_text()


def test_unknown_kinds_and_options(tables: Any) -> None:
    made = tables(STUDY, depth=2)
    with pytest.raises(UnknownName, match="Did you mean 'incremental'"):
        figure_of(made.table, Drawing(kind="incrementel"))
    with pytest.raises(UnknownName, match="Did you mean 'summary'"):
        table_of(made.table, Drawing(kind="sumary"))
    with pytest.raises(UnknownName, match=r"option of the figure incremental: 'intervall'.*Did you mean 'interval'"):
        figure_of(made.table, Drawing(kind="incremental", options={"intervall": "t"}))
    with pytest.raises(SpecError, match=r"option interval of the figure incremental: .*'t', '2sigma'.*given: 'z'"):
        figure_of(made.table, Drawing(kind="incremental", options={"interval": "z"}))
    with pytest.raises(SpecError, match="option probing"):
        figure_of(made.table, Drawing(kind="incremental", options={"probing": "perhaps"}))


def test_a_study_can_be_checked_before_it_is_run() -> None:
    good = Study.parse({"name": "s", **STUDY}, "test")
    check(good)
    with pytest.raises(UnknownName, match="unknown figure 'pie'"):
        check(good.model_copy(update={"figures": (Drawing(kind="pie"),)}))
    with pytest.raises(UnknownName, match="unknown table 'pie'"):
        check(good.model_copy(update={"tables": (Drawing(kind="pie"),)}))
    with pytest.raises(UnknownName, match="unknown option of the table summary: 'colour'"):
        check(good.model_copy(update={"tables": (Drawing(kind="summary", options={"colour": 1}),)}))


def test_a_figure_over_the_epochs_needs_looks_at_them_before_anything_is_run() -> None:
    def checked(option: dict[str, str], *experiments: dict[str, Any], **changes: Any) -> None:
        figures = [{"kind": "epochs", "options": option}]
        known = [{"kind": "incremental", **e} for e in experiments]
        check(
            Study.parse({"name": "s", "tasks": ["sst2"], "experiments": known, "figures": figures, **changes}, "test")
        )

    seen = {"protocol": {"evaluate": "epoch"}}
    checked({}, seen)
    checked({}, {}, **seen)
    checked({}, {"epochs": "converge"})
    checked({}, {"protocol": {"epochs": "converge"}})
    checked({"experiment": "long"}, {}, {"label": "long"} | seen)
    with pytest.raises(SpecError, match=r"s: the figure epochs needs .*--set protocol\.evaluate=epoch"):
        checked({}, {})
    with pytest.raises(SpecError, match=r"protocol: \{evaluate: epoch\}"):
        checked({"experiment": "long"}, seen, {"label": "long"})


@pytest.mark.parametrize(("what", "kinds"), [("figures", FIGURES), ("tables", TABLES)])
def test_every_registered_kind_exists_and_says_what_it_is(what: str, kinds: dict[str, str]) -> None:
    study = Study.parse(
        {"name": "s", **STUDY, "protocol": {"evaluate": "epoch"}} | {what: [{"kind": kind} for kind in kinds]}, "test"
    )
    check(study)


def test_a_place_that_cannot_be_written_to(tables: Any, tmp_path: Path) -> None:
    made = tables(STUDY, depth=2)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot write"):
        draw(made.study, made.table, made.study.figures[0], tmp_path / "file")


@pytest.mark.parametrize("name", ["$x_1$ & $y$", "a_b_c", "<b>bold</b>", r"back\slash\$", "été ≤ 5", "_hidden"])
def test_names_are_shown_literally(tables: Any, name: str) -> None:
    data = STUDY | {"tasks": [name]}
    experiment = data["experiments"][0] | {"label": name}
    made = tables(data | {"experiments": [experiment]}, depth=2)
    shown = svg(figure_of(made.table, Drawing(kind="incremental", title=f"On {name}")))
    escaped = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f">{escaped}<" in shown
    assert f">On {escaped}<" in shown


def test_scripts_that_the_font_lacks_do_not_stop_a_drawing(tables: Any, tmp_path: Path) -> None:
    made = tables(STUDY | {"tasks": ["情感 🎈"]}, depth=2)
    assert len(draw(made.study, made.table, made.study.figures[0], tmp_path)) == 2


def test_long_and_broken_names_are_shortened(tables: Any) -> None:
    made = tables(STUDY | {"tasks": ["line\nbreak " + "very " * 40 + "long"]}, depth=2)
    title = figure_of(made.table, Drawing(kind="incremental")).axes[0].get_title()
    assert title.startswith("line break very")
    assert len(title) <= 40


def test_material_besides_the_table(tables: Any) -> None:
    made = tables(STUDY | {"protocol": {"evaluate": "epoch"}}, depth=2)
    with pytest.raises(PalimpsestError, match="the figure epochs is drawn from epochs, which were not given"):
        figure_of(made.table, Drawing(kind="epochs"))
    assert len(figure_of(made.table, Drawing(kind="epochs"), epochs=made.epochs).axes) == 2
    assert len(figure_of(made.table, Drawing(kind="epochs"), epochs=lambda: made.epochs).axes) == 2
    # What a kind does not need is not computed.
    figure_of(made.table, Drawing(kind="incremental"), epochs=lambda: pytest.fail("not needed"))
    rows = [("sst2", 67349, 872, "sentence", "negative, positive", "accuracy")]
    assert table_of(made.table, Drawing(kind="datasets"), datasets=rows).rows[0][0] == "SST-2"
