"""Cards of published checkpoints: facts that their files lack, and recipes with their source.

A row is a repository with the fields that it shares with its relatives. The name of a card is the end of its
repository, in lower case.
"""

from __future__ import annotations

import json
from typing import Any

from unmask.models.open.card import CARDS, Card, Recipe, Tokens

Fields = dict[str, Any]


def recipe(sampler: str, options: str, source: str, name: str = "published") -> Recipe:
    quoted = f'"{sampler}"' if "(" in sampler else sampler
    return Recipe(name, f"--sampler {quoted} {options}", source)


def by_blocks(block: int, length: int, source: str) -> Fields:
    """The most likely token of a block in each step."""
    return {"recipes": (recipe(f"llada(block_length={block})", f"--steps {length} --length {length}", source),)}


def by_entropy(count: int, temperature: float, source: str) -> Fields:
    """A step per token; the options of the published commands."""
    options = f"--steps {count} --length {count} --temperature {temperature} --top-p 0.95"
    return {"recipes": (recipe("dream(alg=entropy)", options, source),)}


def by_threshold(editing: tuple[float, ...] = ()) -> Fields:
    """Recipes of LLaDA2; editing: from 2.1 on, the probabilities at which another token replaces a written one."""
    source, recipes = "github.com/inclusionAI/LLaDA2.X: generate() of its model, and the table of diffusers", []
    for number, (name, threshold) in enumerate((("published", 0.95), ("quality", 0.7), ("speed", 0.5))):
        rule = f"threshold(threshold={threshold}, temperature=0)"
        if editing:
            rule = f"token-editing(threshold={threshold}, editing={editing[number]}, temperature=0)"
        recipes.append(recipe(f"blocks(block_length=32, inner={rule})", "--length 2048", source, name))
    return {"recipes": tuple(recipes)}


LLADA: Fields = {
    "family": "llada",
    "licence": "MIT",
    "billions": 8,
    "tokens": Tokens(mask=126336, eos=126081, pad=126081, bos=126080, end_of_turn=126348),
    "template": "llada",
    "traps": (
        "the end token is confident early: without blocks it fills many positions (GSM8K 69% instead of 79%)",
        "classifier-free guidance of the published loop fails without an attention mask",
    ),
}
LLADA |= by_blocks(128, 128, "github.com/ML-GSAI/LLaDA: defaults of generate.py; its demonstration uses blocks of 32")
LLADA_BASE = LLADA | {
    "template": None,
    "traps": ("a base model without a chat template; it needs a few examples in the prompt",),
}

SMDM_SIZES = {"n_layer": 20, "n_head": 14, "n_embd": 1792, "intermediate_size": 7168, "vocab_size": 32000}
SMDM_CONFIG = json.dumps({"model_type": "smdm"} | SMDM_SIZES)
SMDM_SOURCE = "github.com/ML-GSAI/SMDM: evaluate_gsm8k.py, which generates a chain first and then its answer"
SMDM_RULE = "dream(alg=greddy, eps=1e-5, temperature=0.1)"
SMDM: Fields = {
    "name": "smdm-1.1b",
    "family": "smdm",
    "licence": "MIT",
    "billions": 1.1,
    "tokens": Tokens(mask=32000, eos=2, bos=1),
    "context": 2048,
    "recipes": (recipe(SMDM_RULE, "--steps 256 --length 256 --guidance 0.1", SMDM_SOURCE, "gsm8k"),),
    "traps": (
        "its published loop ranks positions of all rows of a batch together; the recipe is that loop for one row",
        "its repository has only weights: save mdm_safetensors/mdm-1028M-*.safetensors as model.safetensors",
        f"add the tokenizer of TinyLlama and a config.json: {SMDM_CONFIG}",
        "the mask, 32000, is a row of the embedding without a row of the head",
        "its rotary positions are rounded to bfloat16, also with other types of weights",
    ),
}

OWT: Fields = {
    "licence": "Apache-2.0",
    "billions": 0.17,
    "tokens": Tokens(mask=50257, eos=50256, pad=50256, bos=50256),
    "context": 1024,
    "traps": (
        "its repository lacks its tokenizer: add tokenizer.json of openai-community/gpt2",
        "that tokenizer has no mask: it is 50257, the last row",
        "trained under bfloat16 autocast; the published code needs flash-attn and CUDA",
        "its logits include the mask; in the published code the caller removes it",
    ),
}
MDLM = OWT | {
    "family": "mdlm",
    "recipes": (recipe("as-published-mdlm", "--steps 1000 --length 1024", "github.com/kuleshov-group/mdlm: README"),),
}
BD3LM_TRAPS = (
    "published samples begin with the end of text (50256), and use a sliding window beyond 1024",
    "the published top-p drops the token that crosses p, unless it is the first; --top-p keeps it",
)
WHOLE_TRAP = "one block of 1024: the initial weights of the block models"


