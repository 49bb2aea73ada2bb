"""The site of the docs: what `make docs` lays out."""

import re
from pathlib import Path

import pytest

build = pytest.importorskip("docs.build", reason="the site is built with the extra docs: pip install '.[docs]'")

PLACES = {
    "docs/guide.md": "guide.md",
    "docs/decisions/README.md": "decisions/index.md",
    "README.md": "index.md",
    "data/nano/README.md": "cards/nano.md",
    "docs/figures/a.svg": "figures/a.svg",
}


@pytest.mark.parametrize(
    ("source", "text", "shown"),
    [
        ("README.md", "[guide](docs/guide.md)", "[guide](guide.md)"),
        ("README.md", "[why](docs/decisions/)", "[why](decisions/index.md)"),
        ("docs/guide.md", "[the card](../data/nano/README.md#use)", "[the card](cards/nano.md#use)"),
        ("data/nano/README.md", "![x](../../docs/figures/a.svg)", "![x](../figures/a.svg)"),
        ("docs/guide.md", "[figures](../benchmarks/results/x.txt)", "figures"),
        ("docs/guide.md", "[paper](https://arxiv.org/abs/1)", "[paper](https://arxiv.org/abs/1)"),
        ("docs/guide.md", "```python\na[0](docs/guide.md)\n```", "```python\na[0](docs/guide.md)\n```"),
    ],
)
def test_a_link_goes_where_the_site_has_the_page_or_is_the_name_of_a_file(source, text, shown):
    assert build.linked(text, source, PLACES) == shown


def test_every_page_is_in_the_menu():
    menu = set(re.findall(r": (\S+\.md)$", (build.ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    pages = {place for place in build.places().values() if place.endswith(".md")}
    generated = {f"commands/{verb}.md" for verb in build.VERBS} | {"python.md"}
    notebooks = {f"notebooks/{path.stem}.md" for path in Path(build.ROOT / "notebooks").glob("*.ipynb")}
    numbered = {page for page in pages if page.startswith("decisions/00")}  # listed on the page of decisions
    assert menu == (pages | generated | notebooks) - numbered
