"""The server under the endpoint: an address of its own, or one line that says why not, and a clean end by Ctrl-C."""

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
    """A socket that listens there; an error where others could ask without a token, or somebody listens already."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UnmaskError(f"--host is {shown(host)}, which is no address of this machine; leave it out") from error
    family, _, _, _, address = found[0]
    if token is None and not is_local(str(address[0])):
        what = "others could ask there, and nobody who has no token may"
        raise UnmaskError(f"--host is {shown(host)}: {what}; write one to a file, and give --token-file FILE")
    try:
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        what = f"cannot listen at {address[0]}, port {port}: {(error.strerror or str(error)).lower()}"
        raise UnmaskError(f"{what}; take another, --port N, or --port 0 for any that is free") from error


def url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


class Server(uvicorn.Server):  # type: ignore[misc]
    """Clients that wait are told when it is being stopped, and answers under way end before the next model call."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.guard = Guard(endpoint.limits.patience)
        config = uvicorn.Config(
            endpoint.app(),
            http=cast("type[asyncio.Protocol]", partial(Connection, self.guard)),
            ws="none",
            log_config=None,
            log_level="critical",  # a client that sends no HTTP would write a line each time
            access_log=False,
            timeout_graceful_shutdown=5,
            backlog=self.guard.accepted,  # accepted in a turn of the loop
        )
        super().__init__(config)
        self.endpoint = endpoint
        self.stopped = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self.guard.failed)
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(QUEUE)  # the backlog above has made it short

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stopped = True
        threading.Thread(target=self.endpoint.batches.close).start()
        super().handle_exit(sig, frame)


def run(endpoint: Endpoint, listening: socket.socket) -> None:
    """Until somebody stops it."""
    server = Server(endpoint)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # before the loop has begun, or once more as it ends, or not at all
        server.stopped = True
    finally:
        listening.close()
    if server.stopped:
        raise KeyboardInterrupt("the server has ended")
