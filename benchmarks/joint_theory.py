"""The tables of theory.md 14: which order is best for joint draws, and what exact pairs of tokens buy.

    python -m benchmarks.joint_theory orders    KL of the best order, dyadic, strided and blocks, on chains of 32 tokens
    python -m benchmarks.joint_theory rates     N^2 KL / L of the fitted draw and N KL / L of the product, N = 128
    python -m benchmarks.joint_theory pairs     E KL of a draw of pairs beside others with as many model calls

`pairs` is a draw that knows more than marginals: the positions of a step, in pairs of neighbors among them, are drawn
from their true joints. It takes 1 + V calls in each step: one for the marginals, and one for each token that the first
of a pair may be. All pairs of a step are probed in the same V calls, as if they did not disturb each other. `split`
draws the first positions of the pairs in one step, and the others in the next.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor

from benchmarks import joint_theory_search as search
from benchmarks.joint import LANGUAGES, learnt
from unmask.core.chance import Randomness
from unmask.denoisers import Denoiser, Ideal
from unmask.languages import Language, NGram, load, random_ngram
from unmask.samplers.contract import as_sampler
from unmask.samplers.joint import divergence
from unmask.samplers.joint.draws import as_joint
from unmask.samplers.schedules import deltas
from unmask.theory import joint_orders

LENGTH, ROWS, TRAINING, MANY = 32, 64, 100, 128
SPACINGS = (2, 3, 4, 6, 8, 12)
CHAINS: dict[str, Language] = {
    "paper-2gram": load("paper-2gram"),
    "keeps .9": NGram(2, [1 / 3] * 3, [[0.9, 0.1, 0], [0, 0.9, 0.1], [0.1, 0, 0.9]]),
    "keeps .97": NGram(2, [1 / 3] * 3, [[0.97, 0.03, 0], [0, 0.97, 0.03], [0.03, 0, 0.97]]),
    "ring": NGram(2, [1 / 4] * 4, [[0.4, 0.4, 0.2, 0], [0, 0.4, 0.4, 0.2], [0.2, 0, 0.4, 0.4], [0.4, 0.2, 0, 0.4]]),
    "joint-loss": NGram(2, [1 / 3] * 3, [[1 / 2, 1 / 2, 0], [1 / 6, 1 / 6, 2 / 3], [1 / 3] * 3]),
    "random": random_ngram(2, 4, temperature=2.0, threshold=0.1, seed=3),
}


def spaced(spacing: int, steps: int) -> Tensor:
    """Every spacing^(N-1)-th position first, at half of that from the begin, then every spacing^(N-2)-th, and so on."""
    order = torch.full((LENGTH,), steps)
    begin = min(spacing ** (steps - 1), LENGTH) // 2
    for step in range(steps - 1, 0, -1):
        width = min(spacing ** (steps - step), LENGTH)
        order[begin % width :: width] = step
    return order


def orders() -> None:
    place = torch.arange(LENGTH)
    print("| chain, N | draw | best order | dyadic | strided | blocks | best spacing |\n|---|---|---|---|---|---|---|")
    for name, language in CHAINS.items():
        for steps in (2, 3):
            every = torch.ones(1, LENGTH, dtype=torch.bool)
            rng = Randomness(0, torch.zeros(1, dtype=torch.int64))
            dyadic = as_sampler("dyadic").order(deltas("linear", steps), every, rng)[0]
            fixed = {"dyadic": dyadic, "strided": place % steps + 1, "blocks": place * steps // LENGTH + 1}
            for fitted in (False, True):
                least, order = joint_orders.best(language, LENGTH, steps, fitted)
                losses = [joint_orders.loss(language, one, fitted) for one in fixed.values()]
                by_spacing = {s: joint_orders.loss(language, spaced(s, steps), fitted) for s in SPACINGS}
                best = min(by_spacing, key=by_spacing.__getitem__)
                shown = " | ".join(f"{loss:.3f}" for loss in (least, *losses))
                draw = "fitted" if fitted else "product"
                line = f"| {name}, {steps} | {draw} | {shown} | {by_spacing[best]:.3f} (every {best}) |"
                print(line, "".join(map(str, order.tolist())), flush=True)


def rates() -> None:
    """By enumeration of the written distribution, for chains of 2 to 5 tokens, of 3 symbols also 6."""
    torch.set_default_dtype(torch.float64)
    for name in ("keeps .9", "ring", "joint-loss"):
        language = CHAINS[name]
        assert isinstance(language, NGram)
        start, moves = (torch.as_tensor(one)[None] for one in (language.initial, language.transition))
        for length in range(2, 7 if language.vocabulary == 3 else 6):
            found = search.losses(search.chain(start, moves, length), MANY, 400)
            fitted, product = float(found.fitted), float(found.product)
            print(f"{name}, {length}: {fitted * MANY**2 / length:.3f}, {product * MANY / length:.3f}", flush=True)


def log_pairs(denoiser: Denoiser, tokens: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """(B), (B): log p_order of `pairs` and of `split`."""
    hidden, places = denoiser.vocabulary, torch.arange(tokens.shape[1])
    pairs, split = torch.zeros(2, len(tokens), dtype=torch.float64)
    for step in order.unique().tolist():
        now, contexts = order == step, torch.where(order < step, tokens, hidden)
        first = now & (now.cumsum(1) % 2 == 1)
        rows, positions = (now & ~first).nonzero(as_tuple=True)

        of_first = torch.where(first, logs(denoiser, contexts, tokens), 0.0).sum(1)
        after = torch.where(first, tokens, contexts)
        split += of_first + torch.where(now & ~first, logs(denoiser, after, tokens), 0.0).sum(1)

        before = torch.where(first, places, -1).cummax(1).values[rows, positions]
        one = contexts[rows].scatter(1, before[:, None], tokens[rows, before][:, None])
        second = logs(denoiser, one, tokens[rows])[torch.arange(len(rows)), positions]
        pairs += of_first.index_add(0, rows, second)
    return pairs, split


def logs(denoiser: Denoiser, contexts: Tensor, tokens: Tensor) -> Tensor:
    """(B, L): log q(x_j | context) of each token."""
    if not len(contexts):
        return torch.zeros(contexts.shape, dtype=torch.float64)
    table = denoiser.posterior(contexts)
    assert isinstance(table, Tensor)
    return table.double().gather(2, tokens.unsqueeze(2)).squeeze(2).log()


def compared(name: str, language: Language, denoiser: Denoiser) -> None:
    length = language.nearest_lengths(LENGTH)[0]
    tokens = language.sample(ROWS, length, seed=2)
    sampler, draw = as_sampler("ancestral"), as_joint("fitted", as_sampler("ancestral"), Ideal(language), length)
    own = language.log_prob(tokens)
    for steps in (1, 2):
        rng = Randomness(2, torch.arange(ROWS))
        order = sampler.order(deltas("linear", steps), torch.ones_like(tokens, dtype=torch.bool), rng)
        known = [own - log for log in log_pairs(denoiser, tokens, order)]
        calls = steps * (1 + language.vocabulary)
        assert draw is not None
        for count in (2 * steps, min(calls, length)):
            one = divergence(language, draw, steps=count, length=length, rows=ROWS, seed=2, denoiser=denoiser)
            known.append(torch.tensor([one.value]))
        shown = " | ".join(f"{float(one.mean()):.2f}" for one in known)
        print(f"| {name} | {calls} | {2 * steps} | {shown} |", flush=True)


def pairs() -> None:
    print("| language | calls of pairs | calls of split | pairs | split | fitted, as split | fitted, as pairs |")
    print("|---|---|---|---|---|---|---|")
    for name in LANGUAGES:
        compared(name, load(name), Ideal(load(name)))
    for name in ("paper-2gram", "sparse-hmm"):
        compared(f"{name}, network", load(name), learnt(load(name), TRAINING, LENGTH))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("orders", "rates", "pairs"))
    began = time.process_time()
    {"orders": orders, "rates": rates, "pairs": pairs}[parser.parse_args().part]()
    print(f"{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
