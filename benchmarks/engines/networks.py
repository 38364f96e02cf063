"""Networks with exact logits: what a decoder calls in place of a language model.

`unmask.oracle` answers any canvas of any language, in a millisecond. The two below answer in microseconds: a table of
all canvases of a tiny language, made by the oracle, and positions that are independent.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor, nn

from unmask import oracle
from unmask.denoisers.oracles import FLOOR, Output
from unmask.languages import NGram

VOCABULARY, LENGTH = 3, 4  # of the tiny language: 81 sequences, 256 canvases
RARE = 0.2  # probability of the rarer of two tokens, at independent positions
POSITIONS = 32
TAIL = 0.04  # probability of 997 tokens together


class Network(nn.Module):
    """Logits (B, L, V + 1) of canvases (B, L); the mask has id V. With noise there is no mask: (B, L, V)."""

    def __init__(self, vocabulary: int, noise: bool = False) -> None:
        super().__init__()
        self.vocabulary, self.noise = vocabulary, noise
        mask = None if noise else vocabulary
        self.config = SimpleNamespace(mask_token_id=mask, vocab_size=vocabulary + (not noise), model_type="exact")
        self.device, self.dtype = torch.device("cpu"), torch.float32

    def answers(self, ids: Tensor, level: float | None) -> Tensor:
        """Probabilities (B, L, V)."""
        raise NotImplementedError

    def forward(self, input_ids: Tensor, *_: object, level: float | None = None, **__: object) -> Output:
        logits = self.answers(input_ids, level).log().clamp(min=FLOOR).float()
        return Output(logits if self.noise else nn.functional.pad(logits, (0, 1), value=FLOOR))

    def reset(self) -> None:
        """As the oracle's: there is nothing to forget."""


class Tiny(Network):
    """The tiny language: a random chain of three symbols. Canvases may be shorter than LENGTH: beginnings of it."""

    def __init__(self, noise: bool = False) -> None:
        super().__init__(VOCABULARY, noise)
        rng = np.random.default_rng(5)
        self.language = NGram(2, rng.dirichlet([1] * VOCABULARY), rng.dirichlet([1] * VOCABULARY, VOCABULARY))
        self.tables: dict[tuple[int, float | None], Tensor] = {}

    def answers(self, ids: Tensor, level: float | None) -> Tensor:
        length, base = ids.shape[1], self.vocabulary + (not self.noise)
        if (length, level) not in self.tables:
            canvases = torch.cartesian_prod(*[torch.arange(base)] * length).view(-1, length)
            self.tables[length, level] = self.asked(canvases, level)
        codes = ids @ base ** torch.arange(length - 1, -1, -1)
        return self.tables[length, level][codes]

    def asked(self, canvases: Tensor, level: float | None) -> Tensor:
        options = {"noise": "uniform", "level": "prior" if level is None else "given"} if self.noise else {}
        model = oracle(self.language, dtype=torch.float64, **options)
        logits = (model(canvases) if level is None else model(canvases, level)).logits
        return logits[..., : self.vocabulary].exp()


class Independent(Network):
    """Positions that are independent: the second token has probability `rare` at each."""

    def __init__(self, rare: float = RARE, noise: bool = False) -> None:
        super().__init__(2, noise)
        self.p = torch.tensor([1 - rare, rare], dtype=torch.float64)

    def answers(self, ids: Tensor, level: float | None) -> Tensor:
        if not self.noise:
            shown = nn.functional.one_hot(ids, 3)[..., :2].double()
            return torch.where((ids == 2).unsqueeze(-1), self.p, shown)
        levels = (
            torch.linspace(0, 1, 21, dtype=torch.float64)[1:-1] if level is None else torch.tensor([level]).double()
        )
        seen = nn.functional.one_hot(ids, 2).double().unsqueeze(-2)  # (B, L, 1, 2)
        joint = self.p * (levels[:, None] * seen + (1 - levels[:, None]) / 2)  # q(x) q(y | x): (B, L, levels, 2)
        evidence = joint.sum(-1).log().sum(1, keepdim=True)  # the level is known by all positions together
        weights = (evidence - evidence.logsumexp(-1, keepdim=True)).exp()
        return (joint / joint.sum(-1, keepdim=True) * weights.unsqueeze(-1)).sum(-2)


