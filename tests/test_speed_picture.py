"""The picture of the benchmark of acknowledgements."""

from itertools import product
from typing import Any
from xml.etree import ElementTree

from tests.benchmarks.picture import NAMES, draw

RATES = {"bare": 10_000.0, "ours": 8_000.0, "huey": 500.0}


def figures() -> dict[str, Any]:
    """Three contenders in two rounds at two sizes, the second round being faster."""
    sample = {"p50_ms": 1.0, "p99_ms": 2.0, "max_ms": 3.0, "server_cpu": 1.0, "refused": {}, "kept_all": True}
    return {
        "acks": [
            {
                **sample,
                "round": number,
                "size": size,
                "connections": connections,
                "contender": name,
                "requests_per_second": RATES[name] * (1 + number / 10) * connections / 64,
            }
            for number, size, connections, name in product((0, 1), (1_024, 51_200), (1, 64), RATES)
        ]
    }


def test_it_shows_medians_and_ratios_at_the_most_connections() -> None:
    """One bar for each contender and size, under the size."""
    picture = ElementTree.fromstring(draw(figures()))

    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    of_one_size = [NAMES["bare"], "10,500", NAMES["ours"], "8,400 (0.80)", NAMES["huey"], "525 (0.05)"]
    assert texts == [
        "Acknowledged per second, bodies of 1,024 bytes",
        *of_one_size,
        "Acknowledged per second, bodies of 51,200 bytes",
        *of_one_size,
    ]


def test_a_bar_is_as_long_as_its_rate() -> None:
    """The bars of one size have one scale, and none of them is cut off."""
    picture = ElementTree.fromstring(draw(figures()))

    bars = [element for element in picture.iter("{http://www.w3.org/2000/svg}rect") if element.get("x")]
    widths = [float(bar.get("width", "")) for bar in bars]
    assert [round(width / widths[0], 2) for width in widths[:3]] == [1, 0.8, 0.05]
    assert all(float(bar.get("x", "")) + width < 640 for bar, width in zip(bars, widths, strict=True))
