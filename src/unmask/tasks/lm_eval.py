"""The model `unmask` of EleutherAI's lm-eval: all open models and samplers on its tasks (extra `lm-eval`).

generate_until          the answers of `unmask generate`, which end at the strings `until`
loglikelihood           exact for AR models; for masked models see diagnosis/nelbo.py, with a standard error
loglikelihood_rolling   the same for a whole text, in windows of the context length

An answer depends only on its request and the number of the request, not on other requests. With batch_size 1, the
default, this holds bit for bit. lm-eval keeps only scores; `record=FILE` writes a line per request, and
`run` joins both (logs.py).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from unmask.core import arguments, entries, progress
from unmask.core.errors import UnmaskError, needed, shown, unknown
from unmask.core.files import atomic, check_writable, finite
from unmask.core.reading import fit
from unmask.diagnosis.nelbo import Likelihood, bound, chain, read, sets_of
from unmask.models.open import OpenModel, load_model
from unmask.models.open.prompted import Query, answers, chats, speaker, usual
from unmask.planning.judge import by_sampler, check_kind
from unmask.tasks import logs

with needed("lm-eval", "the model `unmask` of lm-eval"):
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM
    from lm_eval.api.registry import MODEL_REGISTRY, register_model
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

DEFAULTS = ("cuda", "cuda:0")  # of lm-eval's --device, also on a machine without one
CHAT = "unmask-chat:"  # prefix of a conversation, which lm-eval keeps as a string
NEW = 256  # tokens of an answer, for tasks that set no limit
LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # the names that tasks use
OURS = {"sampler", "schedule", "steps", "block_length", "temperature", "top_p", "top_k", "guidance", "draw"}
KINDS = ("auto", "chain", "bound", "path")


class UnmaskLM(LM):  # type: ignore[misc]
    """model: an OpenModel, or the name or directory of one; card, device, dtype: as in `load_model`.

    sampler, schedule, steps, block_length, temperature, top_p, top_k, guidance, draw, seed: settings of generation
    (`answering.usual`); they take precedence over those of a task.
    likelihood (masked models): "chain", "bound", or "auto", which is chain for targets of up to `draws` tokens, where
    it is not more expensive; or "path", that of the sampler (diagnosis/likelihood.py).
    draws: sets of positions per bound, or random choices of the sampler.
    resume: take the answers that `record` already has from an interrupted run of the same settings.
    """

    usual_record: ClassVar[Path | None] = None  # the file of the requests, if the arguments name none

    def __init__(
        self,
        model: str | OpenModel,
        *,
        card: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
        batch_size: int | str = 1,
        max_batch_size: int | None = None,
        max_gen_toks: int = NEW,
        seed: int = 0,
        likelihood: str = "auto",
        draws: int = 128,
        record: str | None = None,
        resume: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        for name in options.keys() - OURS:
            raise unknown("model argument", name, {*OURS, "model", "card", "device", "dtype", "batch_size", "record"})

        self.batch = arguments.whole("batch_size", _plain(batch_size))
        self.new = arguments.whole("max_gen_toks", max_gen_toks)
        self.kind = arguments.word("likelihood", likelihood, KINDS)
        self.draws = arguments.whole("draws", draws, 2)
        self.seed, self.options = seed, options

        if isinstance(model, str):
            device = "auto" if device in (None, *DEFAULTS) else device
            model = load_model(model, card=card, device=device, dtype=dtype, batch=self.batch)
        self.model, self.tokenizer = model, speaker(model)
        usual(model, self.new, **options)  # raises errors of the options before the first request
        if self.kind == "path":
            check_kind(model, self.kind, **options)

        self.records: list[dict[str, Any]] = []
        self.known: dict[tuple[Any, ...], str] = {}  # the answers of an interrupted run
        self.file = self.usual_record if record is None else Path(record)
        if self.file is not None:
            check_writable(self.file)
            self._begin(self.file, resume)

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict[str, Any] | None = None) -> UnmaskLM:
        return cls.create_from_arg_obj(logs.arguments_of(arg_string), additional_config)

    @classmethod
    def create_from_arg_obj(cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None) -> UnmaskLM:
        options = entries.given(additional_config or {})
        options |= entries.mapped(_plain, _mended(arg_dict))
        if "model" not in options:
            raise UnmaskError(
                "--model_args names no model. Pass --model_args model=NAME, with a name of `unmask show model`"
            )
        return cls(**options)

    @property
    def tokenizer_name(self) -> str:
        """For lm-eval's cache of requests."""
        return f"unmask-{self.model.name}-{self.tokenizer.digest[:16]}"

    def chat_template(self, chat_template: bool | str = False) -> str:
        """The name of the template, for lm-eval's results; it is always that of the card."""
        if isinstance(chat_template, str):
            raise UnmaskError(f"chat template {shown(chat_template)} is not supported. Pass the flag without a name")
        return f"unmask:{self.model.card.template}" if chat_template else ""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """A conversation as JSON, which is read again later, so that no text of a message can end a turn."""
        chats(self.model)
        query: dict[str, Any] = {"messages": chat_history}
        if not add_generation_prompt:  # the last message is the beginning of the answer
            *before, last = chat_history
            query = {"messages": before, "begun": last["content"]}
        return CHAT + json.dumps(query)

    def get_model_info(self) -> dict[str, Any]:
        """For lm-eval's results."""
        about = {"likelihood": self.kind, "draws": self.draws, "seed": self.seed}
        return {"unmask": finite(self.model.source() | about | self.options)}

    def _begin(self, file: Path, resume: bool) -> None:
        """Empty the file of the requests, or keep its whole lines: a kill can cut only the last one."""
        lines: list[bytes] = re.findall(rb".*\n", file.read_bytes()) if resume and file.exists() else []
        self.records = list(map(json.loads, lines))
        self.known = {_place(line): str(line["text"]) for line in self.records if line["kind"] == "generate_until"}
        with atomic(file) as emptied:
            emptied.writelines(lines)

    def _answered(self, request: Instance, number: int) -> str | None:
        """The text of an answer that an interrupted run has written."""
        return self.known.get(_place(_line(request) | {"row": number}))

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        numbers = _numbers(requests)
        queries = [_query(request.args[0]) for request in requests]
        numbered = list(zip(range(len(requests)), numbers, requests, queries, strict=True))
        groups = entries.grouped(numbered, lambda one: json.dumps(self._settings(one[2].args[1]), sort_keys=True))

        texts: list[Any] = list(map(self._answered, requests, numbers))
        missing = {index for index, text in enumerate(texts) if text is None}
        with progress.track("answering", len(requests)) as advance:
            for settings, own in groups.items():
                until, length, options = json.loads(settings)
                for part in _parts(own, self.batch, lambda one: len(one[3].prompt or "")):
                    advance(len(part))
                    indices, rows, _, batch = zip(*part, strict=True)
                    # an interrupted run has answered them
                    if missing.isdisjoint(indices):
                        continue

                    began = time.perf_counter()
                    replies = answers(self.model, batch, length, until=until, seed=self.seed, first_row=rows, **options)
                    seconds = time.perf_counter() - began

                    for (index, row, request, _), answer in zip(part, replies, strict=True):
                        texts[index] = answer.text
                        self.cache_hook.add_partial("generate_until", request.args, answer.text)
                        if index not in missing:
                            continue
                        self._record(
                            request,
                            {
                                "row": row,
                                "prompt_tokens": answer.given,
                                "tokens": len(answer.tokens),
                                "reason": answer.reason,
                                "model_calls": answer.model_calls,
                                "batch": len(part),
                                "seconds": seconds / len(part),
                                "options": options,
                                "text": answer.text,
                            },
                        )

        return texts

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        pairs = [self._pair(*request.args) for request in requests]
        scores: list[tuple[float, bool]] = [(0.0, True)] * len(requests)
        for index, (about, likelihood) in self._likelihoods(pairs):
            scores[index] = likelihood.nats, bool(likelihood.greedy)
            self.cache_hook.add_partial("loglikelihood", requests[index].args, scores[index])
            self._record(requests[index], about | {"greedy": likelihood.greedy})
        return scores

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        windows: list[tuple[list[int], list[int]]] = []
        owners: list[int] = []
        for index, request in enumerate(requests):
            tokens = self.tokenizer.encode(request.args[0]).tolist()

            # no token is the target of two windows, so their nats add up
            each = get_rolling_token_windows(tokens, -1, self.model.length - 1, 1)
            for before, after in map(make_disjoint_window, each):
                windows.append(([token for token in before if token >= 0], after))
                owners.append(index)

        nats, variance = [0.0] * len(requests), [0.0] * len(requests)
        model_calls, seconds = [0] * len(requests), [0.0] * len(requests)

        for window, (window_about, likelihood) in self._likelihoods(windows):
            seconds[owners[window]] += window_about["seconds"]
            nats[owners[window]] += likelihood.nats
            variance[owners[window]] += likelihood.error**2
            model_calls[owners[window]] += likelihood.model_calls

        for index, request in enumerate(requests):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, nats[index])
            self._record(
                request,
                {
                    "nats": nats[index],
                    "standard_error": variance[index] ** 0.5,
                    "model_calls": model_calls[index],
                    "seconds": seconds[index],
                    "windows": owners.count(index),
                },
            )
        return nats

    def _settings(self, task: Mapping[str, Any]) -> tuple[list[str], int, dict[str, Any]]:
        """(until, tokens of an answer, options of `generate`) of a task's settings; without sampling, temperature 0."""
        until = list(filter(None, entries.several(task.get("until"))))
        length = arguments.whole("max_gen_toks", next(filter(None, map(task.get, LENGTHS)), self.new))

        options: dict[str, Any] = {"temperature": 0.0}
        if task.get("do_sample", bool(task.get("temperature"))):
            options = entries.given(entries.picked(task, ("temperature", "top_p", "top_k")))
        return until, length, usual(self.model, length, **(options | self.options))

    def _pair(self, context: str, target: str) -> tuple[list[int], list[int]]:
        """Tokens of a context and its target. Spaces at the end of the context belong to the target."""
        if context.startswith(CHAT):
            # encoded as a whole, since a tokenizer may join the two
            query = _query(context)
            chat = chats(self.model)
            messages = query.messages or []
            before = chat.tokens(self.tokenizer, messages, query.begun)
            return before, chat.tokens(self.tokenizer, messages, query.begun + target)[len(before) :]
        before = self.tokenizer.encode(context.rstrip()).tolist()
        return before, self.tokenizer.encode(context + target).tolist()[len(before) :]

    def _likelihoods(
        self, pairs: Sequence[tuple[list[int], list[int]]]
    ) -> Iterable[tuple[int, tuple[dict[str, Any], Likelihood]]]:
        """(number, (record, likelihood)) of each pair with a target.

        Contexts that are too long lose their first tokens.
        """
        rows: dict[int, tuple[Tensor, int, dict[str, Any]]] = {}
        for number, (before, after) in enumerate(pairs):
            if len(after) > self.model.length:
                raise UnmaskError(
                    f"request {number} has a target of {len(after)} tokens",
                    f"expected at most {self.model.length} for {self.model.name}",
                    "Leave it out",
                )
            if after:
                lost = max(len(before) + len(after) - self.model.length, 0)
                about: dict[str, Any] = {
                    "context_tokens": len(before),
                    "context_cut": lost,
                    "target_tokens": len(after),
                }
                row = torch.tensor(before[lost:] + after).clamp(max=self.model.vocabulary - 1)
                rows[number] = row, len(before) - lost, about

        with progress.track("reading", len(rows)) as advance:
            size = self.batch if self.model.card.causal else 1
            for part in _parts(list(rows.items()), size, lambda one: len(one[1][0])):
                numbers, batch = zip(*part, strict=True)
                began = time.perf_counter()
                estimates = self._likely(batch)
                seconds = (time.perf_counter() - began) / len(part)
                for number, (_, _, about), (by, likely) in zip(numbers, batch, estimates, strict=True):
                    about |= {
                        "by": by,
                        "nats": likely.nats,
                        "standard_error": likely.error,
                        "seconds": seconds,
                        "model_calls": likely.model_calls,
                    }
                    yield number, (about, likely)
                advance(len(part))

    def _likely(self, rows: Sequence[tuple[Tensor, int, Any]]) -> list[tuple[str, Likelihood]]:
        if self.model.card.causal:
            tokens, firsts, _ = zip(*rows, strict=True)
            return list(zip(repeat("read"), read(self.model, tokens, firsts), strict=False))

        estimates = []
        for row, first, _ in rows:
            size = len(row) - first
            own = int.from_bytes(hashlib.sha256(str((self.seed, first, row.tolist())).encode()).digest()[:7])

            if self.kind == "chain" or (self.kind == "auto" and size <= self.draws):
                estimates.append(("chain", chain(self.model, row, first)))
            elif self.kind == "path":
                estimates.append(("path", by_sampler(self.model, row, first, self.draws, own, **self.options)))
            else:
                estimates.append(("bound", bound(self.model, row, first, sets_of(size, self.draws, own))))
        return estimates

    def _record(self, request: Instance, about: Mapping[str, Any]) -> None:
        self.records.append(finite(_line(request) | dict(about)))
        if self.file is not None:
            with self.file.open("a") as file:
                print(json.dumps(self.records[-1]), file=file)


