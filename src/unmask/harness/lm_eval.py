"""Open models within EleutherAI's lm-eval: every model and sampler here under every task there (extra `lm-eval`).

generate_until          rows as `unmask generate` makes them, which end where `until` is complete
loglikelihood           exact of AR models; of masked ones diagnosis/likelihood.py, with a standard error in the record
loglikelihood_rolling   the same of a whole text, in windows as long as the context

What is answered to a request depends on it and on its number alone, not on what else is asked; at batch_size 1, as it
is unless told otherwise, to the last bit. lm-eval itself keeps numbers alone: `record=FILE` keeps a line a request.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError, shown, unknown
from unmask.core.extras import needed
from unmask.core.files import check_writable, finite
from unmask.core.reading import fit
from unmask.diagnosis.likelihood import Likelihood, bound, chain, read, sets_of
from unmask.generation import generate
from unmask.hub import OpenModel, load_model
from unmask.hub.answering import answers, usual
from unmask.hub.prompted import Asked, chats, speaker

with needed("lm-eval", "the model `unmask` of lm-eval"):
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM
    from lm_eval.api.registry import MODEL_REGISTRY, register_model
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

CHAT = "unmask-chat:"  # what a conversation begins with that lm-eval holds as a text
NEW = 256  # tokens of an answer, where a task does not say
LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # as tasks call it
OURS = {"sampler", "schedule", "steps", "block_length", "temperature", "top_p", "top_k", "guidance"}
KINDS = ("auto", "chain", "bound")
GREEDY = ("read", "decode")


class UnmaskLM(LM):  # type: ignore[misc]
    """model: an OpenModel, or what names one; card, device, dtype, quantize, cache: of `load_model`.

    sampler, schedule, steps, block_length, temperature, top_p, top_k, guidance, seed: how it writes
    (`answering.usual`); what is said here counts more than what a task says, which decides where nothing is.
    likelihood: of a masked model: "chain", "bound", or "auto": chain for targets of up to `draws` tokens, which costs
    no more. draws: sets of places of a bound. greedy: what lm-eval's flag is: "read", whether each token is the
    likeliest behind those before it, and False where only a bound is made; or "decode", whether the sampler writes it.
    """

    def __init__(
        self,
        model: str | OpenModel,
        *,
        card: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
        quantize: str | None = None,
        cache: str | None = None,
        batch_size: int | str = 1,
        max_batch_size: int | None = None,
        max_gen_toks: int = NEW,
        seed: int = 0,
        likelihood: str = "auto",
        draws: int = 128,
        greedy: str = "read",
        record: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        for name in options.keys() - OURS:
            raise unknown("model argument", name, {*OURS, "model", "card", "device", "dtype", "batch_size", "record"})
        self.batch = arguments.whole("batch_size", int(batch_size) if str(batch_size).isdecimal() else batch_size)
        self.new = arguments.whole("max_gen_toks", max_gen_toks)
        self.kind, self.greedy = (
            arguments.word("likelihood", likelihood, KINDS),
            arguments.word("greedy", greedy, GREEDY),
        )
        self.draws, self.seed, self.options = arguments.whole("draws", draws, 2), seed, options
        if isinstance(model, str):
            model = load_model(
                model, card=card, device=device or "auto", dtype=dtype, quantize=quantize, cache=cache, batch=self.batch
            )
        self.model, self.tokenizer = model, speaker(model)
        usual(model, self.new, **options)  # which refuses what cannot be had before anything is asked
        self.records: list[dict[str, Any]] = []
        self.file = None if record is None else Path(record)
        if self.file is not None:
            check_writable(self.file)
            self.file.write_text("")

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict[str, Any] | None = None) -> UnmaskLM:
        parts = [part.partition("=") for part in arg_string.split(",") if part]
        return cls.create_from_arg_obj({name: value for name, _, value in parts}, additional_config)

    @classmethod
    def create_from_arg_obj(cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None) -> UnmaskLM:
        given = {name: value for name, value in (additional_config or {}).items() if value is not None}
        given |= {name: _plain(value) for name, value in _mended(arg_dict).items()}
        if "model" not in given:
            raise UnmaskError("--model_args names no model; write --model_args model=NAME, of `unmask list models`")
        return cls(**given)

    @property
    def tokenizer_name(self) -> str:
        """For lm-eval's cache of requests."""
        return f"unmask-{self.model.name}-{self.tokenizer.digest[:16]}"

    def chat_template(self, chat_template: bool | str = False) -> str:
        """For lm-eval's results: which of ours; another one cannot be had."""
        if isinstance(chat_template, str):
            raise UnmaskError(f"chat template {shown(chat_template)}: an open model has the one of its card; name none")
        return f"unmask:{self.model.card.template}" if chat_template else ""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """A conversation as a text that is read here again, so that nobody ends a turn by what he writes."""
        chats(self.model)
        *before, last = chat_history
        begun = "" if add_generation_prompt else last["content"]
        messages = chat_history if add_generation_prompt else before
        return CHAT + json.dumps({"messages": messages} | ({"begun": begun} if begun else {}))

    def get_model_info(self) -> dict[str, Any]:
        """For lm-eval's results."""
        about = {"likelihood": self.kind, "draws": self.draws, "greedy": self.greedy, "seed": self.seed}
        return {"unmask": finite(self.model.source() | about | self.options)}

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        numbers, asked = _numbers(requests), [_asked(request.args[0]) for request in requests]
        groups: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            groups.setdefault(json.dumps(self._settings(request.args[1]), sort_keys=True), []).append(place)
        found = [""] * len(requests)
        with progress.track("answering", len(requests)) as advance:
            for settings, places in groups.items():
                until, length, options = json.loads(settings)
                for part in _parts(places, self.batch, lambda place: len(asked[place].prompt or "")):
                    began = time.perf_counter()
                    said, _ = answers(
                        self.model,
                        [asked[place] for place in part],
                        length,
                        until=until,
                        seed=self.seed,
                        first_row=[numbers[place] for place in part],
                        **options,
                    )
                    seconds = time.perf_counter() - began
                    for place, answer in zip(part, said, strict=True):
                        found[place] = answer.text
                        self.cache_hook.add_partial("generate_until", requests[place].args, answer.text)
                        about: dict[str, Any] = {"row": numbers[place], "prompt_tokens": answer.given}
                        about |= {"tokens": len(answer.tokens)}
                        about |= {"reason": answer.reason, "evaluations": answer.evaluations}
                        about |= {"batch": len(part), "batch_seconds": seconds, "options": options}
                        self._record(requests[place], about | {"text": answer.text})
                    advance(len(part))
        return found

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        pairs = [self._pair(*request.args) for request in requests]
        found: list[tuple[float, bool]] = [(0.0, True)] * len(requests)
        for place, (row, first, about, said) in self._said(pairs):
            greedy = self._writes(row, first) if self.greedy == "decode" else said.greedy
            found[place] = said.nats, bool(greedy)
            self.cache_hook.add_partial("loglikelihood", requests[place].args, found[place])
            self._record(requests[place], about | {"greedy": greedy})
        return found

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        windows: list[tuple[list[int], list[int]]] = []
        owners: list[int] = []
        for place, request in enumerate(requests):
            tokens = self.tokenizer.encode(request.args[0]).tolist()
            for before, after in map(make_disjoint_window, get_rolling_token_windows(tokens, -1, self._most - 1, 1)):
                windows.append(([token for token in before if token >= 0], after))
                owners.append(place)
        nats, variance = [0.0] * len(requests), [0.0] * len(requests)
        evaluations = [0] * len(requests)
        for window, (_, _, _, said) in self._said(windows):
            nats[owners[window]] += said.nats
            variance[owners[window]] += said.error**2
            evaluations[owners[window]] += said.evaluations
        for place, request in enumerate(requests):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, nats[place])
            about: dict[str, Any] = {"nats": nats[place], "standard_error": variance[place] ** 0.5}
            about |= {"evaluations": evaluations[place], "windows": owners.count(place)}
            self._record(request, about)
        return nats

    @property
    def _most(self) -> int:
        """Tokens of a row."""
        return self.model.length

    def _settings(self, said: Mapping[str, Any]) -> tuple[list[str], int, dict[str, Any]]:
        """(until, the tokens of an answer, options of `generate`) of what a task says; a task that does not sample
        asks for the likeliest tokens."""
        until = said.get("until") or []
        until = [string for string in ([until] if isinstance(until, str) else until) if string]
        length = arguments.whole("max_gen_toks", next((said[name] for name in LENGTHS if said.get(name)), self.new))
        options: dict[str, Any] = {"temperature": 0.0}
        if said.get("do_sample", bool(said.get("temperature"))):
            options = {name: said[name] for name in ("temperature", "top_p", "top_k") if said.get(name) is not None}
        return until, length, usual(self.model, length, **(options | self.options))

    def _pair(self, context: str, target: str) -> tuple[list[int], list[int]]:
        """Tokens of a context and of what follows, whose first spaces are those that the context ends with."""
        if context.startswith(CHAT):
            asked, chat = _asked(context), chats(self.model)
            messages = asked.messages or []
            before = chat.tokens(self.tokenizer, messages, asked.begun)
            return before, chat.tokens(self.tokenizer, messages, asked.begun + target)[len(before) :]
        kept = context.rstrip()
        before = self.tokenizer.encode(kept).tolist()
        return before, self.tokenizer.encode(context + target).tolist()[len(before) :]

    def _said(
        self, pairs: Sequence[tuple[list[int], list[int]]]
    ) -> Iterable[tuple[int, tuple[Tensor, int, dict[str, Any], Likelihood]]]:
        """(number, (row, where its target begins, what there is to say of it, how likely it is)) of those that have a
        target; of a context that is too long the last tokens."""
        rows: dict[int, tuple[Tensor, int, dict[str, Any]]] = {}
        for number, (before, after) in enumerate(pairs):
            if len(after) > self._most:
                what = f"a target of {len(after)} tokens, and {self.model.name} was made for {self._most}"
                raise UnmaskError(f"request {number} has {what}; leave it out")
            if after:
                lost = max(len(before) + len(after) - self._most, 0)
                about: dict[str, Any] = {
                    "context_tokens": len(before),
                    "context_cut": lost,
                    "target_tokens": len(after),
                }
                row = torch.tensor(before[lost:] + after).clamp(max=self.model.vocabulary - 1)
                rows[number] = row, len(before) - lost, about
        with progress.track("reading", len(rows)) as advance:
            for part in _parts(
                list(rows), self.batch if self.model.card.causal else 1, lambda place: len(rows[place][0])
            ):
                mine = [rows[number] for number in part]
                for number, (row, first, about), (by, said) in zip(part, mine, self._likely(mine), strict=True):
                    about |= {"by": by, "nats": said.nats, "standard_error": said.error}
                    yield number, (row, first, about | {"evaluations": said.evaluations}, said)
                advance(len(part))

    def _likely(self, rows: Sequence[tuple[Tensor, int, Any]]) -> list[tuple[str, Likelihood]]:
        if self.model.card.causal:
            return [
                ("read", one) for one in read(self.model, [row for row, *_ in rows], [first for _, first, _ in rows])
            ]
        found = []
        for row, first, _ in rows:
            size = len(row) - first
            if self.kind == "chain" or (self.kind == "auto" and size <= self.draws):
                found.append(("chain", chain(self.model, row, first)))
                continue
            own = int.from_bytes(hashlib.sha256(str((self.seed, first, row.tolist())).encode()).digest()[:7])
            found.append(("bound", bound(self.model, row, first, sets_of(size, self.draws, own))))
        return found

    def _writes(self, row: Tensor, first: int) -> bool:
        """Whether this is what is written behind its context, by the likeliest tokens."""
        given = torch.cat([row[:first], torch.full((len(row) - first,), self.model.vocabulary)])
        options = usual(self.model, len(row) - first, **({"temperature": 0.0} | self.options))
        return torch.equal(generate(self.model, given=given[None], seed=self.seed, **options).tokens[0], row)

    def _record(self, request: Instance, about: Mapping[str, Any]) -> None:
        prompt = hashlib.sha256(request.args[0].encode(errors="replace")).hexdigest()
        line: dict[str, Any] = {"kind": request.request_type, "task": request.task_name, "doc": request.doc_id}
        self.records.append(finite(line | {"choice": request.idx, "prompt_sha256": prompt} | dict(about)))
        if self.file is not None:
            with self.file.open("a") as file:
                print(json.dumps(self.records[-1]), file=file)


