"""diffusers, DiscreteDDIMScheduler.step_correct: total variation after 8 sweeps that should keep the distribution."""

import torch
from diffusers import DiscreteDDIMScheduler

V, LEVEL, ROWS = 3, 0.5, 200_000
q = torch.tensor([[0.60, 0.05, 0.05], [0.03, 0.10, 0.02], [0.05, 0.05, 0.05]]).double()  # of two tokens
emit = LEVEL * torch.eye(V).double() + (1 - LEVEL) / V
exact = (emit.T @ q @ emit).flatten()  # of the noisy pair
posterior = torch.zeros(V, V, 2, V).double()  # of each token, given the pair
for a in range(V):
    for b in range(V):
        joint = q * emit[:, a, None] * emit[None, :, b]
        posterior[a, b] = torch.stack([joint.sum(1), joint.sum(0)]) / joint.sum()
for name, k in (
    ("random", 1),
    ("random", 2),
    ("lowest_log_margin", 1),
    ("lowest_current_prob", 1),
    ("lowest_maxprob", 1),
):
    torch.manual_seed(0)
    scheduler = DiscreteDDIMScheduler(num_inference_steps=2, corrector_steps=1, corrector_selection=name, corrector_k=k)
    pair = exact.multinomial(ROWS, replacement=True)
    x = torch.stack([pair // V, pair % V], 1)
    for _ in range(8):
        x = scheduler.step_correct(posterior[x[:, 0], x[:, 1]].log().float(), 0, x).prev_sample
    after = torch.bincount(x[:, 0] * V + x[:, 1], minlength=V * V) / ROWS
    print(f"{name}, k = {k}: TV {(after - exact).abs().sum() / 2:.3f}")