def run(words: Sequence[str]) -> Path | None:
    """Run lm-eval with these words. With --output_path, return the file that has each item's scores and cost."""
    with needed("lm-eval", "its harness"):
        from lm_eval.__main__ import cli_evaluate

    register()
    flags = ArgumentParser(add_help=False, allow_abbrev=False)
    flags.add_argument("--output_path", "-o", type=Path)
    out = flags.parse_known_args(list(words))[0].output_path
    before, usual = sys.argv, UnmaskLM.usual_record
    sys.argv, UnmaskLM.usual_record = ["lm-eval", *words], None
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        sys.argv.append("--log_samples")  # the file needs the scores of items
        UnmaskLM.usual_record = out / logs.REQUESTS

    try:
        cli_evaluate()
    finally:
        sys.argv, UnmaskLM.usual_record = before, usual
    return logs.write(out) if out is not None and logs.is_log(out) else None


def register() -> None:
    """Register the model as `unmask`, for releases of lm-eval without entry points."""
    import_module("lm_eval.models")  # otherwise its own models would not be registered
    if "unmask" not in MODEL_REGISTRY:
        register_model("unmask")(UnmaskLM)


def _line(request: Instance) -> dict[str, Any]:
    """The fields of a record that name its request."""
    return {
        "kind": request.request_type,
        "task": request.task_name,
        "doc": request.doc_id,
        "choice": request.idx,
        "prompt_sha256": hashlib.sha256(request.args[0].encode(errors="replace")).hexdigest(),
    }


