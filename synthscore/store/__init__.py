"""Nothing is asked twice: every answer of every model, kept under the hash of its question."""
