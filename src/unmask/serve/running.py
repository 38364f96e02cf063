"""The HTTP server of the endpoint: it binds an address, and Ctrl-C stops it cleanly."""

from __future__ import annotations

import asyncio
import socket
import threading
from functools import partial
from types import FrameType
from typing import cast

from unmask.core.errors import UnmaskError, shown
from unmask.core.extras import needed
from unmask.serve.app import Endpoint, is_local
from unmask.serve.connections import QUEUE, Connection, Guard

with needed("serve", "a server"):
    import uvicorn


def bound(host: str, port: int, token: str | None) -> socket.socket:
    """A listening socket; an error if the address is in use, or is reachable from other machines without a token."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UnmaskError(f"--host is {shown(host)}; expected an address of this machine. Leave it out") from error
    family, _, _, _, address = addresses[0]
    if token is None and not is_local(str(address[0])):
        problem = f"--host is {shown(host)}, which other machines can reach, so a token is required"
        raise UnmaskError(f"{problem}. Write one to a file, and pass --token-file FILE")
    try:
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        problem = f"cannot listen at {address[0]}, port {port}: {(error.strerror or str(error)).lower()}"
        raise UnmaskError(f"{problem}. Pass another port: --port N, or --port 0 for any free one") from error


def url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


class Server(uvicorn.Server):  # type: ignore[misc]
    """A server that, when stopped, informs waiting clients and ends each generation before its next model call."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.guard = Guard(endpoint.limits.patience)
        config = uvicorn.Config(
            endpoint.app(),
            http=cast("type[asyncio.Protocol]", partial(Connection, self.guard)),
            ws="none",
            log_config=None,
            log_level="critical",  # otherwise each invalid HTTP request would be logged
            access_log=False,
            timeout_graceful_shutdown=5,
            backlog=self.guard.accepted,  # accepted per iteration of the event loop
        )
        super().__init__(config)
        self.endpoint = endpoint
        self.stopped = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self.guard.failed)
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(QUEUE)  # uvicorn has set it to the backlog

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stopped = True
        threading.Thread(target=self.endpoint.batches.close).start()
        super().handle_exit(sig, frame)


def run(endpoint: Endpoint, listening: socket.socket) -> None:
    """Run until stopped."""
    server = Server(endpoint)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn raises it again, or not, depending on when it arrives
        server.stopped = True
    finally:
        listening.close()
    if server.stopped:
        raise KeyboardInterrupt("the server was stopped")
