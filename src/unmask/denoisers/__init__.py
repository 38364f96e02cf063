"""Who predicts: the contract, marginals, the canvas; ideal denoisers of languages, perturbed ones, the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.denoisers.canvas import Canvas as Canvas
    from unmask.denoisers.contracts import Causal as Causal
    from unmask.denoisers.contracts import Cost as Cost
    from unmask.denoisers.contracts import Engine as Engine
    from unmask.denoisers.denoiser import Denoiser as Denoiser
    from unmask.denoisers.denoiser import PrefixCausal as PrefixCausal
    from unmask.denoisers.denoiser import StatelessEngine as StatelessEngine
    from unmask.denoisers.ideal import Ideal as Ideal
    from unmask.denoisers.ideal import as_denoiser as as_denoiser
    from unmask.denoisers.marginals import Logits as Logits
    from unmask.denoisers.marginals import Marginals as Marginals
    from unmask.denoisers.marginals import Table as Table
    from unmask.denoisers.marginals import as_marginals as as_marginals
    from unmask.denoisers.marginals import joined as joined
    from unmask.denoisers.noise import Noise as Noise
    from unmask.denoisers.oracles import oracle as oracle
    from unmask.denoisers.reshaped import Guided as Guided
    from unmask.denoisers.reshaped import Nucleus as Nucleus
    from unmask.denoisers.reshaped import Perturbed as Perturbed
    from unmask.denoisers.reshaped import Reshaped as Reshaped
    from unmask.denoisers.reshaped import Sharpened as Sharpened
    from unmask.denoisers.uniform import UniformIdeal as UniformIdeal

__getattr__, __dir__ = lazily(__name__, __path__)
