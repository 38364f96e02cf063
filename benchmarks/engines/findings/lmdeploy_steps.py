"""LMDeploy: low_confidence_static with its default denoising_steps=None: python lmdeploy_steps.py unmasking.py"""

import ast
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

source = Path(sys.argv[1]).read_text()
node = next(n for n in ast.walk(ast.parse(source)) if getattr(n, "name", "") == "_get_denoise_num")
space = {}
exec(textwrap.dedent(ast.get_source_segment(source, node)), space)
for steps in (2, None):
    self = SimpleNamespace(dllm_config=SimpleNamespace(block_length=4, denoising_steps=steps))
    try:
        print(f"denoising_steps = {steps}: {space['_get_denoise_num'](self)} positions in a step")
    except TypeError as error:
        print(f"denoising_steps = {steps}: TypeError: {error}")
