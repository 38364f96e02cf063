"""The ideal denoiser as a mock Hugging Face model, which runs an unmodified generation loop with known probabilities.

`forward(input_ids, attention_mask=None)` returns an object with `.logits` = log q(x_j | x_R), normalized. The logit of
an impossible token, of the mask and of all other ids beyond the vocabulary is -10^4. Its exponential is 0 in every
dtype, and it does not become NaN in computations in which -inf does (guidance, which subtracts logits; p log p). At
revealed positions the logits are one-hot: this is q(x_j | x_R), and also MDLM's SUBS rule (theory.md 10). In contexts
of probability zero the logits are those of `ideal.Ideal`.

With `ordered`, of equally likely tokens the first has the largest logit, and each next one 4e-6 less. So every rule of
ties (keep all that reach the k-th score, the indices of `topk`, the first tokens) keeps the same tokens, and is not
taken for a fault.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor, nn

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.denoisers.contracts import of_rows
from unmask.denoisers.ideal import Ideal
from unmask.denoisers.marginals import as_marginals
from unmask.denoisers.noise import Noise
from unmask.denoisers.record import Record
from unmask.denoisers.uniform import Level, UniformIdeal
from unmask.languages import Language, LanguageLike, load
from unmask.languages.base import as_tokens

APART = 4e-6  # nats between equally likely tokens: many times the resolution of float32, and too little to be noticed
FLOOR = -1e4  # fits into float16, whose largest number is 65504
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
MAX_ID = 2**24  # limits the width of the logits
MOST_LOGITS = 2**26  # of a file
ONE_AT_A_TIME = threading.RLock()  # for calls from several threads


class Output(NamedTuple):
    logits: Tensor  # (B, L, vocab_size)


class Oracle(nn.Module, ABC):
    """The base class of both oracles: reads ids and padding, pads logits to the vocabulary size, and counts calls.

    `calls` counts forward passes, `rows` their rows, and `needed` the rows that differ from the same row of the
    previous call: the model calls with a cache of rows. `record` has the call that revealed each position, for oracles
    with a mask.
    """

    start_id: int | None = None  # the id at the start of every row, if one is needed
    cached: bool = True  # whether equal ids of a row have equal answers
    draft: float = 0.0  # weight w of the error of a draft
    ordered: bool = False  # whether equally likely tokens have an order
    certain: bool = True  # whether the prediction of a revealed token is that token

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.language!r}: {self.calls} calls>"

    def __init__(self, language: Language, mask_id: int | None, vocab_size: int, dtype: torch.dtype) -> None:
        super().__init__()
        if dtype not in DTYPES:
            arguments.refuse("dtype", dtype, f"one of {', '.join(map(str, DTYPES))}")

        self.language = language
        self.anchor = nn.Parameter(torch.zeros((), dtype=dtype), requires_grad=False)  # carries device and dtype

        self.config = SimpleNamespace(
            model_type="unmask-oracle",
            vocab_size=vocab_size,
            mask_token_id=mask_id,
            bos_token_id=self.start_id,
            is_encoder_decoder=False,
        )
        self.reset()

    def reset(self) -> None:
        """Set the counts to zero, and clear the record."""
        self.calls = self.rows = self.needed = 0
        self.threads: set[int] = set()  # that have called
        self.record = Record()
        self._before: Tensor | None = None  # the ids of the last call, -1 where padded
        self._answers: Tensor | None = None  # (B, L, V) float64: their log probabilities

    @property
    def device(self) -> torch.device:
        return self.anchor.device

    @property
    def dtype(self) -> torch.dtype:
        return self.anchor.dtype

    @torch.no_grad()
    def forward(self, input_ids: Tensor, attention_mask: Tensor | str | None = None, *_: Any, **__: Any) -> Output:
        """Logits of ids (B, L). Arguments for time, positions and caches are ignored: the posterior needs none of them.

        attention_mask: (B, L), 0 at padding to the left or right of a row; (B, 1, L, L) as in Dream, or "full". A
        second argument of another shape is a time, as in MDLM.
        """
        ids = self._read(input_ids, attention_mask)
        with ONE_AT_A_TIME:
            answers = self._answered(ids)
        logits = torch.full((*ids.shape, self.config.vocab_size), FLOOR, dtype=self.dtype, device=input_ids.device)
        logits[..., : self.language.vocabulary] = answers.clamp(min=FLOOR).to(logits)
        return Output(logits)

    def _answered(self, ids: Tensor) -> Tensor:
        """(B, L, V): log probabilities, computed for the rows that differ from those of the last call."""
        self.threads.add(threading.get_ident())
        known = self._before is not None and self._before.shape == ids.shape
        if not known or self._answers is None:
            self._before = None
            self._answers = torch.empty((*ids.shape, self.language.vocabulary), dtype=torch.float64)
        stale = torch.ones(len(ids), dtype=torch.bool)
        if self._before is not None and self.cached:
            stale = (self._before != ids).any(1)
        if stale.any():
            self._answers[stale] = self._answer_padded(ids[stale])
        self._before = ids

        if self.config.mask_token_id is not None:
            content = ids[:, self.start_id is not None :]
            self.record.add(content, content == self.config.mask_token_id)

        self.calls += 1
        self.rows += len(ids)
        self.needed += int(stale.sum())
        return self._answers.clone()

    def _answer_padded(self, ids: Tensor) -> Tensor:
        """Log probabilities (B, L, V), uniform at positions without a prediction; processes rows of equal extent
        together."""
        vocabulary = self.language.vocabulary
        answers = torch.full((*ids.shape, vocabulary), 1 / vocabulary, dtype=torch.float64)
        valid = ids >= 0
        extents = torch.stack([valid.int().argmax(1), valid.sum(1)], 1)
        for first, count in extents.unique(dim=0).tolist():
            rows = (extents == torch.tensor([first, count])).all(1)
            self._answer(ids[rows, first : first + count], answers[:, first : first + count], rows)

        if self.draft:
            mask = self.config.mask_token_id
            predicted = valid if mask is None else ids == mask
            answers[predicted] = draft_of(self.draft, answers[predicted])
        return untied(answers) if self.ordered else answers.log()

    @abstractmethod
    def _answer(self, ids: Tensor, answers: Tensor, rows: Tensor) -> None:
        """Write the predicted probabilities at each position of ids (b, l) to answers[rows]."""

    def _read(self, input_ids: Tensor, attention_mask: Tensor | str | None) -> Tensor:
        """Ids (B, L) as int64 on the CPU, -1 at padding; the error names the first bad position."""
        arguments.of_kind("input_ids", input_ids, Tensor, "a tensor of integers (rows, length)")
        if input_ids.dim() != 2 or input_ids.numel() == 0:
            raise UnmaskError(f"input_ids have shape {tuple(input_ids.shape)}; expected (rows, length)")

        ids = as_tokens(input_ids, "input_ids")
        valid = _not_padding(ids, attention_mask)
        vocabulary, mask = self.language.vocabulary, self.config.mask_token_id

        begins = torch.zeros_like(valid)
        if self.start_id is not None:
            first = valid.int().argmax(1, keepdim=True)
            begins.scatter_(1, first, True)
            missing = ids.gather(1, first).squeeze(1) != self.start_id
            if missing.any():
                row = int(missing.int().argmax())
                expected = f"{self.start_id} (model.config.bos_token_id), since each position predicts the next one"
                raise UnmaskError(f"input_ids, row {row} begins with {int(ids[row, first[row]])}; expected {expected}")

        good = ((ids >= 0) & (ids < vocabulary)) | begins | ~valid
        if mask is not None:
            good |= ids == mask
        if not good.all():
            row, position = (~good).nonzero()[0].tolist()
            known = f"a token in 0..{vocabulary - 1}" + ("" if mask is None else f", or the mask {mask}")
            raise UnmaskError(
                f"input_ids, row {row}, position {position} is {int(ids[row, position])}; expected {known}"
            )

        return torch.where(valid, ids, -1)


class MaskedOracle(Oracle):
    """Logits at a position predict that position, or with `shift` the next one, as in Dream.

    With `shift` a row begins with the start id, mask_id + 1, which is not part of the sequence. A loop aligns the
    logits with the positions by logits = cat([logits[:, :1], logits[:, :-1]], 1).
    """

    def __init__(self, language: Language, mask_id: int, dtype: torch.dtype, shift: bool) -> None:
        if arguments.whole("mask_id", mask_id, 0, MAX_ID) < language.vocabulary:
            raise UnmaskError(
                f"mask_id is {mask_id}, but 0..{language.vocabulary - 1} are tokens; expected a larger number"
            )
        self.shift = int(shift)
        self.start_id = mask_id + 1 if shift else None
        super().__init__(language, mask_id, mask_id + 1 + self.shift, dtype)
        self.mask_id = mask_id

    def _answer(self, ids: Tensor, answers: Tensor, rows: Tensor) -> None:
        sequences = ids[:, self.shift :]
        if sequences.shape[1] == 0:
            raise UnmaskError("input_ids have a row without positions; expected at least one token or mask")
        tokens = torch.where(sequences == self.mask_id, self.language.vocabulary, sequences)
        if self.certain:
            answers[rows, : tokens.shape[1]] = self.language.posterior(tokens)
            return
        where, positions = torch.ones(tokens.shape).nonzero(as_tuple=True)
        engine = Ideal(self.language).engine(tokens.contiguous())
        answers[rows, : tokens.shape[1]] = (
            as_marginals(engine.at(where, positions, None)).dense().view(*tokens.shape, -1)
        )


class UniformOracle(Oracle):
    """A model of uniform noise, without a mask: logits at each position of noisy tokens predict the token there.

    level="given": the level a, from 0 (noise) to 1 (clean), is the second argument of a call, or `level=`. Otherwise
    calls need no level (denoisers/uniform.py), and other arguments for it are ignored.
    """

    def __init__(self, ideal: UniformIdeal, prompt_length: int, dtype: torch.dtype) -> None:
        super().__init__(ideal.language, None, ideal.vocabulary, dtype)
        self.ideal = ideal
        self.prompt_length = arguments.whole("prompt_length", prompt_length, 0)
        self.cached = ideal.level == "prior"

    def forward(
        self, input_ids: Tensor, attention_mask: Any = None, *_: Any, level: Tensor | float | None = None, **__: Any
    ) -> Output:
        if level is None and not _is_padding(attention_mask, input_ids):
            level = attention_mask
        if isinstance(level, Tensor) and level.dim() > 1:  # (B, 1), or (B, L) with the same level in a row
            level = level.flatten(1)[:, 0]
        rows = len(input_ids) if isinstance(input_ids, Tensor) else 0
        with ONE_AT_A_TIME:
            self._level = self.ideal.levels(None if self.ideal.time_free else level, rows)
            return super().forward(input_ids, attention_mask)

    def _answer(self, ids: Tensor, answers: Tensor, rows: Tensor) -> None:
        known = (torch.arange(ids.shape[1]) < self.prompt_length).expand(ids.shape)
        answers[rows, : ids.shape[1]] = self.ideal.predict(ids, known, of_rows(self._level, rows))


class CausalOracle(Oracle):
    """The autoregressive twin: logits[:, i] = log q(x_(i+1) | x_1..x_i). A row begins with the start id, which is V."""

    def __init__(self, language: Language, length: int | None, dtype: torch.dtype) -> None:
        self.start_id = language.vocabulary
        super().__init__(language, None, language.vocabulary + 1, dtype)
        if length is not None:
            language.check_length(length)
        elif not language.endless:
            raise UnmaskError(f"the probabilities of {language.kind} depend on the length; pass length=..")
        self.length = length

    def _answer(self, ids: Tensor, answers: Tensor, rows: Tensor) -> None:
        size = ids.shape[1]
        length = size if self.length is None else self.length
        if size > length + 1:
            raise UnmaskError(f"input_ids have {size - 1} tokens after the start; expected at most {length}")
        read = min(size, length)  # nothing follows the last token
        marginals = Ideal(self.language).causal(len(ids), length).extend(ids[:, :read].contiguous())
        answers[rows, :read] = as_marginals(marginals).dense().view(len(ids), read, -1)


def oracle(
    language: LanguageLike,
    *,
    mask_id: int | None = None,
    dtype: torch.dtype = torch.float32,
    shift: bool = False,
    causal: bool = False,
    length: int | None = None,
    noise: Noise = "mask",
    level: Level = "prior",
    view: str = "full",
    prompt_length: int = 0,
    draft: float = 0.0,
    ordered: bool = False,
    certain: bool = True,
) -> MaskedOracle | CausalOracle | UniformOracle:
    """Return the ideal denoiser of a language as a model with logits.

    language: a spec such as "sparse-hmm(seed=3)", a language file, or a language.
    mask_id: the id of the mask, which the logits include. (default: V)
    dtype: the data type of the logits; open models use float32 or bfloat16.
    shift: Dream's convention: the logits at a position predict the next one.
    causal: the autoregressive twin; it needs `length` if the probabilities of the language depend on it.
    noise: "mask", or "uniform" for loops of models that start from random tokens. These have three options:
    level: how the oracle knows the level of the noise: "prior" or "given" (ideal.UniformIdeal).
    view: "full", predictions given all tokens; or "loo", given all others.
    prompt_length: number of tokens at the start of each row without noise.
    draft: weight w of an error of the predictions, (1 - w) p(v) + w p(v - 1): a draft for the oracle without it.
    ordered: equally likely tokens have an order, for loops that keep the k most likely tokens.
    certain: the prediction of a revealed token is that token; False: the one given all other tokens, as networks have.
    """
    language = load(language)
    model: MaskedOracle | CausalOracle | UniformOracle

    arguments.word("noise", noise, get_args(Noise))
    if noise == "uniform":
        if mask_id is not None or shift or causal or length is not None:
            raise UnmaskError(
                "an oracle of uniform noise has no mask, shift, causal or length",
                "expected noise='mask' with these",
                "Leave them out.",
            )
        arguments.word("view", view, ("full", "loo"))
        ideal = UniformIdeal(language, level)
        if view == "full":
            ideal = ideal.full()
        model = UniformOracle(ideal, prompt_length, dtype)

    elif (level, view, prompt_length) != ("prior", "full", 0):
        raise UnmaskError(
            "level, view and prompt_length need noise='uniform'", "expected none of them for masks", "Leave them out."
        )
    elif not arguments.flag("causal", causal):
        arguments.flag("shift", shift)
        if length is not None:
            raise UnmaskError("length needs causal=True; a masked oracle takes it from input_ids. Leave length out.")
        if mask_id is None:
            mask_id = language.vocabulary
        model = MaskedOracle(language, mask_id, dtype, shift)
    elif mask_id is not None or shift:
        raise UnmaskError("a causal oracle has no mask, and predicts the next token. Leave out mask_id and shift.")
    else:
        model = CausalOracle(language, length, dtype)

    model.draft = arguments.number("draft", draft, 0, 1)
    model.ordered = arguments.flag("ordered", ordered)
    model.certain = arguments.flag("certain", certain)
    return model


def logits_of(language: Language, length: int) -> Tensor:
    """((V+1)^L, L, V) float32: the logits of every context of L positions, for loops without Python.

    Context x_1 .. x_L, with V as the mask, is row x_1 (V+1)^(L-1) + .. + x_L.
    """
    contexts = (language.vocabulary + 1) ** length
    if contexts * length * language.vocabulary > MOST_LOGITS:
        raise UnmaskError(
            f"there are {language.vocabulary + 1}^{length} contexts, with more than {MOST_LOGITS:,} logits",
            "Use fewer positions",
        )
    language.check_length(length)
    every = torch.cartesian_prod(*[torch.arange(language.vocabulary + 1)] * length).view(-1, length)
    return language.posterior(every).log().clamp(min=FLOOR).float()


def grouped(scores: Tensor) -> Tensor:
    """(.., V): the number of each token's group of equal scores, from the highest on.

    Neighbors that differ by less than V times APART are equal, so that `untied` never reorders two groups."""
    order = scores.argsort(dim=-1, descending=True)
    falling = scores.gather(-1, order).clamp(min=FLOOR).diff(dim=-1)
    number = torch.zeros_like(order)
    number[..., 1:] = (falling < -APART * scores.shape[-1]).cumsum(-1)
    return torch.empty_like(order).scatter_(-1, order, number)


def untied(p: Tensor) -> Tensor:
    """log p (.., V), where equally likely tokens have the logit of the likeliest, and each next one APART less."""
    logits = p.log().clamp(min=FLOOR)
    groups = grouped(p.log())
    order = groups.argsort(dim=-1, stable=True)
    sorted_groups = groups.gather(-1, order)
    index = torch.arange(p.shape[-1]).expand(p.shape)
    new = torch.ones_like(index, dtype=torch.bool)  # where a group begins
    new[..., 1:] = sorted_groups.diff(dim=-1) > 0
    begin = torch.where(new, index, 0).cummax(-1).values

    highest = torch.full_like(logits, -torch.inf).scatter_reduce_(-1, groups, logits, "amax").gather(-1, sorted_groups)
    return torch.empty_like(p).scatter_(-1, order, highest - APART * (index - begin))


def draft_of(weight: float, p: Tensor) -> Tensor:
    """d(v) = (1 - w) p(v) + w p(v - 1), of p (.., V): as surprising as p, so no other temperature."""
    return (1 - weight) * p + weight * p.roll(1, -1)


def _not_padding(ids: Tensor, attention_mask: Tensor | str | None) -> Tensor:
    """Bool (B, L): the positions that are not padding; they must be contiguous in every row."""
    if isinstance(attention_mask, Tensor) and attention_mask.dim() == 4:
        attention_mask = attention_mask[:, 0].diagonal(dim1=-2, dim2=-1)
    if not _is_padding(attention_mask, ids):
        return torch.ones_like(ids, dtype=torch.bool)
    assert isinstance(attention_mask, Tensor)
    valid = attention_mask.detach().cpu() > 0

    runs = valid[:, :1].sum(1) + (valid[:, 1:] & ~valid[:, :-1]).sum(1)
    if (runs != 1).any():
        row = int((runs != 1).int().argmax())
        raise UnmaskError(
            f"attention_mask, row {row} has {int(runs[row])} separate parts", "expected padding at one end of a row"
        )
    return valid


def _is_padding(values: Any, ids: Any) -> bool:
    """Whether a second argument is a mask (B, L); floats (B, L) that are the same in a row are the time."""
    if not isinstance(values, Tensor) or values.shape != ids.shape:
        return False
    return not values.is_floating_point() or bool((values != values[:, :1]).any())
