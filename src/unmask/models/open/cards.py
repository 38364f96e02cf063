"""Cards of published checkpoints, one row each: facts that their files lack, and recipes with their source.

The rows of a family share its fields. The name of a card is the end of its repository, in lower case.
"""

from __future__ import annotations

import json
from typing import Any

from unmask.models.open.card import CARDS, Card, Recipe, Tokens


def add(rows: dict[str, dict[str, Any]], **common: Any) -> None:
    """Register a card for each repository; the fields of a row replace the common ones."""
    for repository, own in rows.items():
        name = repository.rpartition("/")[2].lower()
        card = Card(**({"name": name, "repository": repository} | common | own))
        CARDS[card.name] = card


def recipe(sampler: str, options: str, source: str, name: str = "published") -> Recipe:
    quoted = f'"{sampler}"' if "(" in sampler else sampler
    return Recipe(name, f"--sampler {quoted} {options}", source)


def block_recipes(block: int, length: int, source: str) -> tuple[Recipe, ...]:
    """The most likely token of a block in each step."""
    return (recipe(f"llada(block_length={block})", f"--steps {length} --length {length}", source),)


LLADA = "github.com/ML-GSAI/LLaDA: defaults of generate.py; its demonstration uses blocks of 32"
LLADA_BASE = ("a base model without a chat template; it needs a few examples in the prompt",)
add(
    {
        "GSAI-ML/LLaDA-8B-Base": {"template": None, "traps": LLADA_BASE},
        "GSAI-ML/LLaDA-8B-Instruct": {},
        "GSAI-ML/LLaDA-1.5": {},
    },
    family="llada",
    licence="MIT",
    billions=8,
    tokens=Tokens(mask=126336, eos=126081, pad=126081, bos=126080, end_of_turn=126348),
    template="llada",
    recipes=block_recipes(128, 128, LLADA),
    traps=(
        "the end token is confident early: without blocks it fills many positions (GSM8K 69% instead of 79%)",
        "classifier-free guidance of the published loop fails without an attention mask",
    ),
)

SMDM_SIZES = {"n_layer": 20, "n_head": 14, "n_embd": 1792, "intermediate_size": 7168, "vocab_size": 32000}
SMDM_CONFIG = json.dumps({"model_type": "smdm"} | SMDM_SIZES)
add(
    {"nieshen/SMDM": {"name": "smdm-1.1b"}},
    family="smdm",
    licence="MIT",
    billions=1.1,
    tokens=Tokens(mask=32000, eos=2, bos=1),
    context=2048,
    recipes=(
        recipe(
            "dream(alg=greddy, eps=1e-5, temperature=0.1)",
            "--steps 256 --length 256 --guidance 0.1",
            "github.com/ML-GSAI/SMDM: evaluate_gsm8k.py, which generates a chain first and then its answer",
            name="gsm8k",
        ),
    ),
    traps=(
        "its published loop ranks positions of all rows of a batch together; the recipe is that loop for one row",
        "its repository has only weights: save mdm_safetensors/mdm-1028M-*.safetensors as model.safetensors",
        f"add the tokenizer of TinyLlama and a config.json: {SMDM_CONFIG}",
        "the mask, 32000, is a row of the embedding without a row of the head",
        "its rotary positions are rounded to bfloat16, also with other types of weights",
    ),
)

MDLM, BD3LM = "github.com/kuleshov-group/mdlm: README", "github.com/kuleshov-group/bd3lms: README"
OWT = {
    "licence": "Apache-2.0",
    "billions": 0.17,
    "tokens": Tokens(mask=50257, eos=50256, pad=50256, bos=50256),
    "context": 1024,
}
OWT_TRAPS = (
    "its repository lacks its tokenizer: add tokenizer.json of openai-community/gpt2",
    "that tokenizer has no mask: it is 50257, the last row",
    "trained under bfloat16 autocast; the published code needs flash-attn and CUDA",
    "its logits include the mask; in the published code the caller removes it",
)
add(
    {"kuleshov-group/mdlm-owt": {}, "kuleshov-group/mdlm-no_flashattn-fp32-owt": {}},
    family="mdlm",
    recipes=(recipe("as-published-mdlm", "--steps 1000 --length 1024", MDLM),),
    traps=OWT_TRAPS,
    **OWT,
)
for block in (4, 8, 16):
    add(
        {f"kuleshov-group/bd3lm-owt-block_size{block}": {"name": f"bd3lm-owt-block{block}"}},
        family="bd3lm",
        block=block,
        recipes=(recipe(f"blocks(block_length={block}, inner=first-hitting, nucleus=0.9)", "--length 1024", BD3LM),),
        traps=(
            *OWT_TRAPS,
            "published samples begin with the end of text (50256), and use a sliding window beyond 1024",
            "the published top-p drops the token that crosses p, unless it is the first; --top-p keeps it",
        ),
        **OWT,
    )
