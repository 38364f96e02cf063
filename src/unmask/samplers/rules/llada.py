"""LLaDA's generate with its own option names (arXiv 2502.09992).

    generate(model, prompt, steps, gen_length, block_length, temperature, remasking) is

    unmask.generate(model, sampler="llada(block_length=.., temperature=.., remasking=..)", steps=steps,
                    given=prompt and gen_length hidden positions)

`remasking` chooses the tokens that a step keeps: low_confidence keeps those with the highest probability, random any.
torch.topk orders equal scores, as in the original; use ties="chance" or "position" for other orders. Scores are
float32. For a checkpoint in bfloat16 the original scores have the precision of the logits, here dtype="bfloat16"; its
first version made them float64. cfg_scale is generate's `guidance`. `last` has the tokens of confidence_eos_eot_inf,
which are excluded from the other confidences; at T > 0 the original code forgets one of them, this one does not.
The number of steps need not be a multiple of the number of blocks: the first blocks have one more.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.samplers.rules.blocks import Blocks
from unmask.samplers.rules.low_confidence import LowConfidence
from unmask.samplers.view import View


@dataclass(frozen=True)
class AnyConfidence(LowConfidence):
    """LLaDA's remasking="random": drawn tokens have random scores."""

    @property
    def chooses_before_drawing(self) -> bool:
        return not self.last

    def score(self, view: View, tokens: Tensor) -> Tensor:
        return view.rng(Stream.TIE)


REMASKING: dict[str, type[LowConfidence]] = {"low_confidence": LowConfidence, "random": AnyConfidence}


@SAMPLERS.register("llada")
def llada(
    block_length: int = 32,
    remasking: str = "low_confidence",
    temperature: float = 0.0,
    ties: str = "topk",
    last: tuple[int, ...] = (),
    dtype: str = "float32",
) -> Sampler:
    """LLaDA's generate: blocks of low-confidence remasking, greedy by default."""
    arguments.word("remasking", remasking, REMASKING)
    return Blocks(block_length, REMASKING[remasking](temperature, ties=ties, last=last, dtype=dtype))
