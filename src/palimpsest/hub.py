"""The Hugging Face hub: files of its repositories, in its own cache. Imports nothing heavy.

HF_ENDPOINT, HF_HUB_CACHE and HF_HUB_OFFLINE count as they are now, not as they were when huggingface_hub was imported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal


def snapshot(
    repo: str, patterns: Sequence[str], *, kind: Literal["model", "dataset"] = "model", revision: str | None = None
) -> Path:
    """A directory with these files of a repository, downloaded where the cache does not have them.

    The directory is named by the commit that it is a snapshot of. Offline, a revision means what it meant when the hub
    was last asked. What goes wrong is raised as it comes: the hub's errors and those of its HTTP client have no base in
    common.
    """
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(
            repo,
            repo_type=kind,
            revision=revision,
            allow_patterns=list(patterns),
            endpoint=os.environ.get("HF_ENDPOINT") or None,
            cache_dir=os.environ.get("HF_HUB_CACHE") or None,
            local_files_only=is_offline(),
        )
    )


def is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def endpoint() -> str:
    """Where the files come from, in words."""
    return os.environ.get("HF_ENDPOINT") or "the Hugging Face hub"
