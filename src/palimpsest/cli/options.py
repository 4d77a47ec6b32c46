"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palimpsest.errors import UnknownName

StudyArg = Annotated[
    str, typer.Argument(metavar="STUDY", help="A shipped study (see `palimpsest studies`) or a YAML file.")
]
StoreOpt = Annotated[
    str,
    typer.Option(
        "--store", metavar="DIR_OR_URL", help="Where results are kept: a directory, s3://…; an archive, to look at it."
    ),
]
DataOpt = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Directory with GLUE's TSV or SQuAD's JSON files; without it, the hub."),
]
ModelOpt = Annotated[
    str | None, typer.Option("--model", metavar="NAME_OR_DIR", help="Another encoder than the study's.")
]
SetOpt = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the study: sizes=500,5000  trials=10  protocol.epochs=5 …"),
]
FirstOpt = Annotated[
    int | None,
    typer.Option(
        "--first",
        min=1,
        metavar="N",
        help="Only the first N trials of every point; a later run with more adds to them.",
    ),
]
DeviceOpt = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to train.")]
ClaimsOpt = Annotated[
    bool, typer.Option("--claims", help="Test the four claims of Tamkin et al. 2020 on all of the study's trials.")
]
PublishedOpt = Annotated[bool, typer.Option("--published", help="Lay published numbers beside, where there are any.")]
OutOpt = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go.")]
DEFAULT_STORE = "palimpsest-store"
DEVICES = ("auto", "cpu", "cuda")


def check_choice(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise UnknownName(what, given, known)
