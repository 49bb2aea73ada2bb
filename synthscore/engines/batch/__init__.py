"""Questions into files that a batch service or offline inference answers, and their answers out of files."""
