"""SGLang, LowConfidence: how often a token of probability .2 is written, at any temperature of the request."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import torch

names = ("algorithm.base", "config"), ("DllmAlgorithm", "DllmConfig")
for name, kind in zip(("sglang.srt.dllm.algorithm.base", "sglang.srt.dllm.config"), names[1], strict=True):
    sys.modules[name] = ModuleType(name)
    setattr(sys.modules[name], kind, object)
sys.modules["sglang.srt.model_executor.forward_batch_info"] = ModuleType("batch")
sys.modules["sglang.srt.model_executor.forward_batch_info"].ForwardBatch = object
root = Path(importlib.util.find_spec("sglang").origin).parent
source = (root / "srt/dllm/algorithm/low_confidence.py").read_text()
space = {}
exec(source, space)

logits = torch.tensor([0.8, 0.2, 0.0]).log().repeat(32, 1)
batch = SimpleNamespace(batch_size=1, input_ids=torch.full((32,), 2), dllm_prompt_mask=None)
self = object.__new__(space["LowConfidence"])
self.block_size, self.mask_id, self.threshold = 32, 2, 0.95
while not self.step(batch, logits, [])[0]:
    pass
print(
    f"the file names temperature {source.count('temperature')} times; .2 is written with",
    batch.input_ids.double().mean(),
)
