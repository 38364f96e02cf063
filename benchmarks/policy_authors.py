"""Surrogates of unmask.policy against the authors' own functions, on the same network, texts and masks.

    python -m benchmarks.policy_authors DIR    a table; DIR has bare clones OWNER+NAME/repo or usual clones NAME

The functions are read from the commit below with git, without their imports: what they need is passed to them. They
get texts without a prompt, a network of three symbols, and float64 in place of float32. The masks are those that the
network was asked for.
"""

from __future__ import annotations

import argparse
import ast
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from unmask.denoisers import Denoiser
from unmask.diagnosis.likelihood import of_sampler
from unmask.diagnosis.policy.sets import gdpo_draw, logs
from unmask.diagnosis.policy.surrogates import ONE_STEP, SURROGATES, Sandwiched, exponential

V, LENGTH, ROWS = 3, 6, 8
SEED = 11
CASES = 20


class Code(NamedTuple):
    """Functions of a file at a commit."""

    repository: str
    commit: str
    path: str
    names: tuple[str, ...]


D1 = Code(
    "dllm-reasoning/d1", "837888f", "diffu-grpo/diffu_grpo_trainer.py", ("forward_process", "_get_per_token_logps")
)
WD1 = Code(
    "xiaohangt/wd1",
    "0898985",
    "wd1/trainers/rev_grpo_trainer.py",
    ("compute_loss", "_get_per_token_logps", "forward_process"),
)
COUPLED = Code(
    "apple/ml-diffucoder",
    "f735e01",
    "src/open_r1/coupled_grpo.py",
    ("selective_log_softmax", "forward_process", "_get_per_token_logps"),
)
SPG = Code("facebookresearch/SPG", "a1c7120", "spg/spg_trainer.py", ("forward_process", "_get_per_seq_logps"))
ESPO = Code("ML-GSAI/ESPO", "b5f2dac", "espo/espo_trainer.py", ("forward_process", "_get_elbo", "_get_elbo_mc"))
LLADA = Code(
    "ML-GSAI/LLaDA", "b7e6c35", "get_log_likelihood.py", ("forward_process", "get_logits", "get_log_likelihood")
)
TRACE = Code(
    "Gen-Verse/dLLM-RL", "10b4fd1", "train/rl_llada.py", ("collapse_k_unique", "prepare_inputs_and_labels_for_text")
)
GDPO = Code(
    "KevinRojas1499/GDPO",
    "1918683",
    "gdpo/likelihood_estimators.py",
    ("__init__", "forward_process", "get_logits", "get_log_likelihood", "get_loss"),  # of the last class that has them
)


def functions(root: Path, code: Code, **given: Any) -> SimpleNamespace:
    """The functions of a file, with these names in place of its imports."""
    owner, name = code.repository.split("/")
    places = [root / f"{owner}+{name}" / "repo", root / name]
    place = next(place for place in places if place.exists())
    shown = subprocess.run(["git", "-C", place, "show", f"{code.commit}:{code.path}"], capture_output=True, check=True)
    nodes = [node for node in ast.walk(ast.parse(shown.stdout)) if isinstance(node, ast.FunctionDef)]
    kept = {node.name: node for node in nodes if node.name in code.names}
    for node in kept.values():
        node.decorator_list, node.returns = [], None
        for argument in [*node.args.args, *node.args.kwonlyargs]:
            argument.annotation = None
    scope = {"torch": Precise(), "F": functional, "random": random, "set_seed": seeded} | given
    exec(compile(ast.Module(list(kept.values()), []), code.path, "exec"), scope)
    return SimpleNamespace(**{name: scope[name] for name in kept})


class Precise:
    """torch, with float64 as its float32."""

    float32 = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def seeded(seed: Any) -> None:
    random.seed(int(seed))
    torch.manual_seed(int(seed))


class Asked(torch.nn.Module):
    """Random logits for every context, of texts without a prompt; it keeps the contexts that it was asked for."""

    device = torch.device("cpu")

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(((V + 1) ** LENGTH, LENGTH, V), generator=generator, dtype=torch.float64)
        self.table.requires_grad_()
        self.asked: list[Tensor] = []
        self.vocabulary = V

    def logits(self, tokens: Tensor) -> Tensor:
        return self.table[(tokens * (V + 1) ** torch.arange(LENGTH).flip(0)).sum(-1)]

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        self.asked.append(input_ids)
        return SimpleNamespace(logits=self.logits(input_ids))

    def log(self, tokens: Tensor) -> Tensor:
        return self.logits(tokens).log_softmax(-1)


