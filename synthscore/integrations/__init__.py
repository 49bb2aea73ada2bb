"""Other tools' rows -> scores in their own form: a file a tool (docs/integrations.md). None of them is imported here."""
