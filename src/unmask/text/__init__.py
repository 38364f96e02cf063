"""Your own texts: documents, held-out documents, tokenizers, windows, and models that score a text."""

from unmask.text.corpus import Corpus, read
from unmask.text.ngrams import Lexicon, NGramJudge
from unmask.text.tokenizer import Tokenizer
from unmask.text.tokenizers import load, make
from unmask.text.windows import Text

__all__ = ["Corpus", "Lexicon", "NGramJudge", "Text", "Tokenizer", "load", "make", "read"]
