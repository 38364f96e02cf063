"""ParallelBench, ReMDM: two blocks of 8 tokens, with 8 and with 16 steps: python parallelbench_blocks.py remdm.py"""

import runpy
import sys
from types import SimpleNamespace

import torch

sample = runpy.run_path(sys.argv[1])["llada_remdm_sample"]
logits = torch.tensor([0.8, 0.2, 0.0]).log()
model = type(
    "Model", (), {"device": "cpu", "__call__": lambda _, x: SimpleNamespace(logits=logits.expand(*x.shape, 3))}
)()
for steps in (16, 8):
    how = {"steps": steps, "gen_length": 16, "block_length": 8, "temperature": 1.0, "mask_id": 2, "tokenizer": "none"}
    try:
        tokens = sample(model, torch.zeros((1, 0), dtype=torch.long), remdm_steps=1, remdm_number=1, **how)[0]
        print(steps, "steps for 16 tokens: written", tokens.shape[1])
    except AssertionError:
        print(steps, "steps for 16 tokens: AssertionError, masks are left")
