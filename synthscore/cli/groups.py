"""The order of the options in every help. It imports cyclopts alone, for --help is quick."""

from cyclopts import Group

FIRST = Group("most used", sort_key=0)
"""Judge, ladders and attribute: they stand first."""

PARAMETERS = Group("Parameters", sort_key=1)
"""The options of the verb itself."""
