"""Who learns: trained/ networks of our own, open/ models of others, text/ their texts and tokenizers."""
