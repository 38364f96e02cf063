"""SGLang's LowConfidence, of the installed release: its own run(), around a model runner that returns exact logits."""

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import Case
from benchmarks.engines.found import installed, load
from benchmarks.engines.rules import likeliest

NAME, PLACE = "SGLang LowConfidence", "srt/dllm/algorithm"
STUBS = {"sglang": {}, "sglang.srt.utils": {"is_npu": lambda: False}}


def cases(checkouts):
    version = installed("sglang")
    folder = Path(find_spec("sglang").origin).parent / PLACE
    base = load(folder / "base.py", STUBS)
    algorithm = load(folder / "low_confidence.py", STUBS | {"sglang.srt.dllm.algorithm.base": base}).LowConfidence

    def loop(network, rows, length, steps):
        mask = network.config.mask_token_id
        config = {"block_size": length, "mask_id": mask, "first_done_first_out_mode": False, "algorithm_config": {}}
        batch = SimpleNamespace(batch_size=rows, input_ids=torch.full((rows * length,), mask), dllm_prompt_mask=None)

        def forward(batch, **_):
            logits = network(batch.input_ids.view(rows, length)).logits.flatten(0, 1)
            return SimpleNamespace(logits_output=SimpleNamespace(full_logits=logits), can_run_graph=False)

        return torch.stack(algorithm(SimpleNamespace(**config)).run(SimpleNamespace(forward=forward), batch)[1])

    ignored = "argmax at any temperature"
    drawn, greedy = laws.gated(0.95, likeliest), laws.gated(0.95, greedy=True)
    return version, [Case("T = 1 (default)", loop, "threshold(threshold=0.95)", drawn, greedy, ignored)]
