"""The ideal denoiser in a Hugging Face model's clothing: a generate loop runs on it unmodified, with a known answer.

`forward(input_ids, attention_mask=None)` returns an object with `.logits` = log q(x_j | x_R), normalised. Where a token
is impossible, and at the mask and every other id beyond the vocabulary, stands the finite -10^4: its exponential is 0
in every dtype, and it survives what turns -inf into not-a-number (guidance, which subtracts logits; p log p). At
revealed places the logits are one-hot, which is both what q(x_j | x_R) is there and MDLM's SUBS rule (theory.md 10).
Contexts of probability zero are answered as by `ideal.Ideal`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.extras import needed
from unmask.denoisers.marginals import as_marginals
from unmask.ideal.denoiser import Ideal
from unmask.ideal.record import Record
from unmask.languages import Language, LanguageLike, load
from unmask.languages.base import as_tokens

FLOOR = -1e4  # fits into float16, whose largest number is 65504
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
MAX_ID = 2**24  # the vocabulary is as wide


class Output(NamedTuple):
    logits: Tensor  # (B, L, vocab_size)


class Oracle(nn.Module, ABC):
    """What both oracles share: reading ids and padding, widening to the vocabulary, and counting.

    `calls` counts forwards, `rows` the rows in them, and `needed` those rows that differ from the same row of the call
    before: what a cache kept row by row would have paid for. `record` says which call revealed each place, of what has
    a mask.
    """

    start_id: int | None = None  # the id that every row begins with, where one is needed

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.language!r}: {self.calls} calls>"

    def __init__(self, language: Language, mask_id: int | None, vocab_size: int, dtype: torch.dtype) -> None:
        super().__init__()
        if dtype not in DTYPES:
            arguments.refuse("dtype", dtype, f"one of {', '.join(map(str, DTYPES))}")
        self.language = language
        self.anchor = nn.Parameter(torch.zeros((), dtype=dtype), requires_grad=False)  # moved by .to(), asked by loops
        self.config = SimpleNamespace(
            model_type="unmask-oracle",
            vocab_size=vocab_size,
            mask_token_id=mask_id,
            bos_token_id=self.start_id,
            is_encoder_decoder=False,
        )
        self.reset()

    def reset(self) -> None:
        """Set the counts to zero, and forget the record."""
        self.calls = self.rows = self.needed = 0
        self.record = Record()
        self._before: Tensor | None = None  # the ids of the last call, -1 where padded
        self._answers: Tensor | None = None  # (B, L, V) float64: what they were answered

    @property
    def device(self) -> torch.device:
        return self.anchor.device

    @property
    def dtype(self) -> torch.dtype:
        return self.anchor.dtype

    @torch.no_grad()
    def forward(self, input_ids: Tensor, attention_mask: Tensor | str | None = None, *_: Any, **__: Any) -> Output:
        """Logits of ids (B, L). Time, positions and cache arguments are taken and not used: the posterior needs none.

        attention_mask: (B, L), 0 at padding to the left or right of a row; (B, 1, L, L) as Dream makes it, or "full".
        A second argument of another shape is a time, as MDLM passes it.
        """
        ids = self._read(input_ids, attention_mask)
        stale = torch.ones(len(ids), dtype=torch.bool)
        if self._before is not None and self._answers is not None and self._before.shape == ids.shape:
            stale = (self._before != ids).any(1)
        else:
            self._answers = torch.empty((*ids.shape, self.language.vocabulary), dtype=torch.float64)
        if stale.any():
            self._answers[stale] = self._answer_padded(ids[stale])
        self._before = ids
        if self.config.mask_token_id is not None:
            places = ids[:, self.start_id is not None :]
            self.record.look(places, places == self.config.mask_token_id)
        self.calls += 1
        self.rows += len(ids)
        self.needed += int(stale.sum())
        logits = torch.full((*ids.shape, self.config.vocab_size), FLOOR, dtype=self.dtype, device=input_ids.device)
        logits[..., : self.language.vocabulary] = self._answers.clamp(min=FLOOR).to(logits)
        return Output(logits)

    def _answer_padded(self, ids: Tensor) -> Tensor:
        """Log probabilities (B, L, V), uniform where nothing is predicted; rows of equal extent together."""
        vocabulary = self.language.vocabulary
        answers = torch.full((*ids.shape, vocabulary), 1 / vocabulary, dtype=torch.float64)
        kept = ids >= 0
        extents = torch.stack([kept.int().argmax(1), kept.sum(1)], 1)
        for first, count in extents.unique(dim=0).tolist():
            rows = (extents == torch.tensor([first, count])).all(1)
            self._answer(ids[rows, first : first + count], answers[:, first : first + count], rows)
        return answers.log()

    @abstractmethod
    def _answer(self, ids: Tensor, answers: Tensor, rows: Tensor) -> None:
        """Write the probabilities of what each place of ids (b, l) predicts to answers[rows]."""

    def _read(self, input_ids: Tensor, attention_mask: Tensor | str | None) -> Tensor:
        """Ids (B, L) as int64 on the CPU, -1 where padded, or an error that names the first bad place."""
        arguments.of_kind("input_ids", input_ids, Tensor, "a tensor of integers (rows, length)")
        if input_ids.dim() != 2 or input_ids.numel() == 0:
            raise UnmaskError(f"input_ids have shape {tuple(input_ids.shape)}; expected (rows, length)")
        ids = as_tokens(input_ids, "input_ids")
        kept = _kept(ids, attention_mask)
        vocabulary, mask = self.language.vocabulary, self.config.mask_token_id
        begins = torch.zeros_like(kept)
        if self.start_id is not None:
            first = kept.int().argmax(1, keepdim=True)
            begins.scatter_(1, first, True)
            missing = ids.gather(1, first).squeeze(1) != self.start_id
            if missing.any():
                row = int(missing.int().argmax())
                what = f"{self.start_id} (model.config.bos_token_id): every place predicts the one after it"
                raise UnmaskError(f"input_ids, row {row} begins with {int(ids[row, first[row]])}; expected {what}")
        good = ((ids >= 0) & (ids < vocabulary)) | begins | ~kept
        if mask is not None:
            good |= ids == mask
        if not good.all():
            row, position = (int(i) for i in (~good).nonzero()[0])
            known = f"a token is 0..{vocabulary - 1}" + ("" if mask is None else f", the mask is {mask}")
            raise UnmaskError(f"input_ids, row {row}, position {position}: {int(ids[row, position])}; {known}")
        return torch.where(kept, ids, -1)


class MaskedOracle(Oracle):
    """Logits at a place are about that place, or with `shift` about the next one, as Dream's are.

    With `shift` a row begins with the start id, mask_id + 1, which is no part of the sequence. A loop that undoes the
    shift, logits = cat([logits[:, :1], logits[:, :-1]], 1), finds at each place of the sequence what belongs there.
    """

    def __init__(self, language: Language, mask_id: int, dtype: torch.dtype, shift: bool) -> None:
        if arguments.whole("mask_id", mask_id, 0, MAX_ID) < language.vocabulary:
            raise UnmaskError(
                f"mask_id is {mask_id}, but 0..{language.vocabulary - 1} are tokens; choose one above them"
            )
        self.shift = int(shift)
        self.start_id = mask_id + 1 if shift else None
        super().__init__(language, mask_id, mask_id + 1 + self.shift, dtype)
        self.mask_id = mask_id

    def _answer(self, ids: Tensor, answers: Tensor, rows: Tensor) -> None:
        sequences = ids[:, self.shift :]
        if sequences.shape[1] == 0:
            raise UnmaskError("input_ids have a row with no place in it; it needs at least one token or mask")
        tokens = torch.where(sequences == self.mask_id, self.language.vocabulary, sequences)
        answers[rows, : tokens.shape[1]] = self.language.posterior(tokens)


class CausalOracle(Oracle):
    """The autoregressive twin: logits[:, i] = log q(x_(i+1) | x_1..x_i). A row begins with the start id, which is V.

    `generate` is that of transformers, where it is installed. Nothing is cached between calls.
    """

    def __init__(self, language: Language, length: int | None, dtype: torch.dtype) -> None:
        self.start_id = language.vocabulary
        super().__init__(language, None, language.vocabulary + 1, dtype)
        if length is not None:
            language.check_length(length)
        elif not language.endless:
            raise UnmaskError(f"{language.kind} knows where it ends: say length=..., the tokens of a whole sequence")
        self.length = length

    def _answer(self, ids: Tensor, answers: Tensor, rows: Tensor) -> None:
        size = ids.shape[1]
        length = size if self.length is None else self.length
        if size > length + 1:
            raise UnmaskError(f"input_ids have {size - 1} tokens after the start, but the oracle was made for {length}")
        read = min(size, length)  # after the last token there is nothing to predict
        said = Ideal(self.language).causal(len(ids), length).extend(ids[:, :read].contiguous())
        answers[rows, :read] = as_marginals(said).dense().view(len(ids), read, -1)

    def generate(self, *arguments: Any, **options: Any) -> Tensor:
        """transformers' own generate, on this oracle."""
        return self._clothed.generate(*arguments, **options)

    @cached_property
    def _clothed(self) -> Any:
        with needed("hub", "generate of transformers"):
            import transformers
        forward, anchor = self.forward, self.anchor

        class Clothed(transformers.PreTrainedModel, transformers.GenerationMixin):  # type: ignore[misc]
            config_class = transformers.PretrainedConfig

            def __init__(self, config: Any) -> None:
                super().__init__(config)
                self.anchor = anchor

            def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> Output:
                return forward(input_ids, attention_mask)

            def prepare_inputs_for_generation(
                self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
            ) -> dict[str, Any]:
                return {"input_ids": input_ids, "attention_mask": attention_mask}

        special = {"bos_token_id": self.start_id, "use_cache": False}
        made = Clothed(transformers.PretrainedConfig(vocab_size=self.config.vocab_size, **special))
        made.generation_config.update(**special)
        return made


