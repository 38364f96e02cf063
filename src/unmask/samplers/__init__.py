"""What decides: one file a sampler, one contract for all of them."""

from unmask.samplers.adaptive_blocks import AdaptiveBlocks
from unmask.samplers.adaptive_parallel import AdaptiveParallel
from unmask.samplers.ancestral import Ancestral
from unmask.samplers.autoregressive import Autoregressive
from unmask.samplers.best_order import BestOrder
from unmask.samplers.blocks import Blocks
from unmask.samplers.clairvoyant import Clairvoyant
from unmask.samplers.confidence import Entropy, Margin, TopProbability
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.credit import Credit
from unmask.samplers.deferred import Deferred
from unmask.samplers.early_commit import EarlyCommit
from unmask.samplers.editing import TokenEditing
from unmask.samplers.entropy_budget import EntropyBounded, EntropySum
from unmask.samplers.first_hitting import FirstHitting
from unmask.samplers.fixed_size import FixedSize
from unmask.samplers.gibbs import Gibbs
from unmask.samplers.info_gain import InfoGain
from unmask.samplers.informed_corrector import InformedCorrector
from unmask.samplers.klass import Klass
from unmask.samplers.left_to_right import LeftToRight
from unmask.samplers.local_leap import LocalLeap
from unmask.samplers.loops import fill, walk
from unmask.samplers.low_confidence import LowConfidence
from unmask.samplers.multi_block import MultiBlock
from unmask.samplers.particle_gibbs import ParticleGibbs
from unmask.samplers.pc_sampler import PCSampler
from unmask.samplers.planned import PathPlanning
from unmask.samplers.published.dream import dream
from unmask.samplers.published.llada import llada
from unmask.samplers.published.mdlm import AsPublishedMDLM
from unmask.samplers.punt import Punt
from unmask.samplers.remdm import ReMDM
from unmask.samplers.saber import Saber
from unmask.samplers.self_speculative import SelfSpeculative
from unmask.samplers.session import Session
from unmask.samplers.settled import Settled
from unmask.samplers.slow_fast import SlowFast
from unmask.samplers.speculative import Speculative
from unmask.samplers.stopping import AtToken, Budget, Either, StopRule, Until, Watched
from unmask.samplers.structured import BlockStrided, Dilated, Dyadic, Strided
from unmask.samplers.threshold import Factor, Threshold
from unmask.samplers.verify_and_restart import VerifyAndRestart
from unmask.samplers.view import View
from unmask.samplers.wino import Wino

__all__ = [
    "SAMPLERS",
    "AdaptiveBlocks",
    "AdaptiveParallel",
    "Ancestral",
    "AsPublishedMDLM",
    "AtToken",
    "Autoregressive",
    "BestOrder",
    "BlockStrided",
    "Blocks",
    "Budget",
    "Choice",
    "Clairvoyant",
    "Credit",
    "Deferred",
    "Dilated",
    "Dyadic",
    "EarlyCommit",
    "Either",
    "Entropy",
    "EntropyBounded",
    "EntropySum",
    "Factor",
    "FirstHitting",
    "FixedSize",
    "Gibbs",
    "InfoGain",
    "InformedCorrector",
    "Klass",
    "LeftToRight",
    "LocalLeap",
    "LowConfidence",
    "Margin",
    "MultiBlock",
    "PCSampler",
    "ParticleGibbs",
    "PathPlanning",
    "Punt",
    "ReMDM",
    "Saber",
    "Sampler",
    "SelfSpeculative",
    "Session",
    "Settled",
    "SlowFast",
    "Speculative",
    "StopRule",
    "Strided",
    "Threshold",
    "TokenEditing",
    "TopProbability",
    "Until",
    "VerifyAndRestart",
    "View",
    "Watched",
    "Wino",
    "dream",
    "fill",
    "llada",
    "walk",
]
