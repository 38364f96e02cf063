"""Your own texts: documents, held-out documents, tokenizers, windows, and models that score a text."""

from unmask.models.text.corpus import Corpus, Text, read
from unmask.models.text.ngrams import Lexicon, NGramJudge
from unmask.models.text.published import load, make
from unmask.models.text.tokenizer import Tokenizer

__all__ = ["Corpus", "Lexicon", "NGramJudge", "Text", "Tokenizer", "load", "make", "read"]
