"""LLaDA's generate under the names that its users know (arXiv 2502.09992).

    generate(model, prompt, steps, gen_length, block_length, temperature, remasking) is

    unmask.generate(model, sampler="llada(block_length=.., temperature=.., remasking=..)", steps=steps,
                    given=prompt and gen_length hidden places)

`remasking` decides what stays of the tokens drawn in a round: low_confidence, those that the model was surest of, or
random. Equal scores are left to torch.topk, as there; ties="chance" or "position" says otherwise. Scores are float32;
of a checkpoint in bfloat16 those of the code have as many bits as its logits, and so here with dtype="bfloat16", while
its first version made them float64. cfg_scale is generate's `guidance`, and
`last` has the tokens of confidence_eos_eot_inf, without which the other confidences are normalised; at T > 0 the code
forgets one of them, and this does not.
steps need not be a multiple of the number of blocks: the first ones have one more.
"""

from dataclasses import dataclass

from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.samplers.blocks import Blocks
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.samplers.low_confidence import LowConfidence
from unmask.samplers.view import View


@dataclass(frozen=True)
class AnyConfidence(LowConfidence):
    """LLaDA's remasking="random": the score of a drawn token is chance."""

    def score(self, view: View, tokens: Tensor) -> Tensor:
        return view.luck(Stream.TIE)


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
    """LLaDA's generate: blocks of low-confidence remasking, greedy unless a temperature is given."""
    arguments.word("remasking", remasking, REMASKING)
    return Blocks(block_length, REMASKING[remasking](temperature, ties=ties, last=last, dtype=dtype))
