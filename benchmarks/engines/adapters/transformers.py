"""transformers' DiffusionGemma: its generate() around exact logits, which stand in for encoder and decoder."""

from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import Case
from benchmarks.engines.found import installed
from benchmarks.engines.networks import Decoder

NAME = "transformers DiffusionGemma"


def cases(checkouts):
    version = installed("transformers")
    from transformers.models.diffusion_gemma import generation_diffusion_gemma as gemma

    class Loop(gemma.DiffusionGemmaGenerationMixin, Decoder):
        """Encoder, decoder and their masks, without weights."""

        generation_config = gemma.DiffusionGemmaGenerationConfig()

    def loop(**how):
        def run(network, rows, length, steps):
            cache = SimpleNamespace(get_seq_length=lambda: 0, is_compileable=False)
            how_many = {"max_new_tokens": length, "max_denoising_steps": steps}
            start = torch.zeros((rows, 1), dtype=torch.long)
            return Loop(network, length).generate(start, cache=cache, **how_many, **how).sequences[:, 1:]

        return run

    meant = "argmax at the end"
    hot = {"t_min": 1 - 1e-6, "t_max": 1.0}
    rest = {"noise": True, "meant": meant, "audited": False}  # its network is not told the level, as `renoise` is
    return version, [
        Case("T = 1", loop(**hot), "renoise(t_max=1, t_min=1)", laws.diffusion_gemma(1.0, 1.0), **rest),
        Case("T = 0.8 to 0.4 (default)", loop(), "renoise", laws.diffusion_gemma(0.8, 0.4), **rest),
    ]
