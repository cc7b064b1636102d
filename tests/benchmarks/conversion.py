"""How fast a page becomes Markdown: `python -m tests.benchmarks.conversion [--json FILE]`.

One made page of about 100 KB, with links, lists, tables and code, goes through our converter and through others
that are installed, in turn in one process; the figures are medians over the rounds. Each begins with the text of
the page, so each parses it. `ours, whole scrape` also has the charset, cleaning, links, metadata and the cleaned
HTML. The last columns tell what each keeps: the language of code, tables, and marks in text that are no Markdown.
"""

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from receiver.emulator.content.markdown.writer import to_markdown
from receiver.emulator.content.parsing import content_root, parse_html
from receiver.emulator.scrapes import FetchedPage, ScrapePlan
from tests.benchmarks.report import table, write_json
from tests.emulator.content.pages import read_page

Convert = Callable[[str], str]

OURS, WHOLE = "ours", "ours, whole scrape"
_URL = "https://docs.acme.test/guide/"
_SECTION = """
  <section id="s{number}">
    <h2>Section {number}: what it is for</h2>
    <p>This is a paragraph with <strong>strong</strong> and <em>stressed</em> words, a
       <a href="/guide/page-{number}.html#part" title="Page {number}">link to page {number}</a>,
       and <code>some_code()</code>;
       it costs 5 * 3 = 15, and my_name_here is no emphasis.</p>
    <ul>
      <li>First of {number}</li>
      <li>Second, with a list:
        <ol><li>one <a href="one/{number}">more</a></li><li>two</li></ol>
      </li>
    </ul>
    <div class="highlight"><pre><code class="language-python"><span class="k">def</span> f{number}():
    <span class="k">return</span> <span class="mi">{number}</span>
</code></pre></div>
    <table>
      <thead><tr><th>Name</th><th align="right">Value</th></tr></thead>
      <tbody><tr><td>a{number}</td><td>{number}</td></tr><tr><td><b>b</b></td><td>1|2</td></tr></tbody>
    </table>
    <blockquote><p>Somebody said so.<br>And so on.</p></blockquote>
    <p><img src="/images/{number}.png" alt="Picture {number}"> <span>A caption.</span></p>
  </section>"""


def made_page(size: int) -> str:
    """Return a page of about this many characters."""
    head = '<!DOCTYPE html><html lang="en"><head><title>A made page</title></head><body><main>'
    sections = [_SECTION.format(number=number) for number in range(max(1, size // len(_SECTION)))]
    return f"{head}{''.join(sections)}</main></body></html>"


def converters() -> dict[str, Convert]:
    """Return our converter and those of others that are installed, by name."""
    found: dict[str, Convert] = {
        OURS: lambda html: to_markdown(content_root(parse_html(html)), size=len(html)),
        WHOLE: _scraped,
    }
    others = {"html-to-markdown": "convert", "markdownify": "markdownify", "html2text": "html2text"}
    for name, function in others.items():
        module = name.replace("-", "_")
        if find_spec(module) is not None:
            found[name] = _other(getattr(import_module(module), function))
    return found


def _other(convert: Callable[[str], Any]) -> Convert:
    return lambda html: str(getattr(result, "content", result) if (result := convert(html)) is not None else "")


def _scraped(html: str) -> str:
    fetched = FetchedPage(
        source_url=_URL,
        url=_URL,
        status=200,
        content_type="text/html; charset=utf-8",
        body=html.encode(),
        fetched_at=datetime(2026, 8, 21, tzinfo=UTC),
    )
    return read_page(fetched, ScrapePlan(url=_URL, formats=({"type": "markdown"}, {"type": "html"}))).markdown


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.conversion", description=__doc__)
    parser.add_argument("--size", type=int, default=100_000, help="characters of the page")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    page = made_page(chosen.size)
    contenders = converters()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(chosen.rounds):
        for name, convert in contenders.items():
            begun = time.perf_counter()
            convert(page)
            times[name].append(time.perf_counter() - begun)
    rows = [_row(name, times[name], convert(page), len(page)) for name, convert in contenders.items()]
    nodes = sum(1 for _ in content_root(parse_html(page)).traverse(include_text=True))
    table(f"conversion of a page of {len(page):,} characters, {nodes:,} nodes", rows)
    write_json(chosen.json, {"conversion": rows, "nodes": nodes})
    return 0


def _row(name: str, seconds: Sequence[float], markdown: str, size: int) -> dict[str, object]:
    middle = statistics.median(seconds)
    return {
        "converter": name,
        "ms": middle * 1000,
        "fastest": min(seconds) * 1000,
        "slowest": max(seconds) * 1000,
        "MB/s": size / middle / 1e6,
        "language": "```python" in markdown,
        "tables": re.search(r"^\W*\| *:?---", markdown, re.MULTILINE) is not None or "---|---" in markdown,
        "escapes": r"5 \* 3" in markdown and r"my\_name\_here" in markdown,
    }


if __name__ == "__main__":
    sys.exit(main())
