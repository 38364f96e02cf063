"""Synthetic languages: distributions with exact likelihood, support and posterior."""

from unmask.languages.answers import Answers
from unmask.languages.base import LANGUAGES, Language
from unmask.languages.brackets import Brackets
from unmask.languages.closed_form import ClosedForm
from unmask.languages.hmm import HMM
from unmask.languages.interval import Interval
from unmask.languages.modular_sum import ModularSum
from unmask.languages.ngram import NGram
from unmask.languages.presets import PRESETS
from unmask.languages.random import random_hmm, random_ngram, sparse_hmm
from unmask.languages.reading import LanguageLike, from_dict, load

__all__ = [
    "HMM",
    "LANGUAGES",
    "PRESETS",
    "Answers",
    "Brackets",
    "ClosedForm",
    "Interval",
    "Language",
    "LanguageLike",
    "ModularSum",
    "NGram",
    "from_dict",
    "load",
    "random_hmm",
    "random_ngram",
    "sparse_hmm",
]