add(
    {"kuleshov-group/bd3lm-owt-block_size1024-pretrain": {"name": "bd3lm-owt-pretrain"}},
    family="bd3lm",
    traps=(*OWT_TRAPS, "one block of 1024: the initial weights of the block models"),
    **OWT,
)


def dream_recipe(count: int, temperature: float, source: str) -> tuple[Recipe, ...]:
    """A step per token; the options of the published commands."""
    options = f"--steps {count} --length {count} --temperature {temperature} --top-p 0.95"
    return (recipe("dream(alg=entropy)", options, source),)


DREAM = {"family": "dream", "billions": 7.6, "prediction": "shifted", "context": 2048}
add(  # arXiv 2508.15487
    {"Dream-org/Dream-v0-Base-7B": {}, "Dream-org/Dream-v0-Instruct-7B": {"template": "qwen2"}},
    licence="Apache-2.0",
    tokens=Tokens(mask=151666, eos=151643, pad=151643, bos=151643, end_of_turn=151645),
    recipes=dream_recipe(512, 0.2, "github.com/DreamLM/Dream: README"),
    traps=("with one step per token its published loop reveals nothing in the first step and two tokens in the last",),
    **DREAM,
)
add(  # arXiv 2509.01142
    {"Dream-org/Dream-Coder-v0-Base-7B": {}, "Dream-org/Dream-Coder-v0-Instruct-7B": {"template": "qwen2"}},
    licence="Apache-2.0",
    tokens=Tokens(mask=151666, eos=151643, pad=151643, bos=151665, end_of_turn=151645),
    recipes=dream_recipe(768, 0.1, "github.com/DreamLM/Dream-Coder: README"),
    traps=("its texts begin with token 151665, not with Dream's 151643",),
    **DREAM,
)
APPLE = "github.com/apple/ml-diffucoder: README"
add(  # arXiv 2506.20639
    {
        "apple/DiffuCoder-7B-Base": {"recipes": dream_recipe(256, 0.2, APPLE), "template": None},
        "apple/DiffuCoder-7B-Instruct": {},
        "apple/DiffuCoder-7B-cpGRPO": {},
    },
    licence="Apple AMLR (research only)",
    tokens=Tokens(mask=151666, eos=151643, pad=151643, end_of_turn=151645),
    template="qwen2",
    recipes=dream_recipe(256, 0.3, APPLE),
    traps=("its padding is 151643 in config.json and 151667 in its tokenizer; neither is used here",),
    **DREAM,
)

QWEN2 = {"family": "qwen2", "tokens": Tokens(mask=151665, eos=151645, pad=151643, end_of_turn=151645)}
QWEN2 |= {"template": "qwen2"}
QWEN3 = {"family": "qwen3", "tokens": Tokens(mask=151669, eos=151645, pad=151643, end_of_turn=151645)}
QWEN3 |= {"template": "qwen3"}
A2D = "github.com/ZHZisZZ/dllm: examples/a2d"
ALIGNED = ("its published blocks begin after the prompt; in unmask they are counted from its first token",)
for name, repository, billions, common in (
    ("qwen3-0.6b", "Qwen3-0.6B", 0.6, QWEN3),
    ("qwen2.5-coder-0.5b", "Qwen2.5-Coder-0.5B-Instruct", 0.5, QWEN2),
):
    add(
        {
            f"dllm-hub/{repository}-diffusion-mdlm-v0.1": {
                "name": f"{name}-diffusion-mdlm",
                "recipes": block_recipes(256, 256, A2D),
            },
            f"dllm-hub/{repository}-diffusion-bd3lm-v0.1": {
                "name": f"{name}-diffusion-bd3lm",
                "block": 32,
                "recipes": block_recipes(32, 256, A2D),
                "traps": ALIGNED,
            },
        },
        licence="Apache-2.0",
        billions=billions,
        context=32768,
        **common,
    )

add(  # arXiv 2509.26328
    {
        "Efficient-Large-Model/Fast_dLLM_v2_1.5B": {"name": "fast-dllm-v2-1.5b", "billions": 1.5},
        "Efficient-Large-Model/Fast_dLLM_v2_7B": {"name": "fast-dllm-v2-7b", "billions": 7.6},
    },
    family="fast-dllm",
    licence="Apache-2.0",
    tokens=Tokens(mask=151665, eos=151645, pad=151643, end_of_turn=151645),
    prediction="shifted",
    block=32,
    context=32768,
    template="qwen2",
    recipes=(
        recipe(
            "blocks(block_length=8, first=32, inner=threshold(threshold=0.9, temperature=0))",
            "--length 512",
            "github.com/NVlabs/Fast-dLLM: v2: README; its evaluation uses threshold 1, one token per step",
        ),
    ),
    traps=(
        "blocks, and their parts of 8, are counted from the first token of the prompt",
        "its own chat template adds the system message of Qwen2.5 by default; that of unmask does not",
        "the published loop ignores a prompt of exactly 32 tokens; unmask uses it",
    ),
)

