"""An open model written by our samplers, against LLaDA's published loop on the same weights with the same tokens.

The peer is that loop as it is published: transformers' Llama seeing both sides, logits of all positions in every step,
their softmax in float64. Weights are random, and so large that answers are sure.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.timing import Report, Work, main, say
from unmask import generate
from unmask.models.open.card import Card, Tokens
from unmask.models.open.families import llada
from unmask.models.open.model import OpenModel
from unmask.models.open.native import Native
from unmask.samplers import AtToken

INSTALL = "not installed (pip install -e '.[bench]')"


class Size(NamedTuple):
    hidden: int
    layers: int
    vocabulary: int
    prompt: int
    new: int
    steps: int
    repeats: int


SIZES = {
    "toy": Size(32, 2, 500, 20, 16, 8, 1),
    "quick": Size(256, 4, 8000, 200, 64, 32, 1),
    "full": Size(512, 6, 32_000, 1000, 256, 64, 3),
}
WIDE = {"toy": (64, 2, 1500, 8, 2), "quick": (256, 4, 126_464, 64, 2), "full": (768, 12, 126_464, 256, 4)}
PROGRAM = """
import sys, torch
from unmask.models import open as hub
from unmask.planning.clock import peak
hub.load_model(sys.argv[1], card=sys.argv[1] + "/card.json", device="cpu")  # what is imported, and first used
with peak(torch.device("cpu")) as most:
    before = most()  # where the mark has just been set back to
    model = hub.load_model(sys.argv[2], card=sys.argv[2] + "/card.json", device="cpu")
    size = sum(weight.numel() * weight.element_size() for weight in model.body.parameters())
    print((most() - before) / size)
"""


def config(hidden: int, layers: int, vocabulary: int, head: int = 32) -> dict[str, Any]:
    return {
        "model_type": "llada",
        "d_model": hidden,
        "n_layers": layers,
        "n_heads": hidden // head,
        "mlp_hidden_size": -(-hidden * 8 // 3 // 32) * 32,
        "embedding_size": vocabulary,
        "max_sequence_length": 4096,
    }


def model_of(hidden: int, layers: int, vocabulary: int, head: int = 32, device: str = "cpu") -> OpenModel:
    """With random weights, which are drawn on the device; the type is torch's default."""
    card = Card(
        name="random",
        repository="random",
        licence="none",
        family="llada",
        tokens=Tokens(mask=vocabulary - 1, eos=1),
    )
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    with torch.device(device):
        made = LlamaForCausalLM(LlamaConfig(**llada(config(hidden, layers, vocabulary, head))))
    made.requires_grad_(False).eval().lm_head.weight.mul_(30)
    return OpenModel(card, Native(made))


