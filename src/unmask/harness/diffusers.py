"""Samplers within the pipelines of Diffusers for masked models, such as LLaDA2Pipeline.

    with Callback(pipe.model, "threshold(threshold=0.9)", mask=156895) as callback:
        pipe(prompt, callback_on_step_end=callback, callback_on_step_end_tensor_inputs=["block_x"])

A pipeline calls it after each step with the window block_x, and continues with the one that it returns. The callback
keeps the input and the logits of the step's forward pass, decides by the sampler, and discards the pipeline's tokens.
For samplers that follow a schedule, set steps to num_inference_steps.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unmask.core.errors import UnmaskError
from unmask.generation.fed import Fed


class Callback:
    """A function for `callback_on_step_end`; leaving the context removes its hook from the model."""

    def __init__(self, model: nn.Module, sampler: Any, mask: int, *, steps: int | None = None, seed: int = 0) -> None:
        self.sampler, self.mask, self.steps, self.seed = sampler, mask, steps, seed
        self._seen: tuple[Tensor, Tensor] | None = None  # ids (B, W) and logits (B, W, V) of the last forward pass
        self._fed: Fed | None = None
        self._hook = model.register_forward_hook(self._computed, with_kwargs=True)

    def __enter__(self) -> Callback:
        return self

    def __exit__(self, *error: object) -> None:
        self._hook.remove()

    def _computed(self, model: nn.Module, args: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
        self._seen = (
            args[0] if args else options["input_ids"],
            output.logits if hasattr(output, "logits") else output[0],
        )

    def __call__(self, pipe: Any, step: int, time: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if self._seen is None:
            raise UnmaskError("the pipeline has made no forward pass of the model. Pass the model of this pipeline")
        window, (ids, logits) = tensors["block_x"], self._seen
        if self._fed is None or not self._fed.ids.equal(ids.cpu()):  # another block
            options: dict[str, Any] = {"steps": self.steps, "seed": self.seed}
            self._fed = Fed(self.sampler, ids, self.mask, logits.shape[-1], **options)
        return {"block_x": self._fed.feed(logits)[:, -window.shape[1] :].to(window)}
