"""In CI every run draws the same examples, so that a failure is the change's; elsewhere each run draws new ones."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
