"""The panels that a verb's options stand in, in its help."""

from cyclopts import Group

FIRST = Group("Most used", sort_key=0)
"""Options that stand first, and with those of the verb alone in the short help."""

ARGUMENTS = Group("Arguments", sort_key=-1)
OPTIONS = Group("This command", sort_key=1)
"""Options that are in no group of options."""

SHORT = (ARGUMENTS.name, FIRST.name, OPTIONS.name, "Commands")
"""What the short help shows; --help all shows every panel."""

ORDER = ("--model", "--references", "--attribute", "--task", "--output", "--field")
"""Of the first options; others follow in the order of the verb."""
