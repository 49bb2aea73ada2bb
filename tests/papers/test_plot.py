"""A picture of lines with bands."""

import math
from xml.etree import ElementTree

from papers.plot import Line, Panel, draw_curves


def test_a_figure_is_svg_with_every_name_in_it_escaped():
    x = [10, 20, 30]
    lines = [
        Line("a<b", x, [0.1, 0.2, 0.3], [0, 0.1, 0.2], [0.2, 0.3, 0.4]),
        Line("gap", x, [0.3, 0.3, math.nan], [0.3, 0.3, math.nan], [0.3, 0.3, math.nan]),
        Line("none", x, *[[math.nan] * 3] * 3),
    ]
    panels = [Panel("One & two", lines, "calls", "Spearman"), Panel("Other", lines[:1], "calls", "")]
    text = draw_curves(panels)
    assert "nan" not in text
    assert text == draw_curves(panels)
    root = ElementTree.fromstring(text)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a<b", "gap", "none", "One & two", "Other", "Spearman", "10", "30"} <= set(words)
