"""The Hugging Face hub, played by a server on this machine that speaks as much of its protocol as downloads need."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Repositories as {repository: {path: bytes}}, each served as a data set and as a model, and what was asked for.

    All of them have one commit, the same, which a test may change.
    """

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []
        self.commit = COMMIT
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                del format, args

            def do_HEAD(self) -> None:
                self.answer(body=False)

            def do_GET(self) -> None:
                self.answer(body=True)

            def answer(self, body: bool) -> None:
                path = self.path.partition("?")[0]
                hub.asked.append(f"{self.command} {path}")
                for repo, files in hub.repos.items():
                    if path in (
                        *(
                            f"/api/{kind}/{repo}/revision/{r}"
                            for kind in ("datasets", "models")
                            for r in ("main", hub.commit)
                        ),
                    ):
                        listing = {"id": repo, "sha": hub.commit, "siblings": [{"rfilename": f} for f in files]}
                        return self.send(json.dumps(listing).encode(), body)
                    if path in (f"/api/datasets/{repo}/tree/{hub.commit}", f"/api/models/{repo}/tree/{hub.commit}"):
                        tree = [
                            {"type": "file", "path": f, "size": len(raw), "oid": hashlib.sha1(raw).hexdigest()}
                            for f, raw in files.items()
                        ]
                        return self.send(json.dumps(tree).encode(), body)
                    for place in (f"/datasets/{repo}", f"/{repo}"):
                        for revision in ("main", hub.commit):
                            file = path.removeprefix(f"{place}/resolve/{revision}/")
                            if file != path and file in files:
                                return self.send(files[file], body)
                return self.send(b"{}", body, 404)

            def send(self, raw: bytes, body: bool, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.send_header("X-Repo-Commit", hub.commit)
                self.send_header("ETag", f'"{hashlib.sha1(raw).hexdigest()}"')
                self.end_headers()
                if body:
                    self.wfile.write(raw)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def put(self, repo: str, path: str, table: dict[str, object]) -> None:
        """A table as a parquet file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(table), sink)
        self.repos.setdefault(repo, {})[path] = sink.getvalue().to_pybytes()

    def put_folder(self, repo: str, folder: Path) -> None:
        self.repos[repo] = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
