"""SDAR: remasking_strategy="entropy_bounded" cannot run: python sdar_entropy.py generate.py"""

import ast
import sys
import textwrap
from pathlib import Path

source = Path(sys.argv[1]).read_text()
node = next(n for n in ast.walk(ast.parse(source)) if getattr(n, "name", "") == "block_diffusion_generate")
branches = [n for n in ast.walk(node) if isinstance(n, ast.If) and "remasking_strategy ==" in ast.unparse(n.test)]
for branch in branches:
    body = "\n".join(map(ast.unparse, branch.body))
    defined = "transfer_index = " in body
    print(textwrap.shorten(ast.unparse(branch.test), 50), "defines transfer_index:", defined)
