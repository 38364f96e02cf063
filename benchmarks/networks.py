"""Networks: our loops against the usual ones, on the same trunk with the same weights, float32 on the CPU.

MDM: a loop written as MDLM's `ddpm_cache` is described (theory.md 1). Marginals of every position are kept from one
round to the next unless any row of the batch has changed; every round draws at every position, mask included. What is
saved is of two kinds, which are told apart: evaluations (a row is evaluated when it has changed itself), and time an
evaluation (nothing is computed where nobody asks, in batches that stay in the cache).

AR: `generate` of transformers with a static KV cache, on a GPT-2 of the same sizes, which does the same arithmetic but
for the positions; and a loop that reads every prefix again.

Weights are not trained: time does not depend on them. All contestants have the same number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.peers import INSTALL
from benchmarks.timing import Measurement, Report, Work, agree, main
from unmask import Generation, generate
from unmask.core import memory
from unmask.core.threads import torch_threads
from unmask.models.trained import Network, Shape, Trunk

VOCABULARY = 8
SEED = 1


class Size(NamedTuple):
    batch: int
    lengths: tuple[int, ...]
    steps: tuple[int, ...]
    counted: int  # N of which evaluations are counted, but not timed
    hidden: int
    layers: int
    repeats: int


SIZES = {
    "toy": Size(3, (8,), (4, 16), 32, 16, 1, 1),
    "quick": Size(16, (128,), (64,), 512, 128, 4, 1),
    "full": Size(16, (128, 512), (64, 512), 2048, 128, 4, 3),
}
AT_LEAST = {64: 1.4, 512: 2.0}  # times the loop of MDLM, by N
AT_LEAST_CACHED, AT_LEAST_UNCACHED = 1.5, 8.0


def measure(report: Report) -> None:
    size = SIZES[report.size]
    for length in size.lengths:
        mdm, ar = (trunk(kind, length, size.hidden, size.layers) for kind in ("mdm", "ar"))
        for steps in size.steps:
            _canvases(report, mdm, size, steps)
        _savings(report, length, size)
        _readers(report, ar, size)


def trunk(kind: str, length: int, hidden: int, layers: int) -> Trunk:
    torch.manual_seed(SEED)
    made = Trunk(Shape(kind, VOCABULARY, length, hidden, layers, heads=8))
    torch.nn.init.normal_(made.head.weight, std=hidden**-0.5)  # which training starts from zero
    return made.eval()


def _canvases(report: Report, mdm: Trunk, size: Size, steps: int) -> None:
    length = mdm.shape.length
    network, task = Network(mdm), f"MDM L={length} N={steps}, batch {size.batch}"
    noise = torch.randint(VOCABULARY + 1, (4, length), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        plain = carried(mdm(noise), noise)
    agree("the plain trunk", plain, network.posterior(noise), 1e-4)
    counted: dict[str, float] = {}

    def ours(steps: int = steps) -> None:
        counted["unmask"] = float(made(network, size.batch, length, steps).model_calls.double().mean())

    def theirs(steps: int = steps) -> None:
        counted["ddpm_cache"] = ddpm_cache(mdm, size.batch, length, steps)

    works = {"unmask": _work(ours, lambda: ours(2)), "ddpm_cache": _work(theirs, lambda: theirs(1))}
    found = report.race(task, size.batch, length, works, size.repeats, patience=30.0)
    saved = counted["ddpm_cache"] / counted["unmask"]
    faster = _ratio(found, "ddpm_cache")
    report.at_least(f"{task}: ddpm_cache / unmask", faster, AT_LEAST.get(steps, 1.0))
    report.at_least(f"{task}: evaluations saved", saved, 0.9)
    report.at_least(f"{task}: time an evaluation", faster / saved, 1.0)


def _savings(report: Report, length: int, size: Size) -> None:
    """Evaluations do not depend on the network: on a tiny one nobody waits for them."""
    tiny, steps = trunk("mdm", length, 16, 1), size.counted
    ours = made(Network(tiny), size.batch, length, steps).model_calls.double().mean()
    usual = ddpm_cache(tiny, size.batch, length, steps)
    report.at_least(f"MDM L={length} N={steps}, batch {size.batch}: evaluations saved", usual / float(ours), 1.0)


def _readers(report: Report, ar: Trunk, size: Size) -> None:
    length = ar.shape.length
    network, task = Network(ar=ar), f"AR L={length}, batch {size.batch}"

    def ours(rows: int = size.batch, tokens: int = length) -> Generation:
        return generate(network, sampler="autoregressive", length=tokens, rows=rows, seed=SEED)

    works = {"unmask": _work(ours, lambda: ours(2))}
    if find_spec("transformers") is None:
        report.missing["transformers"] = INSTALL
    else:
        cached = transformers_generate(length, size)
        works["transformers, static cache"] = _work(lambda: cached(length), lambda: cached(4))
    uncached = uncached_loop(ar, size.batch, length)
    works["without cache"] = _work(uncached, lambda: ar(torch.zeros((size.batch, length), dtype=torch.int64)))
    found = report.race(task, size.batch, length, works, size.repeats, patience=30.0)
    if "transformers, static cache" in found:
        report.at_least(f"{task}: transformers / unmask", _ratio(found, "transformers, static cache"), AT_LEAST_CACHED)
    report.at_least(f"{task}: without cache / unmask", _ratio(found, "without cache"), AT_LEAST_UNCACHED)


def made(network: Network, rows: int, length: int, steps: int) -> Generation:
    return generate(network, rows=rows, length=length, steps=steps, seed=SEED)


@torch.no_grad()
def ddpm_cache(mdm: Trunk, rows: int, length: int, steps: int) -> int:
    """How often it evaluates all rows. move_t = 1 - k/N before round k+1: the last one leaves nothing hidden."""
    mask = mdm.shape.vocabulary
    x = torch.full((rows, length), mask)
    kept, model_calls = None, 0
    torch.manual_seed(SEED)
    for k in range(steps):
        before, after = 1 - k / steps, 1 - (k + 1) / steps
        if kept is None:
            kept = carried(mdm(x), x)
            model_calls += 1
        q = torch.cat([kept * (before - after), torch.full((rows, length, 1), after)], -1)
        drawn = (q / (1e-10 - (torch.rand_like(q) + 1e-10).log())).argmax(-1)
        new = torch.where(x != mask, x, drawn)
        if not torch.allclose(new, x):
            kept = None
        x = new
    assert bool((x != mask).all())
    return model_calls


def carried(logits: Tensor, x: Tensor) -> Tensor:
    """p(x_0 | x) at every position (B, L, V): softmax where hidden, what is there elsewhere."""
    vocabulary = logits.shape[-1]
    shown = torch.nn.functional.one_hot(x.clamp(max=vocabulary - 1), vocabulary).to(logits.dtype)
    return torch.where((x < vocabulary).unsqueeze(-1), shown, logits.softmax(-1))


def uncached_loop(ar: Trunk, rows: int, length: int) -> Callable[[], Tensor]:
    @torch.no_grad()
    def run() -> Tensor:
        x = torch.full((rows, 1), ar.shape.vocabulary)
        for _ in range(length):
            x = torch.cat([x, torch.multinomial(ar(x)[:, -1].softmax(-1), 1)], 1)
        return x

    return run


def transformers_generate(length: int, size: Size) -> Callable[[int], Any]:
    """Of a GPT-2 with our sizes; nothing is padded, nothing ends early, nothing is filtered."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY + 1,
        n_positions=length + 1,
        n_embd=size.hidden,
        n_layer=size.layers,
        n_head=8,
        bos_token_id=VOCABULARY,
        eos_token_id=None,
        pad_token_id=VOCABULARY,
    )
    model = GPT2LMHeadModel(config).eval()
    start = torch.full((size.batch, 1), VOCABULARY)

    def run(tokens: int) -> Any:
        with torch.no_grad():
            return model.generate(
                start,
                attention_mask=torch.ones_like(start),
                do_sample=True,
                top_k=0,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
                cache_implementation="static",
            )

    return run


def _work(run: Callable[[], object], warm_up: Callable[[], object]) -> Work:
    def bounded(inner: Callable[[], object]) -> Callable[[], None]:
        def alone() -> None:
            with torch_threads(memory.cores()):
                inner()

        return alone

    return Work(bounded(run), memory.cores(), warm_up=bounded(warm_up))


def _ratio(found: dict[str, Measurement], who: str) -> float:
    ratio = found[who].ratio
    assert ratio is not None
    return ratio


if __name__ == "__main__":
    main(__doc__, measure)
