"""`python -m tests.docs docs/guide.md`: what each step of a page prints now, to put on the page."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from .follow import follow
from .sandbox import Models, entered, fill

for path in [Path(name).resolve() for name in sys.argv[1:]]:
    models = Models()
    with TemporaryDirectory() as name, entered(Path(name), models):
        fill(Path(name), models)
        for done in follow(path, Path(name)):
            print(done)
