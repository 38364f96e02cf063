"""Traces of other programs: the canvases that a server or a loop shows become a trace (generation/trace.py).

    edits         `stream_mode` edits of `unmask serve`: changed tokens of each step, with probabilities
    diffusing     Mercury's chunks, each with the whole text; its words are aligned with those of the last text
    snapshots     Diffulex: the tokens of the editable window after each step, and finished tokens
    trajectories  JetEngine: the step that fixed each token
    blocks        the lines of `Recorded` (examples/sglang_bridge.py): the changes of each block
    Drafts        a streamer of Transformers, which receives each draft of a canvas

`read` recognises saved streams: lines of JSON or of server-sent events. A probability that a stream does not show is
unknown, and positions that no step shows are hidden.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import fit, from_json, read_text
from unmask.generation import trace as traces
from unmask.generation.trace import Event, Row, Trace

State = tuple[int, Mapping[int, int]]  # a step, and the visible tokens by position after it
MOST_WORDS = 2**12  # of a text, for the alignment
WORD = re.compile(r"\s*\S+|\s+$")


def read(path: str | Path) -> Trace:
    """The trace in a file: of `unmask`, or a stream of one of the kinds above."""
    objects = []
    for number, line in enumerate(read_text(path, traces.MOST).splitlines(), 1):
        line = line.removeprefix("data:").strip()
        if not line or line == "[DONE]" or re.match(r":|(event|id|retry):", line):
            continue
        try:
            value = from_json(line, where=f"{path}, line {number}")
        except UnmaskError:
            return traces.read(path)  # a file of several lines, or its error
        objects += value if isinstance(value, list) else [value]
    convert = kind_of(objects)
    if convert is None:
        return traces.read(path)
    try:
        trace = fit(msgspec.to_builtins(convert(objects)), Trace, str(path))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        name = convert.__name__.removeprefix("of_")
        problem = f"{cut(str(path))} looks like a stream of {name}, but an entry is missing or of another kind"
        raise UnmaskError(f"{problem}. Record it again, or pass a trace") from error
    traces.check(trace, str(path))
    return trace


def kind_of(objects: Sequence[Any]) -> Callable[[Sequence[Any]], Trace] | None:
    """The function that turns these objects into a trace; None if there is none."""
    named = [one for one in objects if isinstance(one, dict)]
    choices = [choice for one in named for choice in one.get("choices") or ()]
    if any("edits" in choice for choice in choices):
        return of_edits
    if choices:
        return of_diffusing
    kinds: dict[str, Callable[[Sequence[Any]], Trace]] = {"absolute_start": of_snapshots, "trajectory": of_trajectories}
    kinds["rid"] = of_blocks
    return next((kind for key, kind in kinds.items() if any(key in one for one in named)), None)


def of_edits(chunks: Iterable[Any]) -> Trace:
    """The trace of a stream of edits: [position, token, p], null where it is hidden again."""
    rows: dict[int, list[Event]] = defaultdict(list)
    visible: dict[int, set[int]] = defaultdict(set)
    step: Counter[int] = Counter()
    for choice in (choice for chunk in chunks for choice in chunk.get("choices") or () if "edits" in choice):
        row = choice.get("index", 0)
        step[row] += 1
        for place, _, _ in choice["edits"]:
            if place in visible[row]:
                rows[row].append((step[row], place, None, None))
        rows[row] += [(step[row], place, token, p) for place, token, p in choice["edits"] if token is not None]
        visible[row] -= {place for place, token, _ in choice["edits"] if token is None}
        visible[row] |= {place for place, token, _ in choice["edits"] if token is not None}
    return _trace("edits", [_row(rows[row]) for row in sorted(rows)])


def of_diffusing(chunks: Iterable[Any]) -> Trace:
    """The trace of chunks with the whole text each. Tokens are words; only words of the last text have a position."""
    texts: dict[int, list[str]] = defaultdict(list)
    for choice in (choice for chunk in chunks for choice in chunk.get("choices") or ()):
        text = (choice.get("delta") or {}).get("content", choice.get("text"))
        if text:
            texts[choice.get("index", 0)].append(text)
    numbers: dict[str, int] = {}
    rows = []
    for row in sorted(texts):
        canvases = [WORD.findall(text) for text in texts[row]]
        if max(map(len, canvases)) > MOST_WORDS:
            problem = f"answer {row} has {max(map(len, canvases))} words"
            raise UnmaskError(f"{problem}; expected at most {MOST_WORDS}. Record a shorter answer")
        equal = [len({*a} & {*b}) / len({*a}) for a, b in pairwise(canvases)]
        late = equal[len(equal) // 2 :]
        if sum(late) < len(late) / 4:
            problem = f"the chunks of answer {row} append text; expected the whole text in each"
            raise UnmaskError(f"{problem}. Request diffusing from Mercury, or stream_mode edits from `unmask serve`")
        for word in canvases[-1]:
            numbers.setdefault(word, len(numbers))
        states = [(step, _aligned(canvas, canvases[-1], numbers)) for step, canvas in enumerate(canvases, 1)]
        rows.append(_row(_events(states)))
    return _trace("diffusing", rows, {str(number): word for word, number in numbers.items()})


def _aligned(canvas: list[str], last: list[str], numbers: dict[str, int]) -> dict[int, int]:
    """Words of a canvas at the positions of the last one: equal words, and equally many others between them."""
    state = {}
    for _, i, j, k, m in SequenceMatcher(None, canvas, last, autojunk=False).get_opcodes():
        if j - i == m - k:
            for word, position in zip(canvas[i:j], range(k, m), strict=True):
                state[position] = numbers.setdefault(word, len(numbers))
    return state


def of_snapshots(events: Iterable[Any], mask: int | None = None) -> Trace:
    """The trace of Diffulex's events; steps are its forward passes (nfe).

    mask: the mask token. (default: the most frequent token of the first window that is in no finished text)
    """
    listed = [event for event in events if "token_ids" in event and event.keys() & {"absolute_start", "token_offset"}]
    windows = [event for event in listed if "absolute_start" in event]
    begin = windows[0]["absolute_start"]
    if mask is None:
        ended = [event for event in listed if "absolute_start" not in event] or windows[-1:]
        final = {token for event in ended for token in event["token_ids"]}
        left = Counter(token for token in windows[0]["token_ids"] if token not in final)
        mask = left.most_common(1)[0][0] if left else None
    states: list[State] = []
    for number, event in enumerate(listed, 1):
        first = event["absolute_start"] - begin if "absolute_start" in event else event["token_offset"]
        here = {first + place: token for place, token in enumerate(event["token_ids"]) if token != mask}
        before = states[-1][1].items() if states else ()
        behind = {place: token for place, token in before if place < first or "absolute_start" not in event}
        step = max(event.get("nfe") or number, states[-1][0] if states else 1)
        states.append((step, behind | here))
    return _trace("snapshots", [_row(_events(states))])


def of_trajectories(outputs: Iterable[Any]) -> Trace:
    """The trace of JetEngine's outputs: token_ids, the trajectory of steps, and logprobs if there are any."""
    rows = []
    for output in outputs:
        tokens, steps = output["token_ids"], output["trajectory"]
        logprobs = output.get("logprobs") or [None] * len(tokens)
        chances = [None if p is None else min(math.exp(p), 1.0) for p in logprobs]
        first = min(steps, default=1)
        placed = zip(steps, range(len(tokens)), tokens, chances, strict=True)
        events: list[Event] = [(step - first + 1, place, token, p) for step, place, token, p in placed]
        rows.append(_row(sorted(events, key=lambda event: event[:2])))
    return _trace("trajectories", rows)


