"""A server that speaks S3 over HTTP, on loopback."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

# What a client of this server needs in its environment. The secret is looked for where it must not be.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key-of-the-tests",
    "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def serving(port: int = 0) -> Iterator[str]:
    """The endpoint of a new server without any buckets."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
