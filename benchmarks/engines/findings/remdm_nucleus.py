"""remdm: which of .6, .35, .05 its nucleus of .9 keeps; top-p keeps two: python remdm_nucleus.py diffusion.py"""

import re
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import torch

source = Path(sys.argv[1]).read_text()
lines = re.search(r" *sorted_probs, sorted_indices = .*?p_x0 = torch.zeros_like.*?\n", source, re.DOTALL).group(0)
config = SimpleNamespace(sampling=SimpleNamespace(nucleus_p=0.9))
space = {"torch": torch, "self": SimpleNamespace(config=config), "p_x0": torch.tensor([[0.6, 0.35, 0.05]])}
exec(textwrap.dedent(lines), space)
print("kept:", space["p_x0"].tolist()[0])
