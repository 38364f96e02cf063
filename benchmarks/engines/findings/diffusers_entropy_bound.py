"""diffusers, EntropyBoundScheduler: foreign tokens on a canvas after the last step, by undecided positions."""

import torch
from diffusers import EntropyBoundScheduler

LENGTH, V, STEPS, ROWS = 256, 1000, 48, 20  # the defaults of the released model, but for V
torch.manual_seed(0)
for undecided in (0, 1, 2, 4, 8):
    logits = torch.full((LENGTH, V), -100.0)
    logits[:, 0] = 0.0  # all positions are sure of token 0,
    logits[:undecided, 1] = 0.0  # but for these, where 0 and 1 have probability 1/2
    scheduler = EntropyBoundScheduler()
    scheduler.set_timesteps(STEPS)
    foreign = 0.0
    for _ in range(ROWS):
        canvas = torch.randint(0, V, (1, LENGTH))
        for t in scheduler.timesteps[-1:]:  # a step does not read the canvas
            canvas = scheduler.step(logits[None], t, canvas).prev_sample
        foreign += int((canvas > 1).sum()) / ROWS
    print(f"{undecided} undecided positions: {foreign:.2f} tokens of probability 0 on a canvas")
