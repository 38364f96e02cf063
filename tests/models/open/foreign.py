"""Small random models of transformers with a tokenizer, as their library saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TEXT = "the cat sat on a mat and saw you in that house of red wood by night . , x"
WORDS = (*SPECIAL, *TEXT.split())
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
V = 40  # rows of the head, more than the tokenizer has symbols


def tokenizer(directory: Path, framed: bool = True) -> None:
    import tokenizers
    import transformers
    from tokenizers import decoders, models, pre_tokenizers, processors

    coder = tokenizers.Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    coder.pre_tokenizer, coder.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece()
    if framed:
        form = {"single": "[CLS] $A [SEP]", "special_tokens": [("[CLS]", 2), ("[SEP]", 3)]}
        coder.post_processor = processors.TemplateProcessing(**form)
    roles = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    if not framed:
        roles = {"unk_token": "[UNK]", "eos_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=coder, **roles).save_pretrained(directory)


def made(kind: str, directory: Path, **options: Any) -> Any:
    """A model of transformers with random weights, saved in a directory with its tokenizer."""
    import transformers

    torch.manual_seed(0)
    model_kind = getattr(transformers, kind)
    sizes = {"vocab_size": V, "max_position_embeddings": 64, "pad_token_id": 0, "eos_token_id": 3, "bos_token_id": None}
    model = model_kind(model_kind.config_class(**(SIZES | sizes | options))).eval()
    for weight in model.parameters():  # of random weights a model says next to nothing
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(directory)
    tokenizer(directory, framed="Causal" not in kind)
    return model