SDAR = "github.com/JetAstra/SDAR: README"
SDAR_ROWS: dict[int, dict[str, dict[str, Any]]] = {  # by block length
    4: {
        "JetLM/SDAR-1.7B-Chat": {"billions": 1.7},
        "JetLM/SDAR-4B-Chat": {"billions": 4},
        "JetLM/SDAR-8B-Chat": {"billions": 8},
        "JetLM/SDAR-30B-A3B-Chat": {"billions": 30, "family": "sdar-moe"},
        "JetLM/SDAR-30B-A3B-Sci": {"billions": 30, "family": "sdar-moe"},
        "Gen-Verse/TraDo-4B-Instruct": {"billions": 4, "licence": "MIT"},
        "Gen-Verse/TraDo-8B-Instruct": {"billions": 8, "licence": "MIT"},
        "Gen-Verse/TraDo-8B-Thinking": {"billions": 8, "licence": "MIT"},
    },
    8: {},
    16: {},
    32: {"JetLM/SDAR-30B-A3B-Chat-b32": {"billions": 30, "family": "sdar-moe"}},
    64: {},
}
for block, rows in SDAR_ROWS.items():
    lengths = {f"JetLM/SDAR-{size}B-Chat-b{block}": {"billions": size} for size in (1.7, 4, 8) if block > 4}
    add(
        lengths | rows,
        family="sdar",
        licence="Apache-2.0",
        tokens=Tokens(mask=151669, eos=151643, pad=151643, end_of_turn=151645),
        block=block,
        context=32768,
        template="chatml",
        recipes=(
            recipe(f"llada(block_length={block})", "--steps 512 --length 512", f"{SDAR}: one step per token", "static"),
            recipe(
                f"blocks(block_length={block}, inner=threshold(threshold=0.9, temperature=0))",
                "--length 512",
                f"{SDAR}; generate.py has 0.85; for 3 steps per block of 4 add counts=(2, 1, 1)",
                "dynamic",
            ),
        ),
        traps=(
            "blocks are counted from the first token of the prompt, so the first written block may be shorter",
            "the published generate.py fails at its start: it uses its arguments before it parses them",
        ),
    )


def llada2_recipe(name: str, threshold: float, editing: float | None = None) -> Recipe:
    """editing: for 2.1, the probability at which another token replaces a written one."""
    rule = f"threshold(threshold={threshold}, temperature=0)"
    if editing is not None:
        rule = f"token-editing(threshold={threshold}, editing={editing}, temperature=0)"
    source = "github.com/inclusionAI/LLaDA2.X: generate() of its model, and the table of diffusers"
    return recipe(f"blocks(block_length=32, inner={rule})", "--length 2048", source, name)


LLADA2 = (llada2_recipe("published", 0.95), llada2_recipe("quality", 0.7), llada2_recipe("speed", 0.5))
EDITING = (
    llada2_recipe("published", 0.95, 0.9),
    llada2_recipe("quality", 0.7, 0.5),
    llada2_recipe("speed", 0.5, 0.0),
)
add(
    {
        "inclusionAI/LLaDA2.0-mini": {"billions": 16, "recipes": LLADA2},
        "inclusionAI/LLaDA2.0-flash": {"recipes": LLADA2},
        "inclusionAI/LLaDA2.0-mini-CAP": {"billions": 16, "recipes": LLADA2},
        "inclusionAI/LLaDA2.0-flash-CAP": {"recipes": LLADA2},
        "inclusionAI/LLaDA2.1-mini": {"billions": 16},
        "inclusionAI/LLaDA2.1-flash": {},
        "inclusionAI/LLaDA2.2-flash": {},
    },
    family="llada2",
    licence="Apache-2.0",
    billions=100,
    tokens=Tokens(mask=156895, eos=156892, pad=156892),
    block=32,
    context=32768,
    template="ling",
    recipes=EDITING,
    traps=(
        "blocks are counted from the first token of the prompt, so the first written block is shorter",
        "from 2.1 on the published loop also changes written tokens (editing_threshold): sampler token-editing",
        "for fewer steps than the block use threshold(least=32 / steps), or counts=(..) if they do not divide 32",
        "2.1 was compared only with the page of diffusers, where an editing_threshold of 0 means no editing",
        "2.2 also inserts and deletes tokens, which is not supported; its numbers were not checked",
    ),
)
