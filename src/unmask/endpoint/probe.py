"""Find the dialect of a server, and how it treats each field: obeyed, refused or ignored.

Two requests test a field: one with a usual value, and one with an impossible value. A server that reads the field must
refuse the impossible value, so a server that answers it ignores the field.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from unmask.core.errors import UnmaskError, cut, unknown
from unmask.endpoint.client import Client, Query, read_json
from unmask.endpoint.dialects import DIALECTS, dig
from unmask.endpoint.wire import Exchange, Failed, Limits, Link, whole

OBEYED, IGNORED, REFUSED, UNKNOWN = "obeyed", "ignored", "refused", "unknown"
FIELDS: dict[str, tuple[Any, Any]] = {  # a usual and an impossible value
    "temperature": (1.0, "hot"),
    "top_p": (1.0, "most"),
    "top_k": (5, "few"),
    "min_p": (0.1, "some"),
    "stop": ("\n\n", {"at": 1}),
    "logit_bias": ({"5": 1.0}, "biased"),
    "frequency_penalty": (0.1, "much"),
    "response_format": ({"type": "json_object"}, "a format"),
}
ORDER = ("openai-chat", "openai-completions", "sglang-generate", "diffulex")
LISTING = 2.0  # seconds to list the models
HELLO, FEW = "Hello", {"max_tokens": 8}


def connect(
    url: str, model: str | None = None, dialect: str = "auto", limits: Limits = Limits(), link: Exchange | None = None
) -> Client:
    """A client for the server, in the given dialect or in the first in which it answers."""
    if dialect != "auto" and dialect not in DIALECTS:
        raise unknown("dialect", dialect, ["auto", *DIALECTS])
    model = model or _model(link or Link(url, replace(limits, first=LISTING)))
    link = link or Link(url, limits)
    if dialect != "auto":
        return Client(link, DIALECTS[dialect], model, limits)
    problems = []
    for name in ORDER:
        client = Client(link, DIALECTS[name], model, limits)
        answer = client.ask(Query("probe", HELLO, fields=FEW))
        if answer.outcome in ("ok", "truncated", "empty"):
            mercury = name == "openai-chat" and "mercury" in (model or "").lower()
            return Client(link, DIALECTS["mercury"], model, limits) if mercury else client
        if answer.outcome in ("transport", "timeout"):
            raise UnmaskError(f"the server does not answer: {answer.error}. Is it running at {cut(url)}?")
        problems.append(f"{name}: {answer.error}")
    raise UnmaskError(f"the server answers in no known dialect ({'; '.join(problems)}). Pass --dialect and --model")


def _model(link: Exchange) -> str | None:
    """The first model that the server lists."""
    try:
        with link("GET", "/v1/models", None, {}) as head:
            if head.status == 200:
                return str(dig(read_json(whole(head, 2**20), "the list of models"), ("data.0.id",)) or "") or None
    except Failed:
        pass
    finally:
        if isinstance(link, Link):
            link.close()
    return None


def fields(client: Client, names: Iterable[str] = FIELDS) -> dict[str, str]:
    """The capability record: how the server treats these fields."""
    known = [name for name in names if name in FIELDS]
    queries = [Query("probe", HELLO, fields=FEW | {name: value}) for name in known for value in FIELDS[name]]
    answers = client.ask_all(queries)
    return dict(zip(known, map(_verdict, answers[::2], answers[1::2]), strict=True)) | {
        name: UNKNOWN for name in names if name not in FIELDS
    }


def _verdict(usual: Any, impossible: Any) -> str:
    refused = impossible.outcome == "refused" or (impossible.status == 200 and impossible.outcome == "server_error")
    if usual.outcome == "refused":
        return REFUSED
    if usual.status != 200 or not (refused or impossible.status == 200):
        return UNKNOWN
    return OBEYED if refused else IGNORED
