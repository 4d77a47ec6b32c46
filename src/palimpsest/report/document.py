"""From plain data to an HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from palimpsest.errors import PalimpsestError, StoreError

SCRIPTS = ("figures.js", "page.js", "live.js")
_ASSETS = files("palimpsest.report") / "assets"


def asset(name: str) -> str:
    """A file of the page, by name."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def plotly_source() -> str:
    """The library that draws the interactive figures."""
    need("plotly", "the page's figures")
    found = find_spec("plotly")  # not imported: only its data are wanted
    assert found is not None
    assert found.origin is not None
    source = Path(found.origin).parent / "package_data" / "plotly.min.js"
    return source.read_text(encoding="utf-8").replace("</script", "<\\/script")


def need(module: str, what: str) -> None:
    """Say plainly what to install."""
    if find_spec(module) is None:
        raise PalimpsestError(f"{what} need the package {module}: pip install 'palimpsest-lm[page]'")


def embedded(data: Any) -> str:
    """JSON that can stand inside a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def self_contained(payload: dict[str, Any]) -> str:
    """The report: styles, scripts, Plotly and data in one document, which may run its own scripts and nothing else."""
    application = "\n".join(asset(name) for name in SCRIPTS)
    plotly = plotly_source()
    start = "palimpsest.plotlyIsHere();"
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in (application, plotly, start))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return _filled(
        policy=policy,
        title=_title(payload),
        style=f"<style>{asset('page.css')}</style>",
        payload=embedded(payload),
        scripts=f"<script>{application}</script>\n<script>{plotly}</script>\n<script>{start}</script>",
    )


LIVE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def served(payload: dict[str, Any]) -> str:
    """The same document for the server: its parts have addresses of their own, which a browser keeps."""
    names = [*SCRIPTS, "plotly.js", "start.js"]
    return _filled(
        policy=LIVE_POLICY,
        title=_title(payload),
        style='<link rel="stylesheet" href="/assets/page.css">',
        payload=embedded(payload),
        scripts="\n".join(f'<script src="/assets/{name}"></script>' for name in names),
    )


def write_report(payload: dict[str, Any], path: Path) -> Path:
    """Write the report in one step; a file of that name is replaced."""
    text = self_contained(payload)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def _title(payload: dict[str, Any]) -> str:
    return html.escape(", ".join(study["title"] for study in payload["studies"]))


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _filled(**parts: str) -> str:
    """The template with its places filled, all at once: what is filled in is not searched again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], asset("page.html"))
