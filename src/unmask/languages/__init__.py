"""Known distributions q: likelihood, support, posterior; kernels/ has the compiled passes under them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.languages.answers import Answers as Answers
    from unmask.languages.base import LANGUAGES as LANGUAGES
    from unmask.languages.base import Language as Language
    from unmask.languages.closed_form import ClosedForm as ClosedForm
    from unmask.languages.grammars import Brackets as Brackets
    from unmask.languages.grammars import ModularSum as ModularSum
    from unmask.languages.hmm import HMM as HMM
    from unmask.languages.interval import Interval as Interval
    from unmask.languages.ngram import NGram as NGram
    from unmask.languages.presets import PRESETS as PRESETS
    from unmask.languages.presets import random_hmm as random_hmm
    from unmask.languages.presets import random_ngram as random_ngram
    from unmask.languages.presets import sparse_hmm as sparse_hmm
    from unmask.languages.reading import LanguageLike as LanguageLike
    from unmask.languages.reading import from_dict as from_dict
    from unmask.languages.reading import load as load

__getattr__, __dir__ = lazily(__name__, __path__)
