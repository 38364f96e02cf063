"""Which models of transformers load without a card: small random ones, saved by `save_pretrained`, and what they say.

    python -m benchmarks.architectures            the tables of docs/open-models.md

A row's `difference` is the largest one of a probability from that of the library's own forward pass, in float32: of
hidden tokens in their frame, in a short text and in one of the full context; or of a text read from left to right, two
rows of unequal lengths.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import torch

from unmask import UnmaskError, load
from unmask.models.open.model import OpenModel

MASKED = [
    "albert",
    "bert",
    "big_bird",
    "camembert",
    "convbert",
    "data2vec-text",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "esm",
    "fnet",
    "ibert",
    "megatron-bert",
    "modernbert",
    "mpnet",
    "nystromformer",
    "rembert",
    "roberta",
    "roberta-prelayernorm",
    "roformer",
    "squeezebert",
    "xlm-roberta",
    "xlm-roberta-xl",
]
CAUSAL = [
    "biogpt",
    "bloom",
    "codegen",
    "cohere",
    "falcon",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm",
    "gpt2",
    "gpt_bigcode",
    "gpt_neo",
    "gpt_neox",
    "gptj",
    "granite",
    "llama",
    "mamba",
    "mistral",
    "mixtral",
    "mpt",
    "olmo2",
    "opt",
    "phi",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "smollm3",
    "stablelm",
    "starcoder2",
]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    *SPECIAL,
    *[
        "the",
        "cat",
        "sat",
        "on",
        "a",
        "mat",
        "and",
        "saw",
        "you",
        "in",
        "that",
        "house",
        "of",
        "red",
        "wood",
        "by",
        "night",
        ".",
        ",",
        "x",
    ],
)
ROWS, CONTEXT = 40, 40  # of the head, more than the tokenizer has words; positions
SIZES = {
    "vocab_size": ROWS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
OWN: dict[str, dict[str, Any]] = {  # sizes that a few have under other names
    "codegen": {"rotary_dim": 8},
    "gptj": {"rotary_dim": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "squeezebert": {"embedding_size": 32},
}


class Row(NamedTuple):
    name: str
    model: str  # the library's class
    context: int | None  # tokens of a sequence; None: refused
    reads: str  # how a text is read
    difference: float | None
    why: str = ""  # it is refused

    def __str__(self) -> str:
        said = self.why if self.difference is None else f"{self.reads}, {self.context} tokens, {self.difference:.0e}"
        return f"| {self.name} | {self.model} | {said} |"


def tokenizer(directory: Path) -> None:
    import tokenizers
    import transformers
    from tokenizers import decoders, models, pre_tokenizers, processors

    coder = tokenizers.Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    coder.pre_tokenizer, coder.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece()
    form = {"single": "[CLS] $A [SEP]", "special_tokens": [("[CLS]", 2), ("[SEP]", 3)]}
    coder.post_processor = processors.TemplateProcessing(**form)
    roles = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    transformers.PreTrainedTokenizerFast(tokenizer_object=coder, **roles).save_pretrained(directory)


def made(kind: str, family: str, directory: Path, **options: Any) -> Any:
    """A small random model of transformers, saved with its tokenizer."""
    import transformers

    torch.manual_seed(0)
    auto = transformers.AutoModelForMaskedLM if family == "masked" else transformers.AutoModelForCausalLM
    usual = transformers.AutoConfig.for_model(kind)
    sizes = {name: size for name, size in SIZES.items() if hasattr(usual, name)} | OWN.get(kind, {}) | options
    model = auto.from_config(transformers.AutoConfig.for_model(kind, **sizes)).float().eval()
    for weight in model.parameters():  # of random weights a model says next to nothing
        torch.nn.init.normal_(weight, std=0.2)
    model.tie_weights()
    model.save_pretrained(directory)
    tokenizer(directory)
    return model


@torch.no_grad()
def apart(ours: OpenModel, theirs: Any) -> float:
    """The largest difference between the probabilities of a loaded model and the library's."""
    rng, worst = torch.Generator().manual_seed(1), 0.0
    if ours.card.causal:
        tokens = torch.randint(5, len(WORDS), (2, 12), generator=rng)
        said = ours.causal(2, 12).extend(torch.cat([torch.full((2, 1), ours.vocabulary), tokens[:, :-1]], 1)).dense()
        begins = [ours.start] if ours.begins else []
        read = torch.cat([tokens.new_tensor(begins).expand(2, -1), tokens], 1)
        expected = theirs(read).logits.softmax(-1)[:, :-1].flatten(0, 1)
        said = said.view(2, 12, -1)[:, 1 - len(begins) :].flatten(0, 1)
        return float((said - expected).abs().max())
    before, after = (torch.tensor(part, dtype=torch.int64) for part in ours.card.frame)
    never = [*range(len(SPECIAL)), *range(len(WORDS), ROWS)]
    for length in (7, ours.length):
        row = torch.randint(5, len(WORDS), (length,), generator=rng)
        row[1::3] = ours.vocabulary
        hidden = (row == ours.vocabulary).nonzero()[:, 0]
        said = ours.engine(row[None].clone()).at(torch.zeros_like(hidden), hidden, None).dense()
        read = torch.cat([before, row.where(row < ours.vocabulary, torch.tensor(ours.mask)), after])
        logits = theirs(read[None]).logits[0, hidden + len(before)]
        logits[:, never] = -torch.inf
        worst = max(worst, float((said - logits.softmax(-1)).abs().max()))
    return worst


def tried(kind: str, family: str) -> Row:
    with tempfile.TemporaryDirectory() as place:
        theirs = made(kind, family, Path(place))
        name = type(theirs).__name__
        try:
            ours = load(place)
        except UnmaskError as error:
            return Row(kind, name, None, "", None, str(error).replace(place, "DIR"))
        assert isinstance(ours, OpenModel)
        cached = "our KV cache" if ours.body.sizes else "each prefix again"
        return Row(kind, name, ours.length, "both sides" if family == "masked" else cached, apart(ours, theirs))


if __name__ == "__main__":
    import transformers

    transformers.utils.logging.set_verbosity(50)
    transformers.utils.logging.disable_progress_bar()
    kinds = sys.argv[1:]
    for family, names in (("masked", MASKED), ("causal", CAUSAL)):
        for kind in names:
            if not kinds or kind in kinds:
                try:
                    print(tried(kind, family), flush=True)
                except Exception as e:
                    print(kind, "EXC", type(e).__name__, str(e)[:300])
