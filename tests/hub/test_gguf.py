"""Models in GGUF files: numbers of 4 and 8 bits one by one, and a Llama written as llama.cpp writes it."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest
import torch

from tests.hub.small import V
from unmask import UnmaskError, hub
from unmask.hub.decoder import Decoder, Shape
from unmask.hub.gguf import KINDS, Packed
from unmask.text import gguf
from unmask.text.published import LETTERS

SYMBOLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *LETTERS]
SHAPE = Shape(
    vocabulary=len(SYMBOLS), hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, inner=96, context=32, tied=True
)
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.layers": "blk",
}


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def entry(name, value):
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", 6, value)
    if isinstance(value, list):
        return text(name) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return text(name) + struct.pack("<II", 4, value)


def file_of(values, tensors):
    """tensors: name to (shape, kind, raw)."""
    entries = [entry(*pair) for pair in values.items()]
    infos, data = [], b""
    for name, (shape, kind, raw) in tensors.items():
        sizes = shape[::-1]
        infos.append(text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(data)))
        data += raw + b"\0" * (-len(raw) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(entries)) + b"".join(entries) + b"".join(infos)
    return head + b"\0" * (-len(head) % 32) + data


def half(raw):
    return float(np.frombuffer(raw, np.float16)[0])


def plainly(kind, raw):
    """The numbers of one group of 32, one by one."""
    if kind == "Q8_0":
        return [half(raw[:2]) * q for q in struct.unpack("32b", raw[2:])]
    begin, shift, least = (4, 0, half(raw[2:4])) if kind == "Q4_1" else (2, 8, 0.0)
    out = []
    for index in range(32):
        byte = raw[begin + index % 16]
        q = byte & 15 if index < 16 else byte >> 4
        out.append(half(raw[:2]) * (q - shift) + least)
    return out


@pytest.mark.parametrize("number", KINDS)
def test_each_type_number_by_number(tmp_path, number):
    kind = KINDS[number]
    rng = np.random.default_rng(number)
    if kind.numbers == 1:
        floats = rng.normal(size=(4, 64)).astype(np.float32)
        kept = {
            "F32": floats,
            "F16": floats.astype(np.float16),
            "BF16": (floats.view(np.uint32) >> 16).astype(np.uint16),
        }
        raw = kept[kind.name].tobytes()
        expected = floats if kind.name == "F32" else floats.astype(np.float16).astype(np.float32)
        if kind.name == "BF16":
            expected = (
                torch.from_numpy((floats.view(np.uint32) & 0xFFFF0000).view(np.float32)).bfloat16().float().numpy()
            )
    else:
        groups = []
        for _ in range(4 * 64 // 32):
            scales = rng.normal(size=2).astype(np.float16)[: 2 if kind.name == "Q4_1" else 1].tobytes()
            groups.append(scales + rng.integers(0, 256, kind.size - len(scales), dtype=np.uint8).tobytes())
        raw = b"".join(groups)
        expected = np.array([plainly(kind.name, group) for group in groups], np.float32).reshape(4, 64)
    (tmp_path / "one.gguf").write_bytes(file_of({"a": 1}, {"w": ((4, 64), number, raw)}))
    found = Packed(tmp_path / "one.gguf").read("w")
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=1e-6, atol=1e-6)


def paired(weight, heads):
    """Rows as llama.cpp has them: position 2 i of a head holds i, position 2 i + 1 holds i + D / 2."""
    width = weight.shape[0] // heads
    out = torch.empty_like(weight)
    for head in range(heads):
        for index in range(width):
            from_half = index // 2 + (width // 2 if index % 2 else 0)
            out[head * width + index] = weight[head * width + from_half]
    return out


@pytest.fixture
def model(tmp_path):
    """(a file, the body that it was made of)"""
    torch.manual_seed(0)
    body = Decoder(SHAPE).eval().requires_grad_(False)
    tensors = {}
    for name, weight in body.state_dict().items():
        theirs = name
        for ours, place in NAMES.items():
            theirs = theirs.replace(ours, place)
        if "q_proj" in name or "k_proj" in name:
            weight = paired(weight, SHAPE.heads if "q_proj" in name else SHAPE.kv_heads)
        tensors[theirs] = (tuple(weight.shape), 0, weight.numpy().tobytes())
    values = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.embedding_length": 64,
        "llama.feed_forward_length": 96,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.context_length": 32,
        "llama.vocab_size": SHAPE.vocabulary,
        "llama.attention.layer_norm_rms_epsilon": 1e-6,
        "tokenizer.ggml.tokens": SYMBOLS,
        "tokenizer.ggml.merges": [],
    }
    path = tmp_path / "small.gguf"
    path.write_bytes(file_of(values, tensors))
    return path, body


def test_a_llama_says_what_it_was_made_of(model):
    path, body = model
    found = hub.load_model(path, card="smollm2-135m-instruct")
    tokens = torch.arange(9)[None] * 7
    ours, made = (each.logits(each.states(tokens, None, None, None)) for each in (found.body, body))
    torch.testing.assert_close(ours, made, rtol=0, atol=1e-6)
    assert found.tokenizer.decode(found.tokenizer.encode("x y")) == "x y"
    assert found.vocabulary == SHAPE.vocabulary != V


def test_files_that_are_not_whole(model, tmp_path):
    path, _ = model
    whole = path.read_bytes()
    for number, (content, message) in enumerate(
        (
            (whole[:-64], "ends within"),
            (whole[:200], "is not a complete GGUF file"),
            (
                whole.replace(b"llama.block_count", b"llama.clock_count"),
                r"bad2\.gguf: layers is None; expected a whole number",
            ),
            (whole.replace(b"blk.1.attn_q.weight", b"blk.1.attn_x.weight"), "no 'blk.1.attn_q.weight'"),
            (b"GGML" + whole[4:], "does not begin with GGUF"),
        )
    ):
        bad = tmp_path / f"bad{number}.gguf"
        bad.write_bytes(content)
        with pytest.raises(UnmaskError, match=message):
            hub.load_model(bad, card="smollm2-135m-instruct")


def test_a_header_is_read_once_while_its_file_stays(model, monkeypatch):
    """And again where it was written just now, or since."""
    path, _ = model
    reads = []
    real = gguf._header
    monkeypatch.setattr(gguf, "_header", lambda file: reads.append(1) or real(file))
    fresh = [gguf.read_header(path) for _ in range(2)]
    assert (len(reads), fresh[0]) == (2, fresh[1])
    os.utime(path, (10**9, 10**9))
    kept = [gguf.read_header(path) for _ in range(3)]
    assert len(reads) == 3
    assert kept[0] is kept[2]
    path.write_bytes(path.read_bytes().replace(b"llama.block_count", b"llama.clock_count"))
    os.utime(path, (10**9 + 1, 10**9 + 1))
    assert "llama.clock_count" in gguf.read_header(path).values