def bd3lm(block: int) -> Fields:
    rule = f"blocks(block_length={block}, inner=first-hitting, nucleus=0.9)"
    source = "github.com/kuleshov-group/bd3lms: README"
    named = {"name": f"bd3lm-owt-block{block}", "family": "bd3lm", "block": block}
    return OWT | named | {"recipes": (recipe(rule, "--length 1024", source),), "traps": (*OWT["traps"], *BD3LM_TRAPS)}


DREAM: Fields = {  # arXiv 2508.15487
    "family": "dream",
    "licence": "Apache-2.0",
    "billions": 7.6,
    "prediction": "shifted",
    "context": 2048,
    "tokens": Tokens(mask=151666, eos=151643, pad=151643, bos=151643, end_of_turn=151645),
    "traps": (
        "with one step per token its published loop reveals nothing in the first step and two tokens in the last",
    ),
}
DREAM |= by_entropy(512, 0.2, "github.com/DreamLM/Dream: README")
CODER = DREAM | {  # arXiv 2509.01142
    "tokens": Tokens(mask=151666, eos=151643, pad=151643, bos=151665, end_of_turn=151645),
    "traps": ("its texts begin with token 151665, not with Dream's 151643",),
}
CODER |= by_entropy(768, 0.1, "github.com/DreamLM/Dream-Coder: README")
APPLE = "github.com/apple/ml-diffucoder: README"
DIFFUCODER = DREAM | {  # arXiv 2506.20639
    "licence": "Apple AMLR (research only)",
    "tokens": Tokens(mask=151666, eos=151643, pad=151643, end_of_turn=151645),
    "template": "qwen2",
    "traps": ("its padding is 151643 in config.json and 151667 in its tokenizer; neither is used here",),
}
DIFFUCODER |= by_entropy(256, 0.3, APPLE)

DLLM: Fields = {"licence": "Apache-2.0", "context": 32768}
DLLM_QWEN3 = DLLM | {
    "family": "qwen3",
    "billions": 0.6,
    "tokens": Tokens(mask=151669, eos=151645, pad=151643, end_of_turn=151645),
    "template": "qwen3",
}
QWEN2 = DLLM | {"tokens": Tokens(mask=151665, eos=151645, pad=151643, end_of_turn=151645), "template": "qwen2"}
DLLM_QWEN2 = QWEN2 | {"family": "qwen2", "billions": 0.5}
A2D = "github.com/ZHZisZZ/dllm: examples/a2d"
WHOLE = by_blocks(256, 256, A2D)
BLOCKS = by_blocks(32, 256, A2D) | {
    "block": 32,
    "traps": ("its published blocks begin after the prompt; in unmask they are counted from its first token",),
}
FAST = QWEN2 | {  # arXiv 2509.26328
    "family": "fast-dllm",
    "prediction": "shifted",
    "block": 32,
    "recipes": (
        recipe(
            "blocks(block_length=8, first=32, inner=threshold(threshold=0.9, temperature=0))",
            "--length 512",
            "github.com/NVlabs/Fast-dLLM: v2: README; its evaluation uses threshold 1, one token per step",
        ),
    ),
    "traps": (
        "blocks, and their parts of 8, are counted from the first token of the prompt",
        "its own chat template adds the system message of Qwen2.5 by default; that of unmask does not",
        "the published loop ignores a prompt of exactly 32 tokens; unmask uses it",
    ),
}

SDAR_SOURCE = "github.com/JetAstra/SDAR: README"
SDAR_TRAPS = (
    "blocks are counted from the first token of the prompt, so the first written block may be shorter",
    "the published generate.py fails at its start: it uses its arguments before it parses them",
)


def sdar(billions: float, block: int = 4, **own: Any) -> Fields:
    rule = f"blocks(block_length={block}, inner=threshold(threshold=0.9, temperature=0))"
    other = f"{SDAR_SOURCE}; generate.py has 0.85; for 3 steps per block of 4 add counts=(2, 1, 1)"
    static = by_blocks(block, 512, f"{SDAR_SOURCE}: one step per token")["recipes"][0]
    return {
        "family": "sdar-moe" if billions == 30 else "sdar",
        "licence": "Apache-2.0",
        "billions": billions,
        "tokens": Tokens(mask=151669, eos=151643, pad=151643, end_of_turn=151645),
        "block": block,
        "context": 32768,
        "template": "chatml",
        "recipes": (
            Recipe("static", static.options, static.source),
            recipe(rule, "--length 512", other, "dynamic"),
        ),
        "traps": SDAR_TRAPS,
    } | own


TRADO: Fields = {"licence": "MIT"}

