"""Where Ray workers leave letters for the driver. Imports nothing heavy: a process of its own holds it."""

from __future__ import annotations


class Mailbox:
    """An actor beside the driver. Letters are bytes to it; it remembers which trials have ended in this run."""

    def __init__(self) -> None:
        self._letters: list[bytes] = []
        self._ended: set[str] = set()

    def post(self, letter: bytes, ended: str | None = None) -> None:
        """Take a letter, perhaps the one which says that this trial has ended."""
        self._letters.append(letter)
        if ended is not None:
            self._ended.add(ended)

    def collect(self) -> list[bytes]:
        """All letters since the last time, in the order of their arrival."""
        letters, self._letters = self._letters, []
        return letters

    def ended(self, ids: list[str]) -> list[str]:
        return [id for id in ids if id in self._ended]