class Ours:
    """The same network for our functions."""

    vocabulary = V

    def __init__(self, model: Asked) -> None:
        self.model = model

    def __call__(self, contexts: Tensor) -> Tensor:
        return self.model.log(contexts)


class Read(Denoiser):
    """The same network as a denoiser."""

    vocabulary = V

    def __init__(self, model: Asked) -> None:
        self.model = model

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        found = self.model.log(tokens).detach().exp()
        return (
            found
            if positions is None
            else found.gather(1, positions.expand(len(tokens), -1).unsqueeze(2).expand(-1, -1, V))
        )


def trainer(found: SimpleNamespace, **more: Any) -> SimpleNamespace:
    """What the methods read of their trainer; without a shift of logits, which belongs to Dream."""
    usual = {
        "mask_id": V,
        "mask_token_id": V,
        "cfg_scale": 0.0,
        "p_mask_prompt": 0.15,
        "num_t": 1,
        "min_t": 0,
        "max_t": 1,
    }
    usual |= {"forward_type": "random", "use_mask_prompt": False, "gradient_accumulation_steps": 1, "num_iterations": 1}
    me = SimpleNamespace(args=SimpleNamespace(**usual | more), processing_class=SimpleNamespace(mask_token_id=V))
    me.get_logits = lambda model, batch, *_: model(batch).logits
    for name, function in vars(found).items():
        setattr(
            me,
            name,
            function
            if name == "forward_process" and "self" not in function.__code__.co_varnames
            else function.__get__(me),
        )
    return me


def texts(seed: int) -> Tensor:
    return torch.randint(0, V, (ROWS, LENGTH), generator=torch.Generator().manual_seed(seed))