def register() -> None:
    """Under the name `unmask`, for releases of lm-eval that look for no entry points."""
    import_module("lm_eval.models")  # else ours would be the only one
    if "unmask" not in MODEL_REGISTRY:
        register_model("unmask")(UnmaskLM)


def _asked(context: str) -> Asked:
    if not context.startswith(CHAT):
        return Asked(prompt=context)
    found: Asked = fit(json.loads(context.removeprefix(CHAT)), Asked, "a conversation")
    return found


def _numbers(requests: Sequence[Instance]) -> list[int]:
    """The number of each row: that of its document, or of the documents times what is asked of each."""
    seen: Counter[int] = Counter()
    found = []
    for place, request in enumerate(requests):
        document = place if request.doc_id is None else request.doc_id
        found.append(document * (request.repeats or 1) + seen[id(request)])
        seen[id(request)] += 1
    return found


def _parts(places: Sequence[int], size: int, length: Any) -> Iterable[list[int]]:
    """So many at once, those of like lengths together."""
    places = sorted(places, key=length)
    return (places[first : first + size] for first in range(0, len(places), size))


def _mended(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that were split at every comma, also at those within brackets: "llada(block_length=32, temperature=0)"
    comes as two."""
    found: dict[str, Any] = {}
    open_ = None
    for name, value in given.items():
        if open_ is None:
            found[name.strip()] = value
            open_ = name.strip() if isinstance(value, str) and value.count("(") > value.count(")") else None
            continue
        found[open_] += f", {name.strip()}={value}"
        if found[open_].count("(") <= found[open_].count(")"):
            open_ = None
    if open_ is not None:
        raise UnmaskError(f"model argument {open_} is {shown(found[open_])}, whose bracket is not closed; write ..)")
    return found


def _plain(value: Any) -> Any:
    """A number where a text says one."""
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value
