"""The state of an unfinished run: written under another name and renamed, so a crash leaves the last one whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import torch

from palimpsest.errors import TrainingError


class Stateful(Protocol):
    """What has a state, in torch's own words."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def save_state(path: Path, run: Stateful) -> None:
    partial = path.with_name(path.name + ".partial")
    torch.save(run.state_dict(), partial)
    partial.replace(path)


def load_state(path: Path, run: Stateful, device: torch.device) -> None:
    try:
        run.load_state_dict(torch.load(path, map_location=device, weights_only=True))
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise TrainingError(
            f"{path}: the state of the earlier run does not fit this one ({str(error).splitlines()[0]}). "
            "Start anew without resuming, or give another output directory."
        ) from error