def advantages(seed: int) -> Tensor:
    rewards = torch.rand(ROWS, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    return rewards - rewards.mean()


def one_step(root: Path, seed: int) -> float:
    me, model, x = trainer(functions(root, D1)), Asked(seed), texts(seed)
    theirs = me._get_per_token_logps(model, x.unsqueeze(0), LENGTH, [seed])[0].sum(1)
    return apart(theirs, ONE_STEP(Ours(model), x, None))


def wd1(root: Path, seed: int) -> float:
    """The gradient of the loss in the table of logits, against that of the weighted scores."""
    me, model, x = trainer(functions(root, WD1)), Asked(seed), texts(seed)
    me._step, advantage = 0, advantages(seed)
    inputs = {"prompt_ids": x[:, :0], "prompt_mask": x[:, :0], "completion_ids": x, "mask_seeds": [seed]}
    inputs |= {"completion_mask": torch.ones_like(x), "advantages": advantage}
    (theirs,) = torch.autograd.grad(-me.compute_loss(model, inputs), model.table)
    weight = exponential(torch.full((ROWS,), 1 / ROWS, dtype=torch.float64), advantage) / ROWS
    (own,) = torch.autograd.grad(weight @ ONE_STEP(Ours(model), x, None), model.table)
    return apart(theirs, own)


def coupled(root: Path, seed: int) -> float:
    found = functions(root, COUPLED)
    model, x, select = Asked(seed), texts(seed), found.selective_log_softmax
    scope = functions(root, COUPLED, selective_log_softmax=select)
    del scope.selective_log_softmax
    theirs = trainer(scope)._get_per_token_logps(model, x.unsqueeze(0), LENGTH, [seed])[:, 0].sum(1)
    random.seed(seed)
    t = random.uniform(0.2, 0.8)  # as their forward_process draws it
    whole, mask, rest = (part == V for part in model.asked[0].split(ROWS))
    hidden = torch.stack([mask, rest, whole], 1)
    weights = torch.tensor([1 / t / 2, 1 / (1 - t) / 2, 0.5], dtype=torch.float64)
    return apart(theirs, (logs(Ours(model), x, hidden).sum(2) * weights).sum(1))


def spg(root: Path, seed: int, kind: str = "eubo", share: float = 1.0) -> float:
    more = {"num_t": 3, "logp_estimation": kind, "eubo_beta": 1.5, "mix_weight": 0.5}
    me, model, x = trainer(functions(root, SPG), **more), Asked(seed), texts(seed)
    advantage, full = advantages(seed), torch.ones_like(x)
    theirs = me._get_per_seq_logps(model, x.unsqueeze(0), LENGTH, [seed], full[:, :0], full, advantage > 0)[0]
    hidden = (model.asked[0] == V).view(ROWS, 3, LENGTH)
    chance = LENGTH / hidden.sum(2).double() / 3
    own = Sandwiched(share).of(logs(Ours(model), x, hidden), hidden, chance, advantage)
    return apart(theirs * LENGTH, own)  # theirs is per token


def espo(root: Path, seed: int) -> float:
    found = functions(root, ESPO)
    me = trainer(SimpleNamespace(**vars(functions(root, ESPO, forward_process=found.forward_process))))
    model, x = Asked(seed), texts(seed)
    theirs = me._get_elbo_mc(model, x.unsqueeze(0), LENGTH, torch.full((1, 1), seed), num_mc=1)[:, 0]
    hidden = torch.stack([part == V for part in model.asked], 1)
    weights = (LENGTH + 1) / 2 / hidden.sum(2).double().clamp(min=1)
    return apart(theirs, (logs(Ours(model), x, hidden).sum(2) * weights).sum(1))


def gdpo(root: Path, seed: int) -> float:
    me, model, x = trainer(functions(root, GDPO)), Asked(seed), texts(seed)
    me.__init__("gauss-2")
    theirs, _ = me.get_log_likelihood(model, x, mask_id=V, seed=seed)
    hidden = torch.stack([part == V for part in model.asked], 1)
    ours, weights = gdpo_draw(ROWS, LENGTH, len(model.asked), torch.Generator())
    assert torch.equal(ours.sum(2), hidden.sum(2))
    return apart(theirs, (logs(Ours(model), x, hidden).sum(2) * weights).sum(1))


def llada(root: Path, seed: int) -> float:
    """LLaDA's Monte Carlo estimate, whose sizes are spread evenly over the draws."""
    found = functions(root, LLADA)
    scope = functions(root, LLADA, forward_process=found.forward_process, get_logits=found.get_logits)
    model, x = Asked(seed), texts(seed)[:1]
    torch.manual_seed(seed)
    theirs = scope.get_log_likelihood(model, x[0, :0], x[0], mc_num=ROWS, batch_size=ROWS, mask_id=V)
    hidden = (model.asked[0] == V).unsqueeze(0)
    weights = LENGTH / hidden.sum(2).double() / ROWS
    return apart(torch.tensor([theirs]), (logs(Ours(model), x, hidden).sum(2) * weights).sum(1))


def trajectory(root: Path, seed: int) -> float:
    """TraceRL's contexts and targets of left-to-right decoding in three steps, against our likelihood of its path."""
    config = SimpleNamespace(
        training=SimpleNamespace(max_gen_length=LENGTH, lower_p=0, upper_p=1, method="TraceRL", shrink=1, post_num=None)
    )
    scope = {"mask_id": V, "pad_id": V + 1, "config": config, "uni_prompting": lambda pair: (pair[1], pair[1], 0, 0)}
    found = functions(root, TRACE, **scope)
    model, x = Asked(seed), texts(seed)
    step = (torch.arange(LENGTH) // 2).tolist()
    noisy, labels, kept, *_ = found.prepare_inputs_and_labels_for_text([""] * ROWS, x, [step] * ROWS, [0.0] * ROWS)
    each = (model.log(noisy).gather(2, labels.unsqueeze(2)).squeeze(2) * kept).sum(1)
    theirs = each.detach().view(ROWS, 3).sum(1)
    return apart(theirs, of_sampler(Read(model), "left-to-right", x, steps=3).nats)


def apart(theirs: Tensor, own: Tensor) -> float:
    return float((theirs.detach().double() - own.detach().double()).abs().max())


CHECKS: dict[str, tuple[Code, Callable[[Path, int], float]]] = {
    "one-step": (D1, one_step),
    "wd1": (WD1, wd1),
    "elbo, stratified": (LLADA, llada),
    "antithetic": (ESPO, espo),
    "coupled": (COUPLED, coupled),
    "gdpo": (GDPO, gdpo),
    "spg-upper": (SPG, spg),
    "spg-mixed": (SPG, lambda root, seed: spg(root, seed, "mix", 0.5)),
    "trajectory": (TRACE, trajectory),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    root = parser.parse_args().clones
    torch.set_default_dtype(torch.float64)
    print("| surrogate | code | largest difference |\n|---|---|---|")
    for name, (code, check) in CHECKS.items():
        worst = max(check(root, SEED + case) for case in range(CASES))
        print(f"| `{name}` | {code.repository} {code.commit}, `{code.path}` | {worst:.1e} |")
    assert {part for name in CHECKS for part in name.split(", ")} <= SURROGATES.keys()


if __name__ == "__main__":
    main()
