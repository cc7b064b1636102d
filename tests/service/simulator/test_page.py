"""The page and the picture: complete, readable by machines, and correct."""

import re
from datetime import timedelta
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from receiver.service.simulator.page import page, picture
from receiver.service.simulator.report import report_on
from receiver.service.simulator.scenario import ArrivalPattern, Endpoint, Latency, Outage, OutageKind, Scenario

MINUTE = timedelta(minutes=1)
SVG = "{http://www.w3.org/2000/svg}"

OUT = Scenario(
    arrivals=ArrivalPattern(rate=1.0),
    outages=(
        Outage(start=10 * MINUTE, end=35 * MINUTE),
        Outage(start=50 * MINUTE, end=51 * MINUTE, kind=OutageKind.HANG),
    ),
)
NOTHING = Scenario()
SLOW = Scenario(arrivals=ArrivalPattern(at=(MINUTE,)), endpoint=Endpoint(latency=Latency(p50=MINUTE)))
AT_ONCE = Scenario(
    arrivals=ArrivalPattern(at=(timedelta(0),)), endpoint=Endpoint(latency=Latency(p50=timedelta(0)))
)
SCENARIOS = {"out": OUT, "nothing": NOTHING, "slow": SLOW, "at once": AT_ONCE}


class Page(HTMLParser):
    """The elements of a page. An element that is closed in the wrong order is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "tr":
            self.rows.append([])
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1].append(data)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_page_loads_nothing_and_runs_no_script(name: str) -> None:
    """It has a title for every picture, and colours for light and dark."""
    text = page(SCENARIOS[name], report_on(SCENARIOS[name]))
    read = Page(text)

    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    assert not [
        attribute for attribute, _ in read.attributes if attribute in ("src", "href") or attribute[:2] == "on"
    ]
    assert set(re.findall(r"https?:[^\"' ]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in text
    assert (read.tags.count("svg"), read.tags.count("desc"), read.tags.count("table")) == (3, 3, 5)
    assert "prefers-color-scheme: dark" in text
    assert ("name", "viewport") in read.attributes


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_picture_is_svg_with_title_and_description(name: str) -> None:
    """All shapes lie inside of the picture."""
    root = ElementTree.fromstring(picture(SCENARIOS[name], report_on(SCENARIOS[name])))
    texts = {one.get("id"): one.text for one in root.iter()}
    _, _, width, height = (float(part) for part in root.attrib["viewBox"].split())

    assert [bool(texts[label]) for label in root.attrib["aria-labelledby"].split()] == [True, True]
    assert "nan" not in ElementTree.tostring(root, encoding="unicode")
    for one in root.iter(f"{SVG}rect"):
        assert 0 <= float(one.get("x", 0)) <= float(one.get("x", 0)) + float(one.attrib["width"]) <= width
    for one in root.iter(f"{SVG}path"):
        numbers = re.findall(r"[MHV]([\d.]+)", one.attrib["d"])
        assert all(float(number) <= max(width, height) for number in numbers)


def test_the_tables_have_the_figures_of_the_report() -> None:
    """Their sums are those of the report."""
    report = report_on(OUT)
    rows = Page(page(OUT, report)).rows
    heads = [number for number, row in enumerate(rows) if row[0] in ("created", "started", "share")]
    fates, waves = rows[heads[0] + 1 : heads[1]], rows[heads[1] + 1 : heads[2]]

    assert len(fates) <= 24
    assert [sum(int(row[kind]) for row in fates) for kind in range(1, 6)] == [*report.by_attempt, report.failed]
    assert sum(int(cell) for row in waves for cell in row[1:]) == report.attempts
    assert ["out of order", f"{report.out_of_order:,}"] in rows
    assert ["outages", "10m..35m (refuse); 50m..51m (hang)"] in rows


def test_outages_are_shaded_in_the_picture() -> None:
    """Each outage has one shape in each of the two charts; without outages there is none."""
    shaded = picture(OUT, report_on(OUT)).count('<rect class="out" x=')
    legend = 2

    assert shaded == 2 * 2 + legend
    assert 'class="out"' not in picture(SLOW, report_on(SLOW))
