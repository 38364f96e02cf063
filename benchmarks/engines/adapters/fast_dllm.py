"""Fast-dLLM v2's generation_functions.py. Its draw is in a file beside the weights: here it is in our words."""

from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import GREEDY, Case
from benchmarks.engines.found import Checkout
from benchmarks.engines.networks import Cached, NextToken

NAME, FILE = "Fast-dLLM v2", "v2/generation_functions.py"


def draw(logits, top_p, temperature):
    p = torch.softmax(logits / (temperature or 1.0), -1)
    return (p.flatten(0, 1).multinomial(1).view(p.shape[:2]) if temperature else p.argmax(-1)), p


def first_row(logits, top_p, temperature):
    p, index = torch.softmax(logits / temperature, -1).sort(-1, descending=True)
    p = p.masked_fill(p.cumsum(-1) - p > top_p, 0)
    p = torch.zeros_like(p).scatter(-1, index, p / p.sum(-1, keepdim=True))
    return p[0].multinomial(1).T, p


def cases(checkouts):
    at = Checkout(checkouts, "Fast-dLLM", "github.com/NVlabs/Fast-dLLM")
    utils = {"transformers.utils": {"auto_docstring": lambda cls: cls}}
    sample = at.load(FILE, utils).Fast_dLLM_QwenForCausalLM.batch_sample

    def loop(temperature, draw=draw):
        def run(network, rows, length, steps):
            model, block = Cached(NextToken(network, ahead=True), "update_past_key_values"), min(32, length)
            start, lengths = torch.zeros((rows, 1), dtype=torch.long), torch.ones(rows, dtype=torch.long)
            how = {"block_size": block, "small_block_size": block, "max_new_tokens": length, "stop_token": -1}
            how |= {"mask_id": network.config.mask_token_id, "temperature": temperature}
            model = SimpleNamespace(forward=model, sample_with_top_p=draw, device="cpu")
            made = sample(model, start, SimpleNamespace(pad_token_id=0), min_len=1, seq_len=lengths, **how)
            return torch.stack([made[row] for row in range(rows)])[:, 1:]

        return run

    first = "one token of each block is argmax"
    rest, alone = {"record": False, "audited": False}, "T = 1, top_p = 0.95, one row, its own draw"
    meant, code = (laws.one_after_block(0.95, greedy) for greedy in (False, True))
    cut = (laws.within(0.95, law) for law in (meant, code))
    greedy = laws.gated(0.95, greedy=True, block=lambda length: length - 1)
    return at.version(FILE), [
        Case("T = 1", loop(1.0), "-", meant, code, first, **rest),
        Case(alone, loop(1.0, first_row), "-", *cut, first, rows=1, **rest),
        Case("T = 0 (default)", loop(0.0), "-", greedy, meant=GREEDY, **rest),
    ]