def of_blocks(lines: Iterable[Any]) -> Trace:
    """The trace of `Recorded` blocks: requests are rows, their blocks follow each other."""
    rows: dict[str, Row] = {}
    steps: Counter[str] = Counter()
    for line in lines:
        rid = line["rid"]
        row = rows.get(rid) or Row(length=1, events=[])
        begin = row.length if rid in rows else 0
        given = [(begin + place, token) for place, token in line["given"]]
        events = [(steps[rid] + step, begin + place, token, p) for step, place, token, p in line["events"]]
        rows[rid] = Row(length=begin + line["length"], given=row.given + given, events=row.events + events)
        steps[rid] += line["steps"]
    vocabulary = max(line["vocabulary"] for line in lines)
    return msgspec.structs.replace(_trace("blocks", list(rows.values())), vocabulary=vocabulary)


class Drafts:
    """A streamer for `generate` of diffusion models in Transformers: it keeps the drafts, and makes a trace of them.

    logits: whether to receive logits, for the probability of each token.
    """

    def __init__(self, logits: bool = False) -> None:
        self._takes_logits = logits
        self._given: Tensor | None = None  # (B, P)
        self._done: list[Tensor] = []  # finished canvases (B, L)
        self._drafts: list[tuple[int, Tensor, Tensor | None]] = []  # begin, tokens (B, L), their probabilities

    def put(self, value: Tensor) -> None:
        """Receive the prompt, then each finished canvas."""
        value = value.reshape(-1, value.shape[-1])
        if self._given is None:
            self._given = value
            return
        if not self._drafts or not torch.equal(self._drafts[-1][1], value):  # padded behind its end
            self._drafts.append((self._begin, value, None))
        self._done.append(value)

    def put_draft(self, value: Tensor | None = None, logits: Tensor | None = None) -> None:
        """Receive the most likely canvas after a step, or its logits."""
        if value is None:
            assert logits is not None
            chances, value = logits.double().softmax(-1).reshape(-1, *logits.shape[-2:]).max(-1)
            self._drafts.append((self._begin, value, chances))
        else:
            self._drafts.append((self._begin, value.reshape(-1, value.shape[-1]), None))

    def end(self) -> None:
        """Receive the end of the generation."""

    @property
    def _begin(self) -> int:
        return sum(canvas.shape[1] for canvas in self._done) + (0 if self._given is None else self._given.shape[1])

    def trace(self, symbols: Mapping[str, str] | None = None) -> Trace:
        """The trace so far; each draft is a step."""
        if self._given is None or not self._drafts:
            raise UnmaskError("no drafts were received; expected a diffusion model. Pass streamer=Drafts() to generate")
        rows = []
        for row, prompt in enumerate(self._given.tolist()):
            states: list[State] = []
            chances: dict[tuple[int, int], float] = {}
            for step, (begin, canvas, p) in enumerate(self._drafts, 1):
                here = dict(enumerate(canvas[row].tolist(), begin))
                earlier = states[-1][1] if states else {}
                states.append((step, {**earlier, **here}))
                if p is not None:
                    chances |= {(step, begin + place): chance for place, chance in enumerate(p[row].tolist())}
            events = _events(states)
            known = [(*event[:3], None if event[2] is None else chances.get(event[:2])) for event in events]
            rows.append(Row(length=_length(known), given=list(enumerate(prompt)), events=known))
        return _trace("drafts", rows, dict(symbols) if symbols else None)


def _events(states: Iterable[State]) -> list[Event]:
    """The changes between successive states: a replaced token is first hidden."""
    events: list[Event] = []
    before: Mapping[int, int] = {}
    for step, after in states:
        changed = sorted(place for place in before.keys() | after.keys() if before.get(place) != after.get(place))
        events += [(step, place, None, None) for place in changed if place in before]
        events += [(step, place, after[place], None) for place in changed if place in after]
        before = after
    return events


def _length(events: Sequence[Event]) -> int:
    return 1 + max((place for _, place, _, _ in events), default=0)


def _row(events: list[Event]) -> Row:
    return Row(length=_length(events), events=events)


def _trace(name: str, rows: list[Row], symbols: dict[str, str] | None = None) -> Trace:
    tokens = {token for row in rows for _, token in row.given}
    tokens |= {token for row in rows for _, _, token, _ in row.events if token is not None}
    vocabulary = max(tokens, default=0) + 1
    source = {"observed": name}
    return Trace(vocabulary=vocabulary, rows=rows, symbols=symbols, sampler=f"a stream of {name}", source=source)
