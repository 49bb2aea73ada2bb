"""The panels that a verb's options stand in, in its help."""

from cyclopts import Group

FIRST = Group("Most used", sort_key=0)
"""Options that stand first, and with those of the verb alone in the short help."""

PANELS = {"group_arguments": Group("Arguments", sort_key=-1), "group_parameters": Group("This command", sort_key=1)}
"""Of an App: arguments, and options that are in no group of options."""

SHORT = ("Arguments", FIRST.name, "This command", "Commands")
"""What the short help shows; --help all shows every panel."""

ORDER = ("--model", "--references", "--attribute", "--task", "--output", "--field")
"""Of the first options; others follow in the order of the verb."""
