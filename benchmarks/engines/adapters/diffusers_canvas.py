"""diffusers' DiscreteDDIMScheduler, in its DiffusionGemmaPipeline."""

from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import Case
from benchmarks.engines.found import installed
from benchmarks.engines.networks import Decoder

NAME = "diffusers DiscreteDDIM"


class Start:
    """A processor whose prompt is one token."""

    def __init__(self, rows):
        self.ids = torch.zeros((rows, 1), dtype=torch.long)

    def apply_chat_template(self, *_, **__):
        return {"input_ids": self.ids}


def piped(scheduler, level, **how):
    """The pipeline with this scheduler; level: whether the network is told the level of the noise."""
    from diffusers.pipelines.diffusion_gemma import pipeline_diffusion_gemma as gemma

    gemma.DynamicCache = lambda **_: SimpleNamespace(get_seq_length=lambda: 0)  # the encoder stores nothing

    def run(network, rows, length, steps):
        pipe = gemma.DiffusionGemmaPipeline(Decoder(network, length, steps * level), scheduler, Start(rows))
        pipe.set_progress_bar_config(disable=True)
        return pipe("", gen_length=length, num_inference_steps=steps, output_type="seq", **how).sequences

    return run


def cases(checkouts):
    version = installed("diffusers")
    from diffusers import DiscreteDDIMScheduler as Ddim

    drawn, cold = piped(Ddim(), True, temperature=1.0, confidence_threshold=None), piped(Ddim(), True)
    clean = "argmax of each step"
    rest, exact, greedy = {"noise": True, "level": True}, laws.uniform_ancestral(False), laws.uniform_ancestral(True)
    return version, [
        Case("T = 1", drawn, "uniform-ancestral", exact, **rest),
        Case("T = 0 (default)", cold, "-", greedy, meant=clean, audited=False, **rest),
    ]
