"""Commands that make encoders: surgery, pretrain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palimpsest.cli.options import DeviceOpt
from palimpsest.cli.terminal import new_console


def surgery(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A hub name, a checkpoint directory or a built-in encoder.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the altered checkpoint goes.")],
    reinit: Annotated[
        str | None, typer.Option("--reinit", metavar="LAYERS", help="Layers to re-initialise: 9-12 or 1,3,5-7.")
    ] = None,
    permute: Annotated[
        str | None, typer.Option("--permute", metavar="ORDER", help="New order of the layers: 3,1,2,…")
    ] = None,
    reinit_heads: Annotated[
        list[str] | None,
        typer.Option("--reinit-heads", metavar="LAYER:HEADS", help="Heads to re-initialise: 1:4,9 (repeatable)."),
    ] = None,
    delete: Annotated[
        str | None, typer.Option("--delete", metavar="LAYERS", help="Layers to take out, after all else: 9-11.")
    ] = None,
    protocol: Annotated[str, typer.Option("--protocol", help="Whose law of initialisation.")] = "paper",
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
) -> None:
    """Alter an encoder's layers or heads and write it as an ordinary Hugging Face checkpoint."""
    from palimpsest.surgery.checkpoint import operate_on_checkpoint, parse_heads, parse_layers

    heads = [pair for text in reinit_heads or [] for pair in parse_heads(text)]
    order = parse_layers(permute, "--permute", keep_order=True) if permute else None
    layers = parse_layers(reinit, "--reinit") if reinit else []
    gone = parse_layers(delete, "--delete") if delete else []
    for line in operate_on_checkpoint(model, out, layers, heads, order, protocol, seed, gone):
        typer.echo(line)


def pretrain(
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", help="Plain text, a paragraph per line; .gz, .xz and .bz2 are read too.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the checkpoint goes.")],
    teacher: Annotated[
        str | None,
        typer.Option("--teacher", metavar="NAME_OR_DIR", help="An encoder to imitate; without one, masked words only."),
    ] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", help="Budget of training time.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Budget in optimiser steps, instead of minutes.")] = None,
    layers: Annotated[int, typer.Option("--layers", help="Depth; a teacher's layers are spread over it.")] = 12,
    hidden: Annotated[int, typer.Option("--hidden", help="Width.")] = 160,
    heads: Annotated[int, typer.Option("--heads")] = 4,
    vocabulary: Annotated[int, typer.Option("--vocabulary", help="Entries of the WordPiece vocabulary.")] = 16_000,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", metavar="FILE", help="A tokenizer.json to use instead of a new one.")
    ] = None,
    max_length: Annotated[
        int, typer.Option("--max-length", help="Tokens in a row, and positions of the network.")
    ] = 128,
    mlm_weight: Annotated[
        float | None, typer.Option("--mlm-weight", help="Masked words in the loss; 0 with a teacher, else 1.")
    ] = None,
    learning_rate: Annotated[float, typer.Option("--learning-rate")] = 2e-3,
    warmup_steps: Annotated[int, typer.Option("--warmup-steps")] = 300,
    batch_tokens: Annotated[int, typer.Option("--batch-tokens", help="Tokens in a batch.")] = 65_536,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    name: Annotated[str, typer.Option("--name", help="Title of the model card.")] = "",
    corpus_note: Annotated[str, typer.Option("--corpus-note", help="What the corpus is, for the model card.")] = "",
    licence: Annotated[str, typer.Option("--licence", help="Licence of the weights, for the model card.")] = "other",
    device: DeviceOpt = "auto",
    afresh: Annotated[bool, typer.Option("--afresh", help="Do not go on with an interrupted run.")] = False,
    prepare_only: Annotated[
        bool, typer.Option("--prepare-only", help="Stop when tokeniser and rows are there: needs no GPU.")
    ] = False,
) -> None:
    """Pretrain a small BERT on a corpus: masked words, or layer by layer from a teacher. Ctrl-C and go on later."""
    from palimpsest.execution.worker import pick_device
    from palimpsest.pretraining import PretrainSettings
    from palimpsest.pretraining import pretrain as train
    from palimpsest.pretraining.display import Display

    settings = PretrainSettings.parse(
        {
            "minutes": minutes, "steps": steps, "layers": layers, "hidden": hidden, "heads": heads,
            "vocabulary": vocabulary, "max_length": max_length, "mlm_weight": mlm_weight,
            "learning_rate": learning_rate, "warmup_steps": warmup_steps, "batch_tokens": batch_tokens, "seed": seed,
            "name": name, "corpus_note": corpus_note, "licence": licence,
        },
        "pretrain",
    )  # fmt: skip
    console = new_console()
    with Display(console) as display:
        try:
            done = train(
                corpus, out, settings=settings, teacher=teacher, tokenizer=tokenizer, device=pick_device(device),
                resume=not afresh, prepare_only=prepare_only, progress=display.show,
            )  # fmt: skip
        except KeyboardInterrupt:
            display.stop()
            console.print("Stopped. The same command goes on from the last saved state.")
            raise typer.Exit(130) from None
    typer.echo(done)
    if not prepare_only:
        typer.echo(f"Next: palimpsest run demo --model {done}")