LLADA2: Fields = {
    "family": "llada2",
    "licence": "Apache-2.0",
    "tokens": Tokens(mask=156895, eos=156892, pad=156892),
    "block": 32,
    "context": 32768,
    "template": "ling",
    "traps": (
        "blocks are counted from the first token of the prompt, so the first written block is shorter",
        "from 2.1 on the published loop also changes written tokens (editing_threshold): sampler token-editing",
        "for fewer steps than the block use threshold(least=32 / steps), or counts=(..) if they do not divide 32",
        "2.1 was compared only with the page of diffusers, where an editing_threshold of 0 means no editing",
        "2.2 also inserts and deletes tokens, which is not supported; its numbers were not checked",
    ),
}
EDITING = LLADA2 | by_threshold((0.9, 0.5, 0.0))
LLADA2 |= by_threshold()

ROWS: dict[str, Fields] = {
    "GSAI-ML/LLaDA-8B-Base": LLADA_BASE,
    "GSAI-ML/LLaDA-8B-Instruct": LLADA,
    "GSAI-ML/LLaDA-1.5": LLADA,
    "nieshen/SMDM": SMDM,
    "kuleshov-group/mdlm-owt": MDLM,
    "kuleshov-group/mdlm-no_flashattn-fp32-owt": MDLM,
    **{f"kuleshov-group/bd3lm-owt-block_size{block}": bd3lm(block) for block in (4, 8, 16)},
    "kuleshov-group/bd3lm-owt-block_size1024-pretrain": OWT
    | {"name": "bd3lm-owt-pretrain", "family": "bd3lm", "traps": (*OWT["traps"], WHOLE_TRAP)},
    "Dream-org/Dream-v0-Base-7B": DREAM,
    "Dream-org/Dream-v0-Instruct-7B": DREAM | {"template": "qwen2"},
    "Dream-org/Dream-Coder-v0-Base-7B": CODER,
    "Dream-org/Dream-Coder-v0-Instruct-7B": CODER | {"template": "qwen2"},
    "apple/DiffuCoder-7B-Base": DIFFUCODER | {"template": None} | by_entropy(256, 0.2, APPLE),
    "apple/DiffuCoder-7B-Instruct": DIFFUCODER,
    "apple/DiffuCoder-7B-cpGRPO": DIFFUCODER,
    "dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1": DLLM_QWEN3 | WHOLE | {"name": "qwen3-0.6b-diffusion-mdlm"},
    "dllm-hub/Qwen3-0.6B-diffusion-bd3lm-v0.1": DLLM_QWEN3 | BLOCKS | {"name": "qwen3-0.6b-diffusion-bd3lm"},
    "dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-v0.1": DLLM_QWEN2
    | WHOLE
    | {"name": "qwen2.5-coder-0.5b-diffusion-mdlm"},
    "dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-bd3lm-v0.1": DLLM_QWEN2
    | BLOCKS
    | {"name": "qwen2.5-coder-0.5b-diffusion-bd3lm"},
    "Efficient-Large-Model/Fast_dLLM_v2_1.5B": FAST | {"name": "fast-dllm-v2-1.5b", "billions": 1.5},
    "Efficient-Large-Model/Fast_dLLM_v2_7B": FAST | {"name": "fast-dllm-v2-7b", "billions": 7.6},
    **{f"JetLM/SDAR-{size}B-Chat": sdar(size) for size in (1.7, 4, 8)},
    **{f"JetLM/SDAR-30B-A3B-{kind}": sdar(30) for kind in ("Chat", "Sci")},
    "Gen-Verse/TraDo-4B-Instruct": sdar(4) | TRADO,
    "Gen-Verse/TraDo-8B-Instruct": sdar(8) | TRADO,
    "Gen-Verse/TraDo-8B-Thinking": sdar(8) | TRADO,
    **{f"JetLM/SDAR-{size}B-Chat-b{block}": sdar(size, block) for block in (8, 16, 32, 64) for size in (1.7, 4, 8)},
    "JetLM/SDAR-30B-A3B-Chat-b32": sdar(30, 32),
    "inclusionAI/LLaDA2.0-mini": LLADA2 | {"billions": 16},
    "inclusionAI/LLaDA2.0-flash": LLADA2 | {"billions": 100},
    "inclusionAI/LLaDA2.0-mini-CAP": LLADA2 | {"billions": 16},
    "inclusionAI/LLaDA2.0-flash-CAP": LLADA2 | {"billions": 100},
    "inclusionAI/LLaDA2.1-mini": EDITING | {"billions": 16},
    "inclusionAI/LLaDA2.1-flash": EDITING | {"billions": 100},
    "inclusionAI/LLaDA2.2-flash": EDITING | {"billions": 100},
}
for repository, fields in ROWS.items():
    own: Fields = {"name": repository.rpartition("/")[2].lower(), "repository": repository}
    card = Card(**(own | fields))
    CARDS[card.name] = card
