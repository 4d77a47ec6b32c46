"""Everything that Palimpsest raises on purpose.

    PalimpsestError            catch this one
    ├── SpecError              a study, protocol or trial says something that cannot be
    ├── UnknownName            a task, study, protocol, encoder or key that does not exist ("did you mean …?")
    ├── DataError              a data file is missing, unreadable or malformed (names the file and the line)
    ├── EncoderError           an encoder cannot be loaded, or its architecture is not supported
    ├── SurgeryError           an intervention that does not fit the encoder (a layer out of range, …)
    ├── StoreError             a directory that is not a store, or a record that cannot be read or written
    │   ├── MissingStore       there is no store at the place named
    │   └── NothingFinished    a drawing none of whose trials is finished yet
    └── TrainingError          a trial that could not be trained

The message says what is wrong, where, and what to do; the command line prints it and exits with code 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class PalimpsestError(Exception):
    """Base of all errors that are meant for a person to read."""


class SpecError(PalimpsestError):
    pass


class UnknownName(PalimpsestError):
    def __init__(self, what: str, name: str, known: Iterable[str], *, hint: str = "") -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.6)
        if near:
            advice = " Did you mean " + " or ".join(repr(n) for n in near) + "?"
        elif known and len(known) <= 30:
            advice = " Known: " + ", ".join(known) + "."
        else:
            advice = ""
        super().__init__(f"unknown {what} {name!r}.{advice}{' ' + hint if hint else ''}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes by what they say, not by how they were made."""
        return _said, (type(self), str(self))


def _said(kind: type[UnknownName], message: str) -> UnknownName:
    error = kind.__new__(kind, message)
    error.args = (message,)
    return error


class DataError(PalimpsestError):
    pass


class EncoderError(PalimpsestError):
    pass


class SurgeryError(PalimpsestError):
    pass


class StoreError(PalimpsestError):
    pass


class MissingStore(StoreError):
    pass


class NothingFinished(StoreError):
    pass


class NotInStudy(PalimpsestError):
    pass


class TrainingError(PalimpsestError):
    pass
