"""Networks of unmask as models of transformers: importing this module registers them with its Auto classes.

    import unmask.models.trained.huggingface
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    mdm = AutoModelForMaskedLM.from_pretrained(directory)  # logits (B, L, V) of tokens (B, L), V where hidden
    ar = AutoModelForCausalLM.from_pretrained(directory)  # a sequence begins with symbol V; `generate` has no KV cache

These models and `networks.load` read the same directories.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from unmask.core.errors import UnmaskError, needed
from unmask.models.trained.checkpoints import GENERATING, MODEL_TYPE, OTHERS, configuration
from unmask.models.trained.shape import Shape
from unmask.models.trained.trunk import Trunk

with needed("hub", "a network as a model of transformers"):
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForMaskedLM,
        GenerationConfig,
        GenerationMixin,
        PretrainedConfig,
        PreTrainedModel,
    )
    from transformers.modeling_outputs import CausalLMOutput, MaskedLMOutput


AUTO = {"mdm": "AutoModelForMaskedLM", "ar": "AutoModelForCausalLM"}


class UnmaskConfig(PretrainedConfig):  # type: ignore[misc]
    """A shape; its fields also have the names that transformers uses."""

    model_type = MODEL_TYPE
    attribute_map = {  # noqa: RUF012 -- their class declares a plain dict
        "hidden_size": "hidden",
        "num_hidden_layers": "layers",
        "num_attention_heads": "heads",
        "max_position_embeddings": "length",
    }

    def __init__(self, **given: Any) -> None:
        smallest = {"kind": "mdm", "vocabulary": 1, "length": 1, "hidden": 2, "layers": 1, "heads": 1}
        own = [field.name for field in fields(Shape)]
        shape = Shape.from_dict(smallest | {name: given.pop(name) for name in own if name in given})
        for name in own:
            setattr(self, name, getattr(shape, name))
        super().__init__(**({"tie_word_embeddings": False} | given))

    @property
    def vocab_size(self) -> int:
        """Number of input symbols: those of the language, and the mask or start."""
        return self.vocabulary + 1

    @property
    def shape(self) -> Shape:
        return Shape(**{field.name: getattr(self, field.name) for field in fields(Shape)})

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | self.shape.to_dict()

    def to_diff_dict(self) -> dict[str, Any]:
        """The entries that `checkpoints` writes: shape and model type."""
        whole = self.to_dict()
        return {name: whole[name] for name in (*OTHERS, *self.shape.to_dict()) if whole.get(name) is not None}


class Unmask(PreTrainedModel):  # type: ignore[misc]
    """A trunk as a model of transformers."""

    config_class = UnmaskConfig
    base_model_prefix = "trunk"
    kind: str

    def __init__(self, config: UnmaskConfig) -> None:
        if config.kind != self.kind:
            kinds = f"{type(self).__name__} is of kind {self.kind!r}, this network {config.kind!r}"
            raise UnmaskError(f"{kinds}. Use {AUTO[config.kind]}")
        super().__init__(config)
        self.trunk = Trunk(config.shape)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Restore the rotary angles, which no file holds; the trunk has initialised its weights itself."""
        if isinstance(module, Trunk):
            fresh = Trunk(module.shape)
            for name, buffer in module.named_buffers():
                buffer.copy_(fresh.get_buffer(name))

    def get_input_embeddings(self) -> nn.Module:
        return self.trunk.embed

    def set_input_embeddings(self, value: nn.Module) -> None:
        assert isinstance(value, nn.Embedding)
        self.trunk.embed = value


class UnmaskForMaskedLM(Unmask):
    kind = "mdm"

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        time: Tensor | None = None,
        **_: Any,
    ) -> MaskedLMOutput:
        """Logits (B, L, V) of tokens (B, L), V where hidden, and the mean loss over labels other than -100."""
        _check_whole(attention_mask)
        logits = self.trunk(input_ids, time=time)
        loss = None if labels is None else functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits)


class UnmaskForCausalLM(Unmask, GenerationMixin):  # type: ignore[misc]
    kind = "ar"

    def __init__(self, config: UnmaskConfig) -> None:
        super().__init__(config)
        self.generation_config = GenerationConfig(**{name: configuration(config.shape)[name] for name in GENERATING})

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **_: Any
    ) -> CausalLMOutput:
        """Logits (B, K, V) of the token after each of tokens (B, K), where the first is V; labels are shifted here."""
        _check_whole(attention_mask)
        logits = self.trunk(input_ids)
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)


def _check_whole(attention_mask: Tensor | None) -> None:
    if attention_mask is not None and attention_mask.dim() == 2 and not bool(attention_mask.all()):
        raise UnmaskError(
            "attention_mask has zeros; sequences have one length and no padding. Leave attention_mask out"
        )


AutoConfig.register(MODEL_TYPE, UnmaskConfig)
AutoModelForMaskedLM.register(UnmaskConfig, UnmaskForMaskedLM)
AutoModelForCausalLM.register(UnmaskConfig, UnmaskForCausalLM)