def _place(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """The key of an answer within a run."""
    return itemgetter("task", "doc", "choice", "prompt_sha256", "row")(line)


def _query(context: str) -> Query:
    if not context.startswith(CHAT):
        return Query(prompt=context)
    query: Query = fit(json.loads(context.removeprefix(CHAT)), Query, "a conversation")
    return query


def _numbers(requests: Sequence[Instance]) -> list[int]:
    """The number of each row: that of its document, times the repeats, plus the index of the repeat."""
    repeats: Counter[int] = Counter()
    numbers = []
    for index, request in enumerate(requests):
        document = entries.chosen(request.doc_id, index)
        numbers.append(document * (request.repeats or 1) + repeats[id(request)])
        repeats[id(request)] += 1
    return numbers


def _parts(requests: Sequence[Any], size: int, length: Any) -> Iterable[tuple[Any, ...]]:
    """Batches of requests of similar length."""
    requests = sorted(requests, key=length)
    return (tuple(requests[first : first + size]) for first in range(0, len(requests), size))


def _mended(given: Mapping[str, Any]) -> dict[str, Any]:
    """Rejoin arguments that were split at commas within brackets, as in "llada(block_length=32, temperature=0)"."""
    mended: dict[str, Any] = {}
    unfinished = ""  # the argument whose bracket is open
    for name, value in given.items():
        if unfinished:
            mended[unfinished] += f", {name.strip()}={value}"
        else:
            unfinished = name.strip()
            mended[unfinished] = value

        text = str(mended[unfinished])
        if text.count("(") <= text.count(")"):
            unfinished = ""

    if unfinished:
        raise UnmaskError(f"model argument {unfinished} is {shown(mended[unfinished])}; expected a closing bracket")
    return mended


def _plain(value: Any) -> Any:
    """The number in a text, or the text."""
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value
