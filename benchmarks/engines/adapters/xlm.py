"""xlm-core's MDLMPredictor."""

from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import Case
from benchmarks.engines.found import Checkout

NAME, FILE = "xlm-core MDLMPredictor", "xlm-models/mdlm/predictor_mdlm.py"


def noise(t):
    """Its log-linear schedule: the mask has probability t."""
    return None, -torch.log1p(-(1 - 1e-7) * t)


def cases(checkouts):
    at = Checkout(checkouts, "xlm-core", "github.com/dhruvdcoder/xlm-core")
    predictor = at.load(FILE, {"xlm": {}, "xlm.utils.nn": at.load("src/xlm/utils/nn.py")}).MDLMPredictor

    def loop(**filters):
        def run(network, rows, length, steps):
            mask = network.config.mask_token_id
            tokens = SimpleNamespace(mask_token_id=mask, batch_decode=lambda x, **_: [""] * len(x))
            made = type.__call__(predictor, steps, None, tokens, lambda x, *_: network(x).logits, noise, **filters)
            made.noise_schedule, x = noise, torch.full((rows, length), mask)
            return made.predict({"input_ids": x, "attention_mask": torch.ones(rows, length)})["ids"]

        return run

    weights = "probabilities used as logits"
    last = "argmax for 1/(N + 1) of the positions"
    both, drawn, argmax = loop(top_k=2, top_p=0.9), laws.one_more("draw"), laws.one_more("argmax")
    few = {"filters": {"top_k": 2}}
    return at.version(FILE), [
        Case("top_k = 2 (default)", loop(top_k=2), "ancestral", laws.top_two, laws.two_largest, weights, **few),
        Case("T = 1 (top_k and top_p given)", both, "ancestral", drawn, argmax, last),
    ]
