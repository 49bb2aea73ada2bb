"""Causal language models, asked about many prompts at once: what prompts share is computed once."""
