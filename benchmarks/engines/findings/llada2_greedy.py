"""LLaDA2 of dFactory: what temperature 0, which its documentation calls greedy, draws: python llada2_greedy.py FILE"""

import ast
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F

name, source = "_sample_with_temperature_topk_topp", Path(sys.argv[1]).read_text()
node = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == name)
space = {"torch": torch, "F": F}
exec(textwrap.dedent(ast.get_source_segment(source, node)), space)
same = SimpleNamespace(_top_k_logits=lambda x, _: x, _top_p_logits=lambda x, _: x)  # neither filter is on
torch.manual_seed(0)
tokens, _ = space[name](same, torch.tensor([0.8, 0.2]).log().expand(1, 100_000, 2), temperature=0.0)
print(f"temperature 0: a token of probability .2 is drawn with {tokens.double().mean():.4f}; greedy has 0")
