"""The corpus: a plain text file, one paragraph a line, perhaps compressed with xz, gzip or bzip2."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from palimpsest.errors import DataError

_OPENERS = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}


@dataclass(frozen=True)
class Corpus:
    """A corpus file. Paragraphs are its lines that are not blank, in the order of the file."""

    path: Path

    @classmethod
    def find(cls, path: Path) -> Corpus:
        """The corpus at this path, after a look at whether there is any text in it."""
        if not path.is_file():
            raise DataError(
                f"{path}: no such corpus file. It should be plain text (or .xz, .gz, .bz2), a paragraph a line."
            )
        corpus = cls(path)
        if next(corpus.paragraphs(), None) is None:
            raise DataError(f"{path}: the corpus is empty. It should hold one paragraph a line.")
        return corpus

    def _open(self) -> IO[bytes]:
        opener = _OPENERS.get(self.path.suffix)
        return opener(self.path, "rb") if opener else self.path.open("rb")  # type: ignore[operator]

    def paragraphs(self) -> Iterator[str]:
        number = 0
        try:
            with self._open() as lines:
                for line in lines:
                    number += 1
                    text = line.decode().strip()
                    if text:
                        yield text
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path}, line {number}: not UTF-8 text ({error.reason}). Convert the file.") from None
        except (OSError, lzma.LZMAError, EOFError) as error:
            raise DataError(f"{self.path}, after line {number}: cannot be read ({error}).") from error

    def sha256(self) -> str:
        """The digest of the file as it lies on the disk, compressed or not."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def is_held_out(paragraph: str, share: float, seed: int) -> bool:
    """Whether a paragraph belongs to the held-out share; decided by its text, so that copies of it fall together."""
    digest = hashlib.blake2b(paragraph.encode(), digest_size=8, salt=seed.to_bytes(8, "little", signed=True)).digest()
    return int.from_bytes(digest, "little") < share * 2**64
