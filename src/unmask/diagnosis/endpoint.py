"""The audit of a served engine, as a black box: twelve tests of faults that users of such servers have reported.

A test is red (a fault), green, or unknown: the server does not show enough to decide. Tests that compare distributions
are exact, each at the level ALARM / 12; the others are red only if a rule is broken. So the probability of a red test
for a server without a fault is at most ALARM (counts.py has the p-values).
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import ne
from typing import Any, NamedTuple

from unmask.core import arguments, entries, progress
from unmask.core.errors import UnmaskError, cut
from unmask.diagnosis.client import TOTAL, Answer, Client
from unmask.diagnosis.counts import one_sample, two_samples

RED, GREEN, UNKNOWN = "red", "green", "unknown"
OBEYED, IGNORED, REFUSED = "obeyed", "ignored", "refused"  # a field
FIELDS: dict[str, tuple[Any, Any]] = {  # a usual and an impossible value: a server that answers it ignores the field
    "temperature": (1.0, "hot"),
    "top_p": (1.0, "most"),
    "top_k": (5, "few"),
    "min_p": (0.1, "some"),
    "stop": ("\n\n", {"at": 1}),
    "logit_bias": ({"5": 1.0}, "biased"),
    "frequency_penalty": (0.1, "much"),
    "response_format": ({"type": "json_object"}, "a format"),
}
USUAL = {"temperature": 1.0, "top_p": 1.0}  # documented defaults
ALARM = 0.01  # the largest probability of a red test for a server without a fault
DIE = "Roll a fair die. Answer with one digit from 1 to 6 and nothing else."
LONG = "Write random digits from 1 to 6, separated by spaces. Go on without an end."
FILLER = "The quick brown fox jumps over the lazy dog. " * 50 + LONG
PADS = re.compile(r"<\|?(?:pad|mask|unk|endoftext|im_end|eot_id)[^>]*>|\bnan\b|\0|\ufffd|!{16}", re.IGNORECASE)
SHORT, BLOCK = 16, 32  # tokens of an answer, and of a block unless it is given
FEW, SEEDS = 10, 8
Found = tuple[Any, ...]  # verdict, detail and perhaps a p-value


class Verdict(NamedTuple):
    test: str
    verdict: str
    detail: str
    p: float | None = None
    requests: int = 0


@dataclass(frozen=True)
class Audit:
    url: str
    model: str | None
    fields: Mapping[str, str]  # the capability record
    verdicts: tuple[Verdict, ...]
    requests: int
    seconds: float
    alarm: float = ALARM

    @property
    def red(self) -> list[str]:
        return [one.test for one in self.verdicts if one.verdict == RED]

    def __getitem__(self, test: str) -> Verdict:
        return next(one for one in self.verdicts if one.test == test)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"verdicts": [one._asdict() for one in self.verdicts], "red": self.red}

    def table(self) -> list[tuple[str, str]]:
        counts = Counter(entries.column(self.verdicts, "verdict"))
        shown = f"{counts[RED]} red, {counts[GREEN]} green, {counts[UNKNOWN]} unknown, in {self.requests} requests"
        return [
            ("verdict", f"{shown}; at most {self.alarm:.0%} false alarms"),
            *((one.test, f"{one.verdict}: {one.detail}") for one in self.verdicts),
        ]


def audit(
    url: str,
    model: str | None = None,
    *,
    draws: int = 100,
    block: int = BLOCK,
    timeout: float = TOTAL,
    transport: Any = None,
) -> Audit:
    """Test a deployed server, by about 7 times `draws` requests.

    model: its name at the server. (default: the first that it lists) draws: answers in each sample of a distribution.
    block: tokens that the server generates at once. timeout: seconds of an answer. transport: of httpx, in place of
    the network.
    """
    arguments.whole("draws", draws, 20, 10**4)
    arguments.whole("block", block, 2, 2**16)
    began = time.monotonic()
    client = Client(url, model, timeout, transport)
    client.model = model or client.models()

    with progress.track("audit", len(TESTS)) as advance:
        suite = _Suite(client, draws, block)
        verdicts = []
        for test, run in TESTS.items():
            before = client.sent
            answer = Verdict(test, *run(suite))
            shown = answer.detail if answer.p is None else f"{answer.detail}; p = {answer.p:.2g}"
            verdicts.append(answer._replace(detail=cut(shown), requests=client.sent - before))
            advance(1)

    behavior = {RED: IGNORED, GREEN: OBEYED, UNKNOWN: UNKNOWN}
    fields = {one.test: behavior[one.verdict] for one in verdicts if one.test in ("temperature", "seed")}
    fields |= {name: verdict for name, verdict in suite.fields.items() if name not in fields or verdict == REFUSED}
    if suite.seeded[0].outcome == "refused":
        fields["seed"] = REFUSED
    return Audit(client.url, client.model, fields, tuple(verdicts), client.sent, time.monotonic() - began)


class _Suite:
    """The answers that several tests use, each requested once."""

    def __init__(self, client: Client, draws: int, block: int) -> None:
        self.client = client
        self.draws, self.block = draws, block
        self.ask, self.one = client.ask_all, client.ask

        self.usual: dict[str, Any] = dict(USUAL)
        first = self.one(DIE, max_tokens=SHORT, **self.usual)
        if first.param in self.usual:  # refused, with the name of the field
            del self.usual[first.param]
            first = self.one(DIE, max_tokens=SHORT, **self.usual)

        if first.outcome in ("transport", "timeout"):
            raise UnmaskError(f"the server does not answer: {first.error}. Is it running at {cut(client.url)}?")
        if not first.answered:
            reason = first.error or "its text is empty"
            raise UnmaskError(
                f"{cut(client.url)} does not answer a usual request: {first.outcome}, {reason}. "
                "Expected an OpenAI-compatible server; check the address and --model"
            )

        self.fields = {name: self._treated(name) for name in FIELDS}

    def _treated(self, name: str) -> str:
        """How the server treats a field."""
        usual, impossible = (self.one("Hello", max_tokens=8, **{name: value}) for value in FIELDS[name])
        refused = impossible.outcome == "refused" or (impossible.status == 200 and impossible.outcome == "server_error")
        if usual.outcome == "refused":
            return REFUSED
        if usual.status != 200 or not (refused or impossible.status == 200):
            return UNKNOWN
        return OBEYED if refused else IGNORED

    def die(self, concurrency: int = 1, **fields: Any) -> Counter[str]:
        return _words(self.ask([DIE] * self.draws, concurrency, **fields))

    @cached_property
    def base(self) -> Counter[str]:
        """The first words of answers with the usual fields, one request at a time."""
        return self.die(max_tokens=SHORT, **self.usual)

    @cached_property
    def warm(self) -> list[str]:
        return _texts(self.ask([LONG] * FEW, max_tokens=SHORT, **self.usual))

    @cached_property
    def cold(self) -> list[Answer]:
        """Answers at temperature 0."""
        return self.ask([LONG] * FEW, max_tokens=SHORT, **(self.usual | {"temperature": 0}))

    @cached_property
    def seeded(self) -> list[Answer]:
        """Two answers with each seed."""
        return [self.one(LONG, max_tokens=SHORT, seed=1 + number // 2, **self.usual) for number in range(2 * SEEDS)]

    @cached_property
    def fixed(self) -> dict[str, Any] | None:
        """Fields that determine the answer; None if there are none."""
        if _answered(self.cold) and len(set(_texts(self.cold))) == 1:
            return self.usual | {"temperature": 0}
        texts = _texts(self.seeded)
        return self.usual | {"seed": 1} if all(texts) and texts[::2] == texts[1::2] else None

    @cached_property
    def both(self) -> tuple[Answer, Answer]:
        """One answer and one stream of the same request, over three blocks."""
        how = {"max_tokens": 2 * self.block + 1} | (self.fixed or self.usual)
        stream = self.one(LONG, stream=True, **how, stream_options={"include_usage": True})
        if stream.outcome == "refused":
            stream = self.one(LONG, stream=True, **how)
        return self.one(LONG, **how), stream

    def same(self, counts: Counter[str], what: str, tests: int = 1) -> Found:
        """Compare words with those of `base`. tests: number of p-values, of which the caller takes the smallest."""
        if len(self.base) < 2 and len(counts) < 2 and self.base.keys() == counts.keys():
            return UNKNOWN, "all answers are equal, so no difference can be seen"
        p = min(tests * two_samples(self.base, counts), 1.0)
        if p < LEVEL:
            return RED, f"other answers {what}", p
        return GREEN, f"no other answers {what}", p


def _texts(answers: Sequence[Answer]) -> list[str]:
    return entries.column(answers, "text")


def _answered(answers: Sequence[Answer]) -> bool:
    return all(entries.column(answers, "answered"))


def _words(answers: list[Answer]) -> Counter[str]:
    """First words; an answer without one counts by its outcome."""
    return Counter((one.text.split()[0].strip(".,").lower() if one.answered else f"({one.outcome})") for one in answers)


def _temperature(suite: _Suite) -> Found:
    cold, base = suite.cold, suite.base
    answered, texts = _answered(cold), set(_texts(cold))
    if answered and len({*texts, *suite.warm}) == 1:
        return RED, f"argmax at every temperature: {2 * FEW} answers of {SHORT} tokens are equal"
    if answered and len(texts) > 1:
        return RED, f"temperature 0 is accepted, but {len(texts)} of {FEW} answers differ"

    half = suite.die(max_tokens=SHORT, **(suite.usual | {"temperature": 0.5}))
    why = f"temperature 0: {cold[0].outcome}"
    if not answered and "(refused)" in half:
        return UNKNOWN, f"{why}; 0.5 is refused, too"

    p = two_samples(base, half)
    if answered:
        return GREEN, "temperature 0 gives equal answers, 1 does not; temperatures 0.5 and 1", p
    if p < LEVEL:
        return GREEN, f"{why}; 0.5 and 1 differ", p
    return UNKNOWN, f"{why}; 0.5 and 1 look alike", p


def _swallow(suite: _Suite) -> Found:
    ignored = [name for name, verdict in suite.fields.items() if verdict == IGNORED]
    if ignored:
        return RED, f"ignored without an error: {', '.join(ignored)}"
    if set(suite.fields.values()) == {UNKNOWN}:
        return UNKNOWN, "no request for a field was answered"
    return GREEN, "each field is obeyed or refused with a reason"


def _seed(suite: _Suite) -> Found:
    answers = suite.seeded
    texts = _texts(answers)
    if not _answered(answers):
        return UNKNOWN, f"the server does not take seeds: {answers[0].error or answers[0].outcome}"
    other = sum(map(ne, texts[::2], texts[1::2]))
    if other:
        return RED, f"{other} of {SEEDS} seeds give another answer the second time"
    if len(set(texts)) > 1:
        return GREEN, "equal seeds give equal answers, other seeds do not"
    p = two_samples(Counter(texts[::2]), Counter(suite.warm))
    if p < LEVEL:
        return RED, "all seeds give the same answer, and answers without a seed differ", p
    return UNKNOWN, "all answers are equal, with and without a seed"


def _load(suite: _Suite) -> Found:
    how = {"max_tokens": SHORT} | suite.usual
    runs = [suite.same(suite.die(many, **how), f"at concurrency {many}", 2) for many in (8, 32)]
    return min(runs, key=lambda one: one[2] if len(one) > 2 else 1.0)


def _repetition(suite: _Suite) -> Found:
    texts = _texts(suite.ask([f"{LONG} Begin."] * FEW, max_tokens=SHORT, **(suite.fixed or suite.usual)))
    if pad := next(filter(None, map(PADS.search, texts)), None):
        return RED, f"an answer to a repeated prompt contains {pad[0]!r}"
    short = [text for text in texts[1:] if len(text) < len(texts[0]) and texts[0].endswith(text)]
    if suite.fixed and short:
        return RED, f"{len(short)} of {FEW - 1} repeated answers lack the beginning of the first"
    if not all(texts):
        return RED, f"{texts.count('')} of {FEW} equal prompts have no answer"
    return GREEN, f"{FEW} equal prompts, without padding or a missing first token"


def _padding(suite: _Suite) -> Found:
    answers = suite.ask([FILLER, DIE] * suite.draws, 4, max_tokens=SHORT, **suite.usual)
    return suite.same(_words(answers[1::2]), "to a short prompt beside a long one")


def _boundaries(suite: _Suite) -> Found:
    how = suite.fixed or suite.usual
    length = suite.block
    budgets = [length - 1, length, length + 1, 2 * length + 1]
    answers = [suite.one(LONG, max_tokens=many, **how) for many in budgets]
    for many, answer in zip(budgets, answers, strict=True):
        short = answer.outcome == "truncated" and answer.tokens != many
        if answer.tokens is not None and (answer.tokens > many or short):
            return RED, f"{answer.tokens} tokens for max_tokens {many}"

    # a text from the middle of an answer, across the end of a block
    whole = answers[-1].text
    middle = len(whole) * length // (2 * length + 1)
    stop = whole[max(middle - 2, 0) : middle + 2]
    if suite.fixed and stop.strip():
        ended = suite.one(LONG, max_tokens=2 * length + 1, stop=[stop], **how)
        expected = whole[: whole.index(stop)]
        if ended.outcome != "refused" and ended.text.strip() != expected.strip():
            return RED, f"the stop text {stop!r} across a block does not end the answer where it occurs"

    if None in entries.column(answers, "tokens"):
        return UNKNOWN, "the server does not report its number of tokens"
    also = ", and so is a stop text" if suite.fixed else ""
    return GREEN, f"max_tokens {', '.join(map(str, budgets))} are exact{also}"


def _empty(suite: _Suite) -> Found:
    thinking: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": True}}
    small = suite.one(LONG, max_tokens=8, **thinking)
    if small.outcome == "refused":
        thinking = {}
        small = suite.one(LONG, max_tokens=8)
    large = suite.one(DIE, max_tokens=200, **thinking)

    if small.outcome == "empty" and not small.reasoning and small.tokens:
        return RED, f"{small.tokens} tokens, but neither content nor reasoning"
    if large.outcome == "empty" and large.finish != "length":
        where = "in the reasoning" if large.reasoning else "nowhere"
        return RED, f"the content of a complete answer is empty; its text is {where}"

    if not large.answered:
        return UNKNOWN, f"no complete answer: {large.outcome} {large.error}".strip()
    if small.outcome == "empty":
        return GREEN, "a complete answer has content (the reasoning took a budget of 8 tokens)"
    return GREEN, "a complete answer has content"


def _chunks(suite: _Suite) -> Found:
    alone, stream = suite.both
    if not stream.answered:
        return UNKNOWN, f"no stream: {stream.outcome} {stream.error}".strip()

    sizes = stream.chunks
    ends = list(accumulate(sizes))
    parts = [stream.text[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    if len(parts) > 2 and all(later.startswith(one) and later != one for one, later in pairwise(parts)):
        return RED, "each chunk repeats the text before it; expected only its own"
    about = f"{len(sizes)} chunks of {min(sizes, default=0)} to {max(sizes, default=0)} characters"

    if suite.fixed is None:
        return UNKNOWN, f"{about}; no field makes a stream and an answer equal, so they cannot be compared"
    if stream.text != alone.text:
        return RED, f"{about}; the text of the stream differs from the answer"
    return GREEN, f"{about}; the text is that of the answer"


def _defaults(suite: _Suite) -> Found:
    return suite.same(suite.die(), f"without the fields {', '.join(suite.usual)}")


def _stream_error(suite: _Suite) -> Found:
    streams = suite.ask([LONG] * FEW, stream=True, max_tokens=SHORT, **suite.usual)
    if early := next((one for one in streams if one.outcome in ("malformed", "transport")), None):
        return RED, f"a stream ends early: {early.error}"
    refused = suite.one(LONG, stream=True, **(suite.usual | {"temperature": "hot", "max_tokens": SHORT}))
    if refused.status == 200 and refused.outcome == "server_error":
        return RED, "an impossible request has status 200, and its error is within the stream"
    if refused.outcome != "refused":
        return UNKNOWN, f"{FEW} streams end as they should; no request made the server fail"
    return GREEN, f"{FEW} streams end as they should; an impossible request has status {refused.status}"


def _logits(suite: _Suite) -> Found:
    known = suite.one(DIE, max_tokens=SHORT, **suite.usual, logprobs=True, top_logprobs=10).probabilities
    if not known:
        return UNKNOWN, "the server does not report log-probabilities"
    if len(suite.base) < 2:
        return UNKNOWN, "all answers are equal, so they show no probabilities"

    odds: Counter[str] = Counter()
    for token, probability in known.items():
        odds[token.strip().lower()] += probability  # type: ignore[assignment]
    p = one_sample(suite.base, odds)
    if p < LEVEL:
        return RED, f"{suite.draws} first words are not from the reported log-probabilities", p
    return GREEN, f"{suite.draws} first words agree with the reported log-probabilities", p


ALL: tuple[Callable[[_Suite], Found], ...] = (
    _temperature,
    _swallow,
    _seed,
    _load,
    _repetition,
    _padding,
    _boundaries,
    _empty,
    _chunks,
    _defaults,
    _stream_error,
    _logits,
)
TESTS = {test.__name__[1:].replace("_", "-"): test for test in ALL}
LEVEL = ALARM / len(TESTS)
