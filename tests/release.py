"""`make release-check`: the wheel and the source archive in a folder are what a user should get, and work elsewhere.

python tests/release.py dist
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

LARGEST_BYTES = 100_000_000  # what package indexes take
ROWS = '{"id": "1", "context_id": "sum-01", "text": "The ferry lost power near Tarn Island, and tugs brought it in."}\n'
WORK = """
import synthscore as ss
from synthscore.resources import resource

assert {folder!r} in ss.__file__, ss.__file__
scorer = ss.Scorer(resource("data/references/degraded"), "nano", task="summarization", attribute="consistency")
scores = scorer.score("targets.jsonl")
assert [score.status for score in scores] == ["ok"], scores[0].reason
print(f"synthscore {{ss.__version__}} from the wheel: {{scores[0].value:.2f}}")
"""


def main(folder: Path) -> None:
    archives = sorted(folder.iterdir())
    assert [path.name.split("-")[0] for path in archives] == ["synthscore", "synthscore"], archives
    for path in archives:
        size = path.stat().st_size
        print(f"{path.name}: {size / 1e6:.1f} MB")
        assert size < LARGEST_BYTES, f"{path.name} has {size} bytes, an index takes {LARGEST_BYTES}"
    (wheel,) = (path for path in archives if path.suffix == ".whl")  # built from the source archive
    (source,) = (path for path in archives if path.name.endswith(".tar.gz"))
    with tarfile.open(source) as held:
        names = {name.split("/", 1)[1] for name in held.getnames() if "/" in name}
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "tests/factories.py", "data/nano/NOTICE", "prompts"):
        assert any(each == name or each.startswith(f"{name}/") for each in names), f"{name} is not in {source.name}"
    with TemporaryDirectory() as place:
        target = str(Path(place) / "installed")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, wheel], check=True
        )
        (Path(place) / "targets.jsonl").write_text(ROWS, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": target, "PYTHONSAFEPATH": "1"}
        for words in (["-c", WORK.format(folder=target)], ["-m", "synthscore", "--version"]):
            subprocess.run([sys.executable, *words], check=True, cwd=place, env=environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
