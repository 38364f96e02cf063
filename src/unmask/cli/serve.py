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
    """Let programs ask an open model, by an endpoint that speaks as OpenAI's.

    Examples:
        unmask serve --model smollm2-135m-instruct
        unmask serve --model llada-8b-instruct --dtype bfloat16 --batch 16
        unmask serve --model dream-v0-instruct-7b --host 0.0.0.0 --token-file key

    /v1/models, /v1/chat/completions and /v1/completions (pip install
    'unmask[serve]'), whole or as a stream; beside OpenAI's fields sampler,
    schedule, steps, block_length, top_k and guidance, and in usage the
    evaluations. docs/serve.md says more. Ctrl-C ends it.

    Args:
        model: An open model, by its name of `unmask list models`, its repository, or a directory with its files.
        host: The address to listen at; unless told otherwise this machine alone may ask.
        port: Its port; 0 takes one that is free.
        token_file: A file with a token, without which nobody may ask; or the environment says it, UNMASK_TOKEN.
        batch: Answers that are generated together, those of the same settings; each is as it would be alone.
        queue: Answers that may wait; who asks for more is told to come again.
        max_tokens: Of an answer.
        max_answers: To one request.
        max_bytes: Of a request.
        max_seconds: Of making an answer.
        allow_imports: Import samplers of this module, which requests name as MODULE:Name.
        causal_model: An AR model beside a masked one, for samplers that read from left to right.
        json: Print the address as one JSON object.
    """
    import sys

    from unmask.cli.output import show
    from unmask.core import arguments, progress
    from unmask.hub import load_model
    from unmask.serve.app import Endpoint
    from unmask.serve.asked import Limits
    from unmask.serve.running import bound, run, url

    arguments.whole("--port", port, 0, 2**16 - 1)
    limits = Limits(max_tokens, max_answers, queue, batch, max_bytes, max_seconds)
    token = _token(token_file)
    listening = bound(host, port, token)
    try:
        found = load_model(model, **asdict(loading), causal_model=causal_model)
        endpoint = Endpoint(found, names=[model], limits=limits, token=token, allow_imports=allow_imports)
    except BaseException:
        listening.close()
        raise
    address = {"url": url(listening), "model": found.name}
    if json:
        show(address, True)
    else:
        print(f"{address['model']} answers at {address['url']}; Ctrl-C ends it")
    sys.stdout.flush()
    with progress.silent():
        run(endpoint, listening)


def _token(file: File) -> str | None:
    """What a file, or the environment, says; an error where it says nothing."""
    import os

    from unmask.core.errors import UnmaskError
    from unmask.core.reading import read_text

    said = os.environ.get(TOKEN) if file is None else read_text(file, 2**12)
    if said is None:
        return None
    token, where = said.strip(), TOKEN if file is None else str(file)
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UnmaskError(f"{where} holds no token; write one line of letters and digits, as openssl rand -hex 32 does")
    return token
