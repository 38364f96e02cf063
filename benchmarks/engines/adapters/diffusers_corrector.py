"""The corrector of diffusers' DiscreteDDIMScheduler: does it keep the distribution of a level, as documented?"""

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import Case
from benchmarks.engines.found import installed

NAME, LEVEL, SWEEPS = "diffusers DiscreteDDIM corrector", 0.5, 8


def cases(checkouts):
    version = installed("diffusers")
    from diffusers import DiscreteDDIMScheduler

    def loop(selection):
        scheduler = DiscreteDDIMScheduler(num_inference_steps=2, corrector_steps=1, corrector_selection=selection)

        def run(network, rows, length, steps):
            start = laws.corrected(LEVEL, 0)(network, length, steps).multinomial(rows, replacement=True)
            x = start.unsqueeze(1) // network.vocabulary ** torch.arange(length - 1, -1, -1) % network.vocabulary
            for _ in range(SWEEPS):  # timestep 0 of 2 leads to level 0.5
                x = scheduler.step_correct(network(x, level=LEVEL).logits, 0, x).prev_sample
            return x

        return run

    kept, moved = laws.corrected(LEVEL, 0), laws.corrected(LEVEL, SWEEPS)
    chosen = "sweeps change the distribution"
    rest = {"noise": True, "audited": False, "sized": False}
    return version, [
        Case("random, 8 sweeps", loop("random"), "-", kept, **rest),
        Case("lowest_log_margin (default), 8 sweeps", loop("lowest_log_margin"), "-", kept, moved, chosen, **rest),
    ]
