"""unmask serve."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from unmask.cli.options import File, Switch
from unmask.core.run import Loading

TOKEN = "UNMASK_TOKEN"


def command(
    *,
    model: Annotated[str, "MODEL"],
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: File = None,
    batch: int = 8,
    queue: int = 64,
    max_tokens: int = 1024,
    max_answers: int = 16,
    max_bytes: int = 2**20,
    max_seconds: float = 600.0,
    allow_imports: Annotated[tuple[str, ...], "MODULE"] = (),
    causal_model: Annotated[str | None, "MODEL"] = None,
    loading: Loading = Loading(),
    json: Switch = False,
) -> None:
    """Serve an open model through an OpenAI-compatible API.

    Examples:
        unmask serve --model smollm2-135m-instruct
        unmask serve --model llada-8b-instruct --dtype bfloat16 --batch 16
        unmask serve --model dream-v0-instruct-7b --host 0.0.0.0 --token-file key

    The server has /v1/models, /v1/chat/completions, /v1/completions and /metrics,
    also as a stream (pip install 'unmask[serve]'). A request may set sampler,
    schedule, steps, block_length, top_k, guidance, diffusion, trace and
    stream_mode too; usage counts the forwards (docs/serving.md). See
    docs/serve.md. Ctrl-C stops the server.

    Args:
        model: Open model: a name of `unmask list models`, a repository, or a directory with its files.
        host: Address of the server; the default serves this machine only.
        port: Port of the server; 0 takes a free one.
        token_file: File with a token that every request needs. (default: the environment variable UNMASK_TOKEN)
        batch: Largest number of answers generated together; batching does not change an answer.
        queue: Largest number of waiting answers; further requests get status 429.
        max_tokens: Largest number of tokens in an answer.
        max_answers: Largest number of answers to one request.
        max_bytes: Largest size of a request in bytes.
        max_seconds: Longest time to generate an answer, in seconds.
        allow_imports: Modules whose samplers requests may use, as MODULE:Name.
        causal_model: AR model for samplers that need one.
        json: Print the address as one JSON object.
    """
    import sys

    from unmask.cli.output import show
    from unmask.core import arguments, progress
    from unmask.hub import load_model
    from unmask.serve.app import Endpoint
    from unmask.serve.requests import Limits
    from unmask.serve.running import bound, run, url

    arguments.whole("--port", port, 0, 2**16 - 1)
    limits = Limits(max_tokens, max_answers, queue, batch, max_bytes, max_seconds)
    token = _token(token_file)
    listening = bound(host, port, token)
    try:
        loaded = load_model(model, **asdict(loading), causal_model=causal_model)
        endpoint = Endpoint(loaded, names=[model], limits=limits, token=token, allow_imports=allow_imports)
    except BaseException:
        listening.close()
        raise
    address = {"url": url(listening), "model": loaded.name}
    if json:
        show(address, True)
    else:
        print(f"{address['model']} answers at {address['url']}; Ctrl-C stops it")
    sys.stdout.flush()
    with progress.silent():
        run(endpoint, listening)


def _token(file: File) -> str | None:
    """Return the token of a file, or of the environment variable; None if neither is given."""
    import os

    from unmask.core.errors import UnmaskError
    from unmask.core.reading import read_text

    text = os.environ.get(TOKEN) if file is None else read_text(file, 2**12)
    if text is None:
        return None
    token, where = text.strip(), TOKEN if file is None else str(file)
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        expected = "expected one line of letters and digits. `openssl rand -hex 32` prints one"
        raise UnmaskError(f"{where} holds no token; {expected}")
    return token
