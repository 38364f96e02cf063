"""Which models of transformers load without a card: small random ones, saved by `save_pretrained`, and what they say.

    python -m benchmarks.architectures            the tables of docs/open-models.md

The difference is the largest one of a probability from that of the library's own forward pass, in float32: of hidden
tokens in their frame, in a short text and in one of the full context; or of two texts of the full context,
read from left to right.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from unmask import UnmaskError, load
from unmask.models.open.model import OpenModel

MASKED = (
    "albert bart bert big_bird camembert convbert data2vec-text deberta deberta-v2 distilbert electra ernie esm "
    "eurobert flaubert fnet ibert layoutlm longformer luke megatron-bert modernbert mpnet nystromformer rembert "
    "roberta roberta-prelayernorm roformer squeezebert xlm xlm-roberta xlm-roberta-xl"
)
CAUSAL = (
    "biogpt bloom codegen cohere falcon gemma gemma2 gemma3_text glm gpt2 gpt_bigcode gpt_neo gpt_neox gptj "
    "granite llama mamba mistral mixtral mpt olmo2 opt phi phi3 qwen2 qwen3 qwen3_moe smollm3 stablelm starcoder2"
)
KINDS = {"masked": MASKED.split(), "causal": CAUSAL.split()}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TEXT = "the cat sat on a mat and saw you in that house of red wood by night . , x"
WORDS = (*SPECIAL, *TEXT.split())
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
MOST = 1e-6  # a larger difference is not that of another order of additions


class Row(NamedTuple):
    name: str
    reads: str  # how it reads a text, or why it is refused
    context: int = 0  # tokens of a sequence
    difference: float | None = None  # None: refused

    def __str__(self) -> str:
        numbers = " | | " if self.difference is None else f" | {self.context} | {self.difference:.0e} "
        return f"| {self.name} | {self.reads}{numbers}|"


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


def made(kind: str, directory: Path, **options: Any) -> Any:
    """A small random model of transformers; saved with its tokenizer."""
    import transformers

    torch.manual_seed(0)
    auto = transformers.AutoModelForMaskedLM if kind in KINDS["masked"] else transformers.AutoModelForCausalLM
    usual = transformers.AutoConfig.for_model(kind)
    sizes = {name: size for name, size in SIZES.items() if hasattr(usual, name)} | OWN.get(kind, {})
    model = auto.from_config(transformers.AutoConfig.for_model(kind, **sizes)).float().eval()
    for weight in model.parameters():  # of random weights a model says next to nothing
        torch.nn.init.normal_(weight, std=0.2)
    model.tie_weights()
    model.save_pretrained(directory, **options)
    tokenizer(directory)
    return model


@torch.no_grad()
def apart(ours: OpenModel, theirs: Any) -> float:
    """The largest difference between the probabilities of a loaded model and the library's."""
    rng, worst = torch.Generator().manual_seed(1), 0.0
    if ours.card.causal:
        length = min(ours.length, CONTEXT)
        tokens = torch.randint(5, len(WORDS), (2, length), generator=rng)
        start = torch.full((2, 1), ours.vocabulary)
        said = ours.causal(2, length).extend(torch.cat([start, tokens[:, :-1]], 1)).dense()
        begins = [ours.start] if ours.begins else []  # else the first token is not predicted from the start
        read = torch.cat([tokens.new_tensor(begins).expand(2, -1), tokens[:, :-1]], 1)
        expected = theirs(read).logits.softmax(-1).flatten(0, 1)
        said = said.view(2, length, -1)[:, 1 - len(begins) :].flatten(0, 1)
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


def tried(kind: str, change: Callable[[Path], object] = lambda directory: None, name: str = "", **how: Any) -> Row:
    """A model whose files are changed after they are saved; how: options of save_pretrained."""
    with tempfile.TemporaryDirectory() as place:
        theirs = made(kind, Path(place), **how)
        change(Path(place))
        label = name or f"`{kind}`"
        try:
            ours = load(place)
        except UnmaskError as error:
            return Row(label, str(error).replace(place, "DIR"))
        assert isinstance(ours, OpenModel)
        reads = "both sides" if not ours.card.causal else "left to right, KV cache" if ours.body.sizes else "prefixes"
        return Row(label, reads, ours.length, apart(ours, theirs))


