"""SGLang's sampling.py, of a branch: its draw and its score. The commit rule around it is that of LowConfidence."""

from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import Case
from benchmarks.engines.found import Checkout
from benchmarks.engines.gated import Gated
from benchmarks.engines.rules import plausible

NAME, FILE, THRESHOLD = "SGLang sampling.py", "python/sglang/srt/dllm/sampling.py", 0.95
DRAW = {"sampling_from_probs_torch": lambda p: p.multinomial(1).view(-1)}
STUBS = {"sglang": {}, "sglang.srt.utils.common": {"is_cuda": lambda: False}, "sglang.srt.layers.sampler": DRAW}


def cases(checkouts):
    at = Checkout(checkouts, "sglang", "github.com/sgl-project/sglang, of a commit with srt/dllm/sampling.py")
    plan = at.load(FILE, STUBS).DllmSamplingPlan

    def loop(network, rows, length, steps):
        x = torch.full((rows, length), network.config.mask_token_id)
        info = dict.fromkeys([f"need_{name}_sampling" for name in ("top_p", "top_k", "min_p")], False)
        sample = plan(SimpleNamespace(temperatures=torch.ones(rows, 1), **info), None, [], False).sample
        while bool((hidden := x == network.config.mask_token_id).any()):
            logits = network(x).logits.flatten(0, 1)
            top, whose = logits.softmax(-1).amax(-1), torch.arange(rows).repeat_interleave(length)
            tokens, scores = (y.view(rows, length) for y in sample(logits=logits, req_ids=whose, argmax_probs=top))
            scores = scores.masked_fill(~hidden, -torch.inf)
            sure, one = scores > THRESHOLD, torch.zeros_like(hidden).scatter_(1, scores.argmax(1, keepdim=True), True)
            x = torch.where(hidden & torch.where(sure.any(1, keepdim=True), sure, one), tokens.long(), x)
        return x

    gate = "probable draws first"
    law = laws.gated(THRESHOLD, plausible)
    return at.version(FILE), [Case("T = 1", loop, Gated(THRESHOLD, relative=True), law, meant=gate)]
