"""Generate loops as strangers write them: nothing of ours but `.logits`; each known bug can be planted, one at a time.

`mdlm` is MDLM's ancestral step (Sahoo et al. 2024), `llada` LLaDA's low-confidence remasking (Nie et al. 2025), `dream`
Dream's own loop (Ye et al. 2025) with its counts, its eps and its order of equal scores: all three after the published
code.
"""

from __future__ import annotations

from itertools import product

import torch
import torch.nn.functional as F


def sample_categorical(weights, dtype=torch.float64, bug=""):
    noise = torch.rand(weights.shape, dtype=dtype)
    if bug == "noise shared by positions":
        noise = noise[:, :1]
    gumbel_norm = 1e-10 - (noise + 1e-10).log()
    return (weights / gumbel_norm).argmax(dim=-1)


@torch.no_grad()
def mdlm(model, rows, length, steps, *, bug="", temperature=1.0):
    mask = model.config.mask_token_id
    dtype = {"float32 noise": torch.float32, "bfloat16 noise": torch.bfloat16}.get(bug, torch.float64)
    steps = {"one step short": steps - 1, "twice the steps": 2 * steps}.get(bug, steps)
    x = torch.full((rows, length), mask)
    timesteps = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    if bug == "an empty round":
        timesteps[-2] = timesteps[-3]
    if bug == "noise shared by rounds":
        seed = torch.seed()
    for i in range(steps):
        move_chance_t, move_chance_s = timesteps[i], timesteps[i + 1]
        logits = model(x, timesteps[i] * torch.ones(rows, 1)).logits
        if bug == "bfloat16 logits":
            logits = logits.bfloat16()
        p_x0 = (logits.double() / temperature).softmax(-1)
        last = i == steps - 1
        if bug == "delta instead of rho":
            q_xs = p_x0 / steps
            q_xs[:, :, mask] = 0 if last else 1 - 1 / steps
        else:
            q_xs = p_x0 * (move_chance_t - move_chance_s)
            q_xs[:, :, mask] = move_chance_s
        if bug == "noise shared by rounds":
            torch.manual_seed(seed)
        x_new = sample_categorical(q_xs, dtype, bug)
        if bug == "final argmax" and last:
            x_new = p_x0.argmax(-1)
        x = torch.where(x == mask, x_new, x)
        if bug == "hidden again" and not last:
            x[torch.rand(x.shape) < 0.01] = mask
    return x


def add_gumbel_noise(logits, temperature, dtype=torch.float64, bug=""):
    logits = logits.to(torch.float64)
    noise = torch.rand(logits.shape, dtype=dtype)
    if bug == "noise shared by positions":
        noise = noise[:, :1]
    gumbel_noise = (-torch.log(noise)) ** temperature
    return logits.exp() / gumbel_noise


def get_num_transfer_tokens(mask_index, steps):
    mask_num = mask_index.sum(dim=1, keepdim=True)
    base, remainder = mask_num // steps, mask_num % steps
    num_transfer_tokens = torch.zeros(len(mask_num), steps, dtype=torch.int64) + base
    for i in range(len(mask_num)):
        num_transfer_tokens[i, : remainder[i]] += 1
    return num_transfer_tokens


@torch.no_grad()
def llada(model, rows, length, steps, *, bug="", temperature=1.0, blocks=1, scored=torch.float64):
    mask_id = model.config.mask_token_id
    dtype = {"float32 noise": torch.float32, "bfloat16 noise": torch.bfloat16}.get(bug, torch.float64)
    steps = {"one step short": steps - 1, "twice the steps": 2 * steps}.get(bug, steps)
    x = torch.full((rows, length), mask_id)
    size = length // blocks
    num_transfer_tokens = get_num_transfer_tokens(x[:, :size] == mask_id, steps)
    if bug == "noise shared by rounds":
        seed = torch.seed()
    for block, i in product(range(blocks), range(steps)):
        mask_index = x == mask_id
        logits = model(x).logits
        if bug == "bfloat16 logits":
            logits = logits.bfloat16()
        if bug == "noise shared by rounds":
            torch.manual_seed(seed)
        x0 = torch.argmax(add_gumbel_noise(logits, temperature, dtype, bug), dim=-1)
        if bug == "final argmax" and i == steps - 1:
            x0 = logits.argmax(-1)
        p = F.softmax(logits.to(torch.float64), dim=-1).to(scored)
        x0_p = torch.squeeze(torch.gather(p, dim=-1, index=torch.unsqueeze(x0, -1)), -1)
        x0 = torch.where(mask_index, x0, x)
        x0_p[:, (block + 1) * size :] = -torch.inf
        confidence = torch.where(mask_index, x0_p, -torch.inf)
        transfer_index = torch.zeros_like(x0, dtype=torch.bool)
        if bug == "flattened top-k":
            select_index = torch.topk(confidence.view(-1), k=int(num_transfer_tokens[:, i].sum())).indices
            transfer_index.view(-1)[select_index] = True
        else:
            for j in range(confidence.shape[0]):
                k = int(num_transfer_tokens[j, i])
                if bug == "lowest position":
                    select_index = torch.sort(confidence[j], descending=True, stable=True).indices[:k]
                else:
                    _, select_index = torch.topk(confidence[j], k=k)
                transfer_index[j, select_index] = True
        x[transfer_index] = x0[transfer_index]
    return x


