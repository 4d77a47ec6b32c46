"""A small table of results, as plain text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from palimpsest.analysis.names import printable

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "–": "--", "−": "$-$", "±": r"$\pm$", "σ": r"$\sigma$", "ρ": r"$\rho$", "…": r"\dots{}",
}  # fmt: skip


@dataclass(frozen=True)
class TextTable:
    """What is shown, and the numbers behind it (`data`, which is what the CSV file holds).

    `right` names the columns that are aligned to the right.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    data: pd.DataFrame
    title: str = ""
    note: str = ""
    right: frozenset[str] = frozenset()

    def text(self) -> str:
        """Aligned columns, for a terminal."""
        columns, rows = self._cells(printable)
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        rule = "  ".join("-" * w for w in widths)
        lines = [self._aligned(columns, widths), rule, *(self._aligned(row, widths) for row in rows)]
        return "\n".join([*([printable(self.title), ""] if self.title else []), *lines, *self._below(printable)]) + "\n"

    def markdown(self) -> str:
        columns, rows = self._cells(_markdown)
        widths = [max(3, *map(len, column)) for column in zip(columns, *rows, strict=True)]
        marks = [
            "-" * (w - 1) + ":" if name in self.right else "-" * w for name, w in zip(self.columns, widths, strict=True)
        ]
        lines = [f"| {' | '.join(cells)} |" for cells in (self._padded(columns, widths), marks)]
        lines += [f"| {' | '.join(self._padded(row, widths))} |" for row in rows]
        title = [f"**{_markdown(self.title)}**", ""] if self.title else []
        return "\n".join([*title, *lines, *self._below(_markdown)]) + "\n"

    def latex(self) -> str:
        """A tabular environment that needs no package."""
        columns, rows = self._cells(_latex)
        kinds = "".join("r" if name in self.right else "l" for name in self.columns)
        lines = [f"\\begin{{tabular}}{{{kinds}}}", "\\hline", " & ".join(columns) + " \\\\", "\\hline"]
        lines += [" & ".join(row) + " \\\\" for row in rows]
        comments = [f"% {printable(text)}" for text in (self.title, self.note) if text]
        return "\n".join([*comments, *lines, "\\hline", "\\end{tabular}"]) + "\n"

    def csv(self) -> str:
        """The numbers, in full precision."""
        return str(self.data.to_csv(index=False, lineterminator="\n"))

    def _cells(self, show: Callable[[str], str]) -> tuple[list[str], list[list[str]]]:
        return [show(c) for c in self.columns], [[show(cell) for cell in row] for row in self.rows]

    def _padded(self, cells: Sequence[str], widths: Sequence[int]) -> list[str]:
        return [
            cell.rjust(w) if name in self.right else cell.ljust(w)
            for name, cell, w in zip(self.columns, cells, widths, strict=True)
        ]

    def _aligned(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        return "  ".join(self._padded(cells, widths)).rstrip()

    def _below(self, show: Callable[[str], str]) -> list[str]:
        return ["", *(show(part) for part in self.note.split("\n"))] if self.note else []


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|$&~#])", r"\\\1", printable(text))


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in printable(text))


def number(value: float, digits: int = 3) -> str:
    """A score as tables show it; a dash when there is none."""
    return "–" if pd.isna(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # no minus before a zero


def probability(p: float) -> str:
    """A p value as tables show it: never as zero."""
    return "<0.001" if p < 0.0005 else number(p)
