"""Dream: positions that each step reveals, of 16: python dream_counts.py generation_utils.py (dLLM's copy)"""

import re
import sys
from pathlib import Path

import torch

source = Path(sys.argv[1]).read_text()
line = re.search(r"number_transfer_tokens = (.*)", source).group(1)  # of their loop
times = re.search(r"timesteps = (.*)", source).group(1)
for steps in (16, 8, 4):
    space = {"torch": torch, "steps": steps, "eps": 1e-3, "x": torch.zeros(1)}
    timesteps, left, counts = eval(times, space), 16, []
    for i in range(steps):
        space |= {"num_mask_token": torch.tensor(left), "t": timesteps[i], "s": timesteps[i + 1], "i": i}
        counts.append(eval(line, space))
        left -= counts[-1]
    print(steps, "steps:", counts)