def oracle(
    language: LanguageLike,
    *,
    mask_id: int | None = None,
    dtype: torch.dtype = torch.float32,
    shift: bool = False,
    causal: bool = False,
    length: int | None = None,
) -> MaskedOracle | CausalOracle:
    """The ideal denoiser of a language as a model with logits.

    language: a spec such as "sparse-hmm(seed=3)", a language file, or a language.
    mask_id: the id of the mask, V unless told otherwise; the vocabulary is made wide enough for it.
    dtype: of the logits; open models answer in float32 or bfloat16.
    shift: Dream's convention, in which the logits at a place are about the next one.
    causal: the autoregressive twin; `length` is needed for languages that know where they end.
    """
    language = load(language)
    arguments.flag("shift", shift)
    if not arguments.flag("causal", causal):
        if length is not None:
            raise UnmaskError("length is for causal=True; a masked oracle sees it in input_ids")
        return MaskedOracle(language, language.vocabulary if mask_id is None else mask_id, dtype, shift)
    if mask_id is not None or shift:
        raise UnmaskError("a causal oracle has no mask and always predicts the next token: leave out mask_id and shift")
    return CausalOracle(language, length, dtype)


def _kept(ids: Tensor, attention_mask: Tensor | str | None) -> Tensor:
    """Bool (B, L): the places that are not padding, which lie together in every row."""
    if isinstance(attention_mask, Tensor) and attention_mask.dim() == 4:
        attention_mask = attention_mask[:, 0].diagonal(dim1=-2, dim2=-1)
    if not isinstance(attention_mask, Tensor) or attention_mask.shape != ids.shape:
        return torch.ones_like(ids, dtype=torch.bool)
    kept = attention_mask.detach().cpu() > 0
    runs = kept[:, :1].sum(1) + (kept[:, 1:] & ~kept[:, :-1]).sum(1)
    if (runs != 1).any():
        row = int((runs != 1).int().argmax())
        raise UnmaskError(
            f"attention_mask, row {row} keeps {int(runs[row])} stretches; padding goes to one end of a row"
        )
    return kept
