"""Encoder-decoder models, such as T5."""