@torch.no_grad()
def causal(model, rows, length, *, temperature=1.0):
    x = torch.full((rows, 1), model.config.bos_token_id)
    for _ in range(length):
        p = (model(x).logits[:, -1].double() / temperature).softmax(-1)
        x = torch.cat([x, torch.multinomial(p, 1)], 1)
    return x[:, 1:]


DREAM_SCORES = {
    "maskgit_plus": lambda p, drawn: p.gather(-1, drawn.unsqueeze(-1)).squeeze(-1),
    "topk_margin": lambda p, drawn: p.sort(dim=-1, descending=True).values[..., :2].diff(dim=-1).neg().squeeze(-1),
    "entropy": lambda p, drawn: (p * (p + 1e-10).log()).sum(-1),
}


@torch.no_grad()
def dream(
    model,
    rows,
    length,
    steps,
    *,
    alg="entropy",
    bug="",
    temperature=1.0,
    alg_temp=0.0,
    eps=1e-3,
    given=None,
    scored=torch.float32,
):
    mask = model.config.mask_token_id
    x = torch.full((rows, length), mask) if given is None else given.clone()
    times = torch.linspace(1, eps, steps + 1)
    for k in range(steps):
        hidden = x == mask
        logits = model(x).logits[..., :mask]
        p = (logits / temperature if temperature else logits).softmax(-1)
        drawn = torch.distributions.Categorical(probs=p).sample() if temperature else p.argmax(-1)
        share = 1 - times[k + 1] / times[k] if k < steps - 1 else torch.ones(())
        if alg == "origin":
            taken = hidden & (torch.rand(x.shape) < share)
        else:
            count = int(hidden.sum() / rows * share)
            if bug == "evenly":
                count = int(hidden.sum() / rows) // (steps - k)
            seen = p if alg == "entropy" else p.to(scored)
            scores = DREAM_SCORES[alg](seen, drawn).to(scored).masked_fill(~hidden, -torch.inf)
            if alg_temp:
                found = torch.multinomial((scores / alg_temp).softmax(-1), max(count, 1))[:, :count]
            else:
                found = torch.topk(scores, count).indices
            taken = torch.zeros_like(hidden).scatter_(1, found, True)
        x = torch.where(taken, drawn, x)
    return x


@torch.no_grad()
def sdar(model, rows, length, *, block=4, budget=0.35, bug=""):
    """Blocks of four; of each row the surest places whose entropies add up to less than a budget, and at least one."""
    mask = model.config.mask_token_id
    x = torch.full((rows, length), mask)
    for first in range(0, length, block):
        here = (torch.arange(length) >= first) & (torch.arange(length) < first + block)
        while bool((hidden := (x == mask) & here).any()):
            p = model(x).logits[..., :mask].double().softmax(-1)
            drawn = torch.distributions.Categorical(probs=p).sample()
            terms = -p * p.clamp(min=1e-300).log()
            entropy = terms.sum(-1) if bug != "own term" else terms.gather(-1, drawn.unsqueeze(-1)).squeeze(-1)
            found, order = entropy.masked_fill(~hidden, torch.inf).sort(dim=1, stable=True)
            count = (found.cumsum(1) < budget).sum(1).clamp(min=1)
            taken = torch.zeros_like(hidden).scatter_(1, order, torch.arange(length) < count.unsqueeze(1))
            x = torch.where(taken & hidden, drawn, x)
    return x