class Tailed(Network):
    """Positions that are independent, with 1,000 tokens: .9, .05, .01, and 997 that share TAIL."""

    def __init__(self) -> None:
        super().__init__(1000)
        self.p = torch.tensor([0.9, 0.05, 0.01] + [TAIL / 997] * 997, dtype=torch.float64)

    def answers(self, ids: Tensor, level: float | None) -> Tensor:
        shown = nn.functional.one_hot(ids, 1001)[..., :1000].double()
        return torch.where((ids == 1000).unsqueeze(-1), self.p, shown)


class Filtered(Network):
    """Another network with the most likely tokens up to a sum, the one that crosses it included."""

    def __init__(self, inner: Network, nucleus: float) -> None:
        super().__init__(inner.vocabulary)
        self.inner, self.nucleus = inner, nucleus

    def answers(self, ids: Tensor, level: float | None) -> Tensor:
        p, index = self.inner.answers(ids, level).sort(-1, descending=True)
        p = p.masked_fill(p.cumsum(-1) - p > self.nucleus, 0)
        return torch.zeros_like(p).scatter(-1, index, p / p.sum(-1, keepdim=True))


class Rounded(nn.Module):
    """The same network with logits and parameters of another type, as trainers load it."""

    def __init__(self, inner: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner, self.config, self.device, self.dtype = inner, inner.config, inner.device, dtype

    def forward(self, input_ids: Tensor, *_: object, **__: object) -> Output:
        return Output(self.inner(input_ids).logits.to(self.dtype))


class NextToken(nn.Module):
    """The same network behind one start token, with logits that predict the next token, as Dream and Fast-dLLM v2.

    ahead: the last logits predict the token after the last position; otherwise they say nothing.
    """

    def __init__(self, inner: nn.Module, ahead: bool = False) -> None:
        super().__init__()
        self.inner, self.ahead = inner, ahead
        self.config, self.device, self.dtype = inner.config, inner.device, inner.dtype

    def forward(self, input_ids: Tensor, *_: object, **__: object) -> Output:
        content = input_ids[:, 1:]
        if self.ahead:
            return Output(self.inner(nn.functional.pad(content, (0, 1), value=self.config.mask_token_id)).logits)
        return Output(nn.functional.pad(self.inner(content).logits, (0, 0, 0, 1)))


class Cached(nn.Module):
    """The same network behind a cache: a call has the positions of one block only; `flag` stores them."""

    def __init__(self, inner: nn.Module, flag: str) -> None:
        super().__init__()
        self.inner, self.flag = inner, flag
        self.config, self.device, self.dtype = inner.config, inner.device, inner.dtype
        self.stored: Tensor | None = None

    def forward(self, input_ids: Tensor, *_: object, **options: object) -> SimpleNamespace:
        ids = input_ids if self.stored is None else torch.cat([self.stored, input_ids], 1)
        if options.get(self.flag):
            self.stored = ids
        return SimpleNamespace(logits=self.inner(ids).logits[:, -input_ids.shape[1] :], past_key_values=self.stored)


class Decoder(nn.Module):
    """The same network in the shape of DiffusionGemma: an encoder that stores nothing, and logits of a canvas.

    steps: the network is told the level k / steps in call k; 0: no level.
    """

    def __init__(self, network: nn.Module, length: int, steps: int = 0) -> None:
        super().__init__()
        self.network, self.steps, self.calls = network, steps, 0
        self.device, self.dtype = torch.device("cpu"), torch.float32
        text = SimpleNamespace(vocab_size=network.config.vocab_size)
        sizes = {"canvas_length": length, "text_config": text, "image_token_id": -1}
        self.config = SimpleNamespace(**sizes, get_text_config=lambda **_: text)

    @property
    def model(self) -> SimpleNamespace:
        def encoder(cache: object = None, **_: object) -> SimpleNamespace:
            return SimpleNamespace(cache=cache)

        encoder.create_masks_for_generate = lambda **_: {}  # type: ignore[attr-defined]
        embedding = SimpleNamespace(weight=torch.zeros(1))
        decoder = SimpleNamespace(create_diffusion_decoder_attention_mask=lambda **_: {}, embed_tokens=embedding)
        return SimpleNamespace(encoder=encoder, decoder=decoder)

    def forward(self, decoder_input_ids: Tensor, **_: object) -> Output:
        level, self.calls = {"level": self.calls / self.steps} if self.steps else {}, self.calls + 1
        return self.network(decoder_input_ids, **level)
