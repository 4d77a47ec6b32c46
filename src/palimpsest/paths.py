"""Names that people and data give to things, as names of files."""

from __future__ import annotations

import hashlib
import re

_LONGEST = 60  # characters, of up to four bytes; file systems take 255


def file_name(name: str) -> str:
    """A name that is one plain component of a path on any system, and differs where the names differ.

    Letters of any script, digits, ``_``, ``-`` and inner dots stay; a name that had to be changed gets a
    fingerprint at its end.
    """
    plain = re.sub(r"[^\w.-]", "-", name)[:_LONGEST].strip(".- ")
    if name and plain == name:
        return plain
    fingerprint = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain or 'unnamed'}-{fingerprint}"