@torch.no_grad()
def published(
    logits_of: Callable[[Tensor], Tensor], prompt: Tensor, new: int, steps: int, block: int, mask: int
) -> Tensor:
    """LLaDA's generate at temperature 0: of each block, in each step, the surest of what is likeliest."""
    x = torch.cat([prompt, torch.full_like(prompt[:, :1], mask).expand(-1, new)], 1)
    blocks = new // block
    for index in range(blocks):
        end = prompt.shape[1] + (index + 1) * block
        for step in range(steps // blocks):
            hidden = x == mask
            logits = logits_of(x)
            logits[..., mask] = -torch.inf
            best = logits.argmax(-1)
            sure = torch.softmax(logits.to(torch.float64), -1).gather(-1, best.unsqueeze(-1)).squeeze(-1)
            sure[:, end:] = -torch.inf
            sure = torch.where(hidden, sure, -torch.inf)
            left = block - step * (block // (steps // blocks))
            count = block // (steps // blocks) if step + 1 < steps // blocks else left
            chosen = sure.topk(count, -1).indices
            x.scatter_(1, chosen, best.gather(1, chosen))
    return x


def ours(model: OpenModel, prompt: Tensor, new: int, steps: int, block: int, **options: Any) -> Tensor:
    blank = torch.full((len(prompt), new), model.vocabulary)
    given = torch.cat([prompt, blank], 1)
    sampler = f"llada(block_length={block})"
    return generate(model, sampler=sampler, given=given, rows=len(given), steps=steps, **options).tokens


def measure(report: Report) -> None:
    size = SIZES[report.size]
    threads = torch.get_num_threads()
    model = model_of(size.hidden, size.layers, size.vocabulary)
    rng = torch.Generator().manual_seed(1)
    long = torch.randint(2, size.vocabulary - 1, (1, size.prompt), generator=rng)
    short, new = long[:, : max(size.prompt // 10, 4)], size.new // 2
    block, mask = min(32, new), model.card.tokens.mask

    def logits_of(x: Tensor) -> Any:
        return model.body.model(x, attention_mask=seen.expand(len(x), 1, x.shape[1], x.shape[1])).logits

    seen = torch.ones((1, 1, 1, 1), dtype=torch.bool)
    arguments, few = (short, new, size.steps, block), (short, block, 2, block)  # few: enough to warm up
    works = {
        "unmask": Work(partial(ours, model, *arguments), threads, warm_up=partial(ours, model, *few)),
        "LLaDA's loop": Work(
            partial(published, logits_of, *arguments, mask),
            threads,
            warm_up=partial(published, logits_of, *few, mask),
        ),
    }
    task = f"{short.shape[1]} tokens given, {new} written in {size.steps} steps"
    found = report.race(task, 1, new, works, size.repeats)
    report.at_least("LLaDA's loop over unmask", found["LLaDA's loop"].ratio or 0.0, 1.3)
    same = ours(model, *arguments) == published(logits_of, *arguments, mask)
    report.at_least("tokens that are the same", float(same.double().mean()), 1.0, "of them")
    _batches(report, model, size, rng)
    _stopping(report, model, size)
    _overhead(report)
    _loading(report, size)


def _batches(report: Report, model: OpenModel, size: Size, rng: torch.Generator) -> None:
    """Rows of a few tokens: those of one alone do not fill the machine."""
    prompt = torch.randint(2, size.vocabulary - 1, (16, 8), generator=rng)
    threads, count = torch.get_num_threads(), 8
    works = {
        "16 at once": Work(partial(ours, model, prompt, count, count, count), threads),
        "one by one": Work(lambda: [ours(model, row[None], count, count, count) for row in prompt], threads),
    }
    found = report.race("16 rows of 16 tokens", 16, count, works, size.repeats)
    report.at_least("one by one over 16 at once", found["one by one"].ratio or 0.0, 1.5)


def _stopping(report: Report, model: OpenModel, size: Size) -> None:
    """Tokens computed where every row ends at a quarter of what it might write: each makes the end token there."""
    new = size.new // 4 * 4
    given = torch.full((1, new), model.vocabulary)
    given[0, new // 4] = 5

    class AtQuarter(AtToken):
        def ended(self, progress: Any) -> Tensor:
            done = ~progress.hidden[:, : new // 4].any(1)
            return torch.where(done, new // 4, -1)

    options = {"sampler": "left-to-right", "given": given, "rows": 1, "steps": new}
    whole, ended = generate(model, **options), generate(model, **options, stop=AtQuarter(1))
    share = ended.spent.tokens / whole.spent.tokens
    report.at_most("paid of a canvas that ends at a quarter", share, 0.27, "of it")


def _overhead(report: Report) -> None:
    """A round of the greedy rule, less the forward and the head, over the forward of 100 million parameters."""
    hidden, layers, vocabulary, window, batch = WIDE[report.size]
    model = model_of(hidden, layers, vocabulary)
    say(f"a round at V = {vocabulary}")

    def timed(work: Any) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    rows = torch.full((batch, window), model.mask)

    @torch.no_grad()
    def forward() -> None:
        states = model.body.states(rows, None, None, None)
        for part in states.flatten(0, 1).split(max(2**24 // vocabulary, 1)):
            model.body.logits(part)

    def step_of_ours() -> None:
        generate(model, sampler="low-confidence(temperature=0)", rows=batch, length=window, steps=1)

    forward()
    step_of_ours()
    each = [(timed(forward), timed(step_of_ours)) for _ in range(3 if report.size == "full" else 1)]
    least = [min(times) for times in zip(*each, strict=True)]
    # On two cores .095 to .106: it finds the best of V probabilities at each position.
    report.at_most(f"overhead of a round at V = {vocabulary}", (least[1] - least[0]) / least[0], 0.12, "of a forward")


def _loading(report: Report, size: Size) -> None:
    """Memory of a process that loads a checkpoint and probes it, over the checkpoint."""
    import msgspec
    from safetensors.torch import save_file

    say("loading")
    with tempfile.TemporaryDirectory() as place:
        for name, shape in (("small", (32, 2, 500)), ("large", (2 * size.hidden, size.layers, size.vocabulary))):
            model, directory = model_of(*shape), Path(place) / name
            directory.mkdir()
            weights = {name: weight.contiguous() for name, weight in model.body.model.state_dict().items()}
            save_file(weights, directory / "model.safetensors")
            (directory / "config.json").write_text(json.dumps(config(*shape)))
            (directory / "card.json").write_bytes(msgspec.json.encode(model.card))
        made = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(Path(place) / "small"), str(Path(place) / "large")],
            capture_output=True,
            text=True,
            check=True,
        )
    report.at_most("memory of loading, over the checkpoint", float(made.stdout), 1.2, "times")


if __name__ == "__main__":
    main(__doc__, measure)
