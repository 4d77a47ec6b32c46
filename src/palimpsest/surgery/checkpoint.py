"""Surgery from checkpoint to checkpoint: an altered encoder that any training script can load."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from palimpsest.encoders.loading import load, quiet, without
from palimpsest.errors import PalimpsestError, SurgeryError
from palimpsest.specs.intervention import DeleteLayers, Intervention, PermuteLayers, Reinitialize, ReinitializeHeads
from palimpsest.specs.protocol import resolve
from palimpsest.surgery.operations import operate


def parse_layers(text: str, option: str, keep_order: bool = False) -> list[int]:
    """``9-12`` or ``1,3,5-7`` → layer numbers."""
    layers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if not match:
            raise SurgeryError(f"{option}: {part.strip()!r} is not a layer or a range of layers, like 3 or 9-12")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last > 10_000:
            raise SurgeryError(f"{option}: {part.strip()!r} is not a range of layers")
        layers += range(first, last + 1)
    return layers if keep_order else sorted(set(layers))


def parse_heads(text: str) -> list[tuple[int, int]]:
    """``1:4,9`` → heads 4 and 9 of layer 1."""
    layer, colon, heads = text.partition(":")
    if not colon or not layer.strip().isdecimal():
        raise SurgeryError(f"--reinit-heads: {text!r} is not LAYER:HEADS, like 1:4,9")
    return [(int(layer), head) for head in parse_layers(heads, "--reinit-heads")]


def _named(layers: Sequence[int]) -> str:
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def operate_on_checkpoint(
    model: str,
    out: Path,
    layers: Sequence[int],
    heads: Sequence[tuple[int, int]],
    order: Sequence[int] | None,
    protocol: str,
    seed: int,
    gone: Sequence[int] = (),
) -> list[str]:
    """Write the altered encoder and its tokeniser to `out`; returns what was done, in words.

    Layers are put in another `order` first: what is re-initialised is counted in the new one. Those that are `gone` are
    deleted last.
    """
    if not layers and not heads and not gone and order is None:
        raise SurgeryError("nothing to do: give --reinit, --permute, --reinit-heads or --delete")
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise SurgeryError(f"{out} exists and is not empty; choose another --out")
    law = resolve(protocol).initialiser
    interventions: list[Intervention] = []
    done = []
    encoder = load(model)
    if order is not None:
        if sorted(order) != list(range(1, encoder.anatomy.depth + 1)):
            listed = ",".join(map(str, order))
            raise SurgeryError(f"{listed} is not a permutation of this encoder's layers 1 to {encoder.anatomy.depth}")
        interventions.append(PermuteLayers(order=tuple(order)))
        done.append(f"layers in the order {', '.join(map(str, order))}")
    if layers:
        encoder.anatomy.check_layers(layers)
        interventions.append(Reinitialize(layers=tuple(layers)))
        done.append(f"{_named(layers)} re-initialised")
    if heads:
        encoder.anatomy.check_heads(heads)
        interventions.append(ReinitializeHeads(heads=tuple(heads)))
        done.append("heads " + ", ".join(f"{layer}:{head}" for layer, head in heads) + " re-initialised")
    if gone:
        encoder.anatomy.check_layers(gone)
        interventions.append(DeleteLayers(layers=tuple(gone)))
        done.append(f"{_named(gone)} deleted")
    state = operate(encoder.state, interventions, encoder.anatomy, law, seed)
    network = without(encoder, tuple(gone)).network() if gone else encoder.network()
    network.load_state_dict(state, strict=False)
    if not encoder.has_pooler and getattr(network, "pooler", None) is not None:
        network.pooler = None  # it would be one that nobody has trained
    try:
        out.mkdir(parents=True, exist_ok=True)
        with quiet():
            network.save_pretrained(out)
        encoder.tokenizer.save_pretrained(out)
        note = {
            "encoder": encoder.identity.name,
            "weights": encoder.identity.weights,
            "protocol": protocol,
            "seed": seed,
            "interventions": [i.canonical for i in interventions],
        }
        (out / "palimpsest.json").write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise PalimpsestError(f"cannot write {out}: {error.strerror or error}") from None
    return [*done, f"written to {out}"]
