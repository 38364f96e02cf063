"""dInfer: FixedParallelDecoder.block_init reads names that do not exist: python dinfer_fixed.py parallel_strategy.py"""

import ast
import builtins
import sys
from pathlib import Path

tree = ast.parse(Path(sys.argv[1]).read_text())
kind = next(n for n in tree.body if getattr(n, "name", "") == "FixedParallelDecoder")
method = next(n for n in kind.body if getattr(n, "name", "") == "block_init")
names = [n for n in ast.walk(tree) if isinstance(n, ast.alias)]
known = {(n.asname or n.name).partition(".")[0] for n in names} | set(dir(builtins))
known |= {n.name for n in tree.body if hasattr(n, "name")} | {a.arg for a in method.args.args}
known |= {n.id for n in ast.walk(method) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
print("undefined:", sorted({n.id for n in ast.walk(method) if isinstance(n, ast.Name)} - known))
