"""Fast-dLLM v2: lines that choose a token by argmax, and by its draw: python fast_dllm_draw.py FILE"""

import ast
import sys
from pathlib import Path

source = Path(sys.argv[1]).read_text()
node = next(n for n in ast.walk(ast.parse(source)) if getattr(n, "name", "") == "batch_sample")
for assign in (n for n in ast.walk(node) if isinstance(n, ast.Assign)):
    text = ast.unparse(assign)
    if text.startswith("next_token = ") or "sample_with_top_p" in text:
        print(assign.lineno, text)
