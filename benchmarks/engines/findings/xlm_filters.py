"""xlm-core: a token of probability .2 after top_k or top_p, one step: python xlm_filters.py src/xlm/utils/nn.py"""

import runpy
import sys

import torch

nn = runpy.run_path(sys.argv[1])
STEPS, ROWS = 32, 20_000
for name, value in (("top_k", 2), ("top_k", 3), ("top_p", 1.0)):
    torch.manual_seed(0)
    x = torch.full((ROWS,), 2)  # 2 is the mask
    for k in range(STEPS):
        left = 1 - (k + 1) / (STEPS + 1)
        q = torch.tensor([0.8, 0.2, 0.0]) / (STEPS + 1)  # as predictor_mdlm.py passes them
        q[2] = left
        drawn = nn[f"sample_from_{name}"](value, q.expand(ROWS, 3).clone())
        x = torch.where(x == 2, drawn.view(-1), x)
    x = torch.where(x == 2, 0, x)  # their last step is an argmax
    print(f"{name} = {value}: .2 is written with {(x == 1).double().mean():.3f}")
