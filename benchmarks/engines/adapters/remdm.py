"""ReMDM's diffusion.py: ddpm_cache with its samplers that hide tokens again."""

from benchmarks.engines import laws
from benchmarks.engines.adapters.mdlm import sampled
from benchmarks.engines.cases import Case
from benchmarks.engines.found import Checkout

NAME, FILE, ETA = "remdm", "diffusion.py", 0.3


def cases(checkouts):
    at = Checkout(checkouts, "remdm", "github.com/kuleshov-group/remdm")

    def loop(sampler, eta=0.0, nucleus_p=1.0):
        return sampled(at, sampler=sampler, eta=eta, nucleus_p=nucleus_p, dfm=False)

    cap, rescale = (f"remdm(strategy={name}, eta={ETA})" for name in ("cap", "rescale"))
    drops = "top-p drops the token that crosses p"
    kept, dropped = laws.remasked(0.0, nucleus=0.9), laws.remasked(0.0, nucleus=0.9, crossing=False)
    nucleus = {"filters": {"top_p": 0.9}}
    return at.version(FILE), [
        Case("mdlm (default)", loop("mdlm"), "ancestral", laws.remasked(0.0)),
        Case("rescale", loop("remdm-rescale", ETA), rescale, laws.remasked(ETA, rescale=True), record=False),
        Case("cap", loop("remdm-cap", ETA), cap, laws.remasked(ETA), record=False),
        Case("nucleus 0.9 (its scripts)", loop("mdlm", nucleus_p=0.9), "ancestral", kept, dropped, drops, **nucleus),
    ]
