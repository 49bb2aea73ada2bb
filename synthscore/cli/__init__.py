"""The command line: a thin file a verb, which reads, calls the library and writes."""
