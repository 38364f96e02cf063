"""Dream's generation_utils.py, in the copy that dLLM ships: Dream's own is beside its weights."""

from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import GREEDY, Case
from benchmarks.engines.found import Checkout
from benchmarks.engines.networks import NextToken
from benchmarks.engines.rules import certain

NAME, FILE = "Dream generate", "dllm/pipelines/dream/models/generation_utils.py"


def cases(checkouts):
    at = Checkout(checkouts, "dllm", "github.com/ZHZisZZ/dllm")
    sample = at.load(FILE).DreamGenerationMixin._sample

    def loop(alg, temperature):
        def run(network, rows, length, steps):
            none = dict.fromkeys(["output_history", "return_dict", "alg_temp", "top_p", "top_k"])
            sizes = {"max_length": length + 1, "mask_token_id": network.config.mask_token_id, "steps": steps}
            config = SimpleNamespace(**none, **sizes, eps=1e-3, alg=alg, temperature=temperature)
            start = torch.zeros((rows, 1), dtype=torch.long)
            return sample(NextToken(network), start, None, config, lambda _, x, __: x, lambda _, __, y: y)[:, 1:]

        return run

    origin, zero = "dream(alg=origin)", {"temperature": 0}
    down = "counts are rounded down"
    even, entropy = laws.evenly(certain), loop("entropy", 1.0)
    return at.version(FILE), [
        Case("origin, T = 1", loop("origin", 1.0), origin, laws.dream_origin(False)),
        Case(
            "origin, T = 0 (default)", loop("origin", 0.0), origin, laws.dream_origin(True), meant=GREEDY, filters=zero
        ),
        Case("entropy, T = 1", entropy, "entropy(ties=topk)", even, laws.dream_rounded_down, down),
    ]
