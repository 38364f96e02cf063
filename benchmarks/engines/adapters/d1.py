"""d1's rollout: LLaDA's loop, with noise of the type of the model. wd1, SPG, ESPO and DiPOD have copies of it."""

import warnings

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import Case
from benchmarks.engines.finite import Coarse, race
from benchmarks.engines.found import Checkout
from benchmarks.engines.networks import TAIL, Rounded

NAME, FILE, TRAINER = "d1 rollout", "diffu-grpo/diffu_grpo_trainer.py", "DiffuGRPOTrainer"
NAMES = ("trl", "transformers", "accelerate", "datasets", "peft", "wandb", "pandas.core.apply", "packaging")
STUBS = {name: {} for name in NAMES} | {"transformers.utils": {"is_peft_available": lambda: False}}
STUBS |= {"trl.import_utils": {"is_rich_available": lambda: False, "is_vllm_available": lambda: False}}
HALF, DOUBLE = torch.bfloat16, torch.float64


def rollout(at, file, trainer, **more):
    """Its generate(), without its trainer; more: arguments that a copy has in addition."""
    kind = getattr(at.load(file, STUBS), trainer)

    def loop(dtype):
        def run(network, rows, length, steps):
            self = object.__new__(kind)
            self.args = type("Args", (), {"fp16": False})
            how = {"steps": steps, "gen_length": length, "block_length": length, "temperature": 1.0, **more}
            how |= {"remasking": "random", "mask_id": network.config.mask_token_id}
            with warnings.catch_warnings():  # of torch.cuda.amp, without CUDA
                warnings.simplefilter("ignore")
                return self.generate(Rounded(network, dtype), prompt=torch.zeros((rows, 0), dtype=torch.long), **how)

        return run

    def coarse(network, length, steps):
        return laws.at_random(Coarse(network, HALF), length, steps)

    why = "noise in bfloat16 loses rare tokens"
    four = torch.tensor([0.9, 0.05, 0.01, TAIL], dtype=torch.float64)
    lost = float(race(four, HALF, last=997)[-1])
    settings = "random, T = 1, bfloat16 (its configuration)", "random, T = 1, float64 (its docstring)"
    return at.version(file), [
        Case(settings[0], loop(HALF), "fixed-size", laws.at_random, coarse, why, tail=lost),
        Case(settings[1], loop(DOUBLE), "fixed-size", laws.at_random, tail=TAIL),
    ]


def cases(checkouts):
    return rollout(Checkout(checkouts, "d1", "github.com/dllm-reasoning/d1"), FILE, TRAINER)