def weights(change: Callable[[dict[str, Tensor]], dict[str, Tensor]], file: str = "model.safetensors") -> Any:
    """A change of the tensors of a checkpoint, and the name of their new file."""

    def changed(directory: Path) -> None:
        tensors = change(load_file(directory / "model.safetensors"))
        (directory / "model.safetensors").unlink()
        if file.endswith(".bin"):
            torch.save(tensors, directory / file)
        else:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, directory / file)

    return changed


def renamed(old: str, new: str) -> Any:
    return weights(lambda tensors: {name.replace(old, new): tensor for name, tensor in tensors.items()})


def entries(file: str, **changed: Any) -> Any:
    """A change of the entries of a JSON file."""

    def write(directory: Path) -> None:
        path = directory / file
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return write


def without(*files: str, words: bool = False, empty: bool = False) -> Any:
    """A directory without some files; words: with a vocab.txt; empty: with a tokenizer_config.json without entries."""

    def remove(directory: Path) -> None:
        for file in files:
            (directory / file).unlink()
        if words:
            (directory / "vocab.txt").write_text("\n".join(WORDS) + "\n")
        if empty:
            (directory / "tokenizer_config.json").write_text("{}")

    return remove


BUFFERS = {"transformer.h.0.attn.masked_bias": torch.tensor(-1e4), "transformer.h.0.attn.bias": torch.ones(4, 4)}
BOTH = ("tokenizer.json", "tokenizer_config.json")
PECULIAR: dict[str, tuple[Any, ...]] = {  # what is peculiar: the kind, and the change of its files
    "pytorch_model.bin, read as tensors alone": ("bert", weights(dict, "pytorch_model.bin")),
    "several files of weights": ("bert", without(), {"max_shard_size": "20KB"}),
    "bfloat16 weights": ("gpt2", weights(lambda all: {name: one.bfloat16() for name, one in all.items()})),
    "a copy of a tied head": ("gpt2", weights(lambda all: all | {"lm_head.weight": all["transformer.wte.weight"] + 0})),
    "buffers of old releases": ("gpt2", weights(lambda all: all | BUFFERS)),
    "names without `transformer.`": ("gpt2", renamed("transformer.", "")),
    "`gamma` and `beta` in place of weight and bias": ("bert", renamed("LayerNorm.weight", "LayerNorm.gamma")),
    "a head of another task": ("bert", weights(lambda all: all | {"cls.seq_relationship.weight": torch.zeros(2, 32)})),
    "an end beyond the vocabulary": ("gpt2", entries("config.json", eos_token_id=50256)),
    "several ends": ("llama", entries("config.json", eos_token_id=[3, 7])),
    "a mask beyond the vocabulary in config.json": ("eurobert", entries("config.json", mask_token_id=128002)),
    "no name of an architecture": ("bert", entries("config.json", architectures=None)),
    "tokenizer.json alone": ("bert", without("tokenizer_config.json")),
    "vocab.txt alone": ("bert", without(*BOTH, words=True)),
    "vocab.txt, where the type has other files": ("gpt2", without(*BOTH, words=True)),
    "no tokenizer: an AR model": ("gpt2", without(*BOTH)),
    "no tokenizer: a masked model": ("bert", without(*BOTH)),
    "a tokenizer without words": ("gpt2", without(*BOTH, empty=True)),
    "a missing weight": ("bert", weights(lambda all: dict(list(all.items())[1:]))),
    "a vocabulary larger than the weights": ("llama", entries("config.json", vocab_size=ROWS + 1)),
}


def peculiar(name: str) -> Row:
    kind, change, *how = PECULIAR[name]
    return tried(kind, change, name, **(how[0] if how else {}))


def grouped(rows: list[Row]) -> str:
    """A line for each way to read a text: its architectures, and the largest difference of their probabilities."""
    lines = ["| a text is read | architectures | largest difference |", "|---|---|---|"]
    for reads in dict.fromkeys(row.reads for row in rows):
        some = [row for row in rows if row.reads == reads]
        worst = max(row.difference or 0.0 for row in some)
        lines.append(f"| {reads} | {', '.join(row.name for row in some)} | {worst:.0e} |")
    return "\n".join(lines)


if __name__ == "__main__":
    import transformers

    transformers.utils.logging.set_verbosity(transformers.utils.logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    print(grouped([tried(kind) for kinds in KINDS.values() for kind in kinds]), end="\n\n")
    print("| peculiar | it is read, or refused | tokens | difference |", "|---|---|---|---|", sep="\n")
    print(*(peculiar(name) for name in PECULIAR), sep="\n")
