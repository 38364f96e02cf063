"""Samplers within the pipelines of Diffusers for masked models, such as LLaDA2Pipeline.

    from diffusers_bridge import Callback

    with Callback(pipe.model, "threshold(threshold=0.9)", mask=156895) as callback:
        pipe(prompt, callback_on_step_end=callback, callback_on_step_end_tensor_inputs=["block_x"])

A pipeline calls it after each step with the window block_x, and continues with the one that it returns. The callback
takes a step of the sampler with the logits of each forward pass, and discards the pipeline's tokens. For samplers that
follow a schedule, set steps to num_inference_steps.
"""

from __future__ import annotations

from typing import Any

from foreign_loop import Fed
from torch import Tensor, nn

from unmask import UnmaskError


class Callback:
    """A function for `callback_on_step_end`; leaving the context removes its hook from the model."""

    def __init__(self, model: nn.Module, sampler: Any, mask: int, *, steps: int | None = None, seed: int = 0) -> None:
        self.sampler, self.mask, self.steps, self.seed = sampler, mask, steps, seed
        self._fed: Fed | None = None
        self._hook = model.register_forward_hook(self._computed, with_kwargs=True)

    def __enter__(self) -> Callback:
        return self

    def __exit__(self, *error: object) -> None:
        self._hook.remove()

    def _computed(self, model: nn.Module, args: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
        """Take a step of the sampler at once, since a pipeline writes into its tensors."""
        ids = args[0] if args else options["input_ids"]
        logits = output.logits if hasattr(output, "logits") else output[0]
        if self._fed is None or not self._fed.ids.equal(ids.cpu()):  # another block
            self._fed = Fed(self.sampler, ids, self.mask, logits.shape[-1], steps=self.steps, seed=self.seed)
        self._fed.feed(logits)

    def __call__(self, pipe: Any, step: int, time: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if self._fed is None:
            raise UnmaskError("the pipeline has made no forward pass of the model. Pass the model of this pipeline")
        window = tensors["block_x"]
        return {"block_x": self._fed.ids[:, -window.shape[1] :].to(window)}
