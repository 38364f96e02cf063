"""d1, wd1, SPG, ESPO, DiPOD: of a tail of .04 in 997 tokens, what noise in bfloat16 writes: python d1_noise.py FILE"""

import ast
import sys
import textwrap
from pathlib import Path

import torch

source = Path(sys.argv[1]).read_text()
found = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == "add_gumbel_noise"]
space = {"torch": torch}
exec(textwrap.dedent(ast.get_source_segment(source, found[0])), space)  # as it stands in their file

p = torch.tensor([0.9, 0.05, 0.01] + [0.04 / 997] * 997)
torch.manual_seed(0)
for dtype in (torch.bfloat16, torch.float64):
    tail = 0
    for _ in range(20):
        logits = p.log().to(dtype).expand(1000, 1000)
        tail += int((space["add_gumbel_noise"](None, logits, 1.0, dtype).argmax(-1) >= 3).sum())
    print(f"{dtype}: {tail} of 20000 tokens are of the tail; 800 expected")
