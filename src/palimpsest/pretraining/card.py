"""The model card of a pretrained network: made from the facts that its run left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palimpsest.encoders.identity import BUILT_IN

Facts = dict[str, Any]

_LOAD = """```python
from transformers import AutoModel, AutoTokenizer
{imports}
directory = {directory}
model, tokenizer = AutoModel.from_pretrained(directory), AutoTokenizer.from_pretrained(directory)
```"""

_DISTILLED = (
    "The network imitates its teacher layer by layer: hidden states are averaged over the pieces of each word on both "
    "sides, so the two vocabularies need not agree, and the loss of layer k is "
    "‖linear_k(student) − layernorm(teacher)‖². The linear maps are not part of the checkpoint."
)

_LIMITS = """\
- Inputs of more than {max_length} pieces must be truncated: there are no further positions.
- It knows lower-case text without accents, and has learnt what its corpus says of people and the world, right or wrong.
- Pretraining saw single segments; the embedding of the second segment is a copy of the first until it is finetuned.
- There is no pooler and no language modelling head. It is meant for research on layers, not for use in products."""


def write_card(directory: Path, *, results: str = "") -> Path:
    """Write ``README.md`` of a checkpoint directory from its ``pretraining.json``; `results` is Markdown to add."""
    facts: Facts = json.loads((directory / "pretraining.json").read_text())
    settings = facts["settings"]
    name = settings["name"] or directory.name
    parts = [
        f"---\nlicense: {settings['licence']}\nlibrary_name: transformers\ntags: [bert, palimpsest]\n---",
        f"# {name}",
        f"A small uncased BERT: {settings['layers']} layers, hidden size {settings['hidden']}, {settings['heads']} "
        f"heads, a WordPiece vocabulary of {settings['vocabulary']:,} entries, {facts['parameters'] / 1e6:.1f} million "
        "parameters. The weights are stored in half precision and load with plain `transformers`:",
        _load(directory),
        "## How it was made",
        "\n".join(["| | |", "|---|---|", *(f"| {what} | {value} |" for what, value in _made(facts).items())]),
        _objective(facts),
        "## Held-out losses",
        _losses(facts),
        *(["## On tasks", results.strip()] if results else []),
        "## Limits",
        _LIMITS.format(max_length=settings["max_length"]),
    ]
    card = directory / "README.md"
    card.write_text("\n\n".join(parts) + "\n")
    return card


def _load(directory: Path) -> str:
    built_in = next((name for name, path in BUILT_IN.items() if path == directory.resolve()), None)
    if built_in is None:
        return _LOAD.format(imports="", directory=f'"path/to/{directory.name}"')
    imports = "from palimpsest.encoders.identity import BUILT_IN\n"
    return _LOAD.format(imports=imports, directory=f'BUILT_IN["{built_in}"]')


def _teacher(teacher: Facts) -> str:
    name = Path(teacher["name"]).name if Path(teacher["name"]).is_absolute() else teacher["name"]
    licence = f", licence {teacher['licence']}" if "licence" in teacher else ""
    return f"`{name}` ({teacher['layers']} layers of {teacher['hidden']}{licence})"


def _made(facts: Facts) -> dict[str, str]:
    settings, corpus, teacher = facts["settings"], facts["corpus"], facts["teacher"]
    epochs = facts["tokens"] / (corpus["train_rows"] * settings["max_length"])
    return {
        "corpus": f"{settings['corpus_note'] or corpus['file']}: {corpus['strings'] / 1e6:.1f} million words in "
        f"{corpus['paragraphs']:,} paragraphs",
        "corpus file": f"`{corpus['file']}`, {corpus['bytes']:,} bytes, sha256 `{corpus['sha256']}`",
        "teacher": _teacher(teacher) if teacher else "none",
        "tokens seen": f"{facts['tokens'] / 1e6:,.1f} million ({epochs:.1f} epochs): {facts['steps']:,} steps of "
        f"{settings['batch_tokens']:,}, in rows of {settings['max_length']}",
        "optimiser": f"AdamW, learning rate {settings['learning_rate']:g}, {settings['warmup_steps']} warm-up steps, "
        f"then linear decay to zero; weight decay {settings['weight_decay']:g}; seed {settings['seed']}",
        "hardware": facts["hardware"],
        "time": f"{facts['seconds'] / 60:.1f} minutes of training",
        "software": ", ".join(f"{library} {version}" for library, version in facts["versions"].items()),
        "licence of the weights": settings["licence"],
    }


def _objective(facts: Facts) -> str:
    settings = facts["settings"]
    said = [_DISTILLED] if facts["teacher"] else []
    if facts["mlm_weight"]:
        said.append(
            f"Masked language modelling counts with weight {facts['mlm_weight']:g}; {settings['mask_share']:.0%} of "
            "the pieces are hidden."
        )
    return " ".join(said)


def _losses(facts: Facts) -> str:
    held_out = facts["held_out"]
    parts = ["On paragraphs that were never trained on."]
    if "per_layer" in held_out:
        layers = range(len(held_out["per_layer"]))
        parts[0] += (
            f" Distillation: {held_out['distillation']:.3f} on average, which reads as the share of the variance of "
            "the teacher's hidden states that the network does not explain; from the embeddings (0) upwards:"
        )
        parts.append(
            f"| layer | {' | '.join(str(k) for k in layers)} |\n|---|{'---|' * len(layers)}\n"
            f"| loss | {' | '.join(f'{loss:.3f}' for loss in held_out['per_layer'])} |"
        )
    if "mlm" in held_out:
        parts.append(
            f"Masked language modelling: cross-entropy {held_out['mlm']:.3f}, {held_out['accuracy']:.1%} of the hidden "
            "pieces right."
        )
    return "\n\n".join(parts)
