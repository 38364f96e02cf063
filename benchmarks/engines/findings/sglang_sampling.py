"""SGLang, sampling.py of 0026bd4: how often a token is written with its score and threshold, 32 positions."""

import torch

# The commit score of sample(): min(argmax probability, exp(z_drawn - z_max)); one position where none is above .95.
torch.manual_seed(0)
ROWS, LENGTH = 4000, 32
for rare in (0.4, 0.3, 0.2, 0.1):
    x, done = torch.zeros(ROWS, LENGTH), torch.zeros(ROWS, LENGTH, dtype=torch.bool)
    while not done.all():
        drawn = (torch.rand(ROWS, LENGTH) < rare).double()
        relative = torch.where(drawn == 1, rare / (1 - rare), 1.0)
        score = relative.clamp(max=1 - rare).masked_fill(done, -1)
        best = (score + 1e-9 * torch.rand_like(score)).argmax(1, keepdim=True)
        x.scatter_(1, best, drawn.gather(1, best).float())
        done.scatter_(1, best, True)
    print(f"{rare}: written with {x.mean():.4f}")
