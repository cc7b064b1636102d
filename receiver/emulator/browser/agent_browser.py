"""`agent-browser COMMAND ...` in the shell of a session: single steps on its page. This file runs by itself."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from playwright.async_api import Error, Locator, Page, async_playwright

_USAGE = """agent-browser open URL | back | forward | reload | snapshot | click SEL | dblclick SEL | hover SEL |
  focus SEL | fill SEL TEXT | type SEL TEXT | select SEL VALUE | check SEL | uncheck SEL | press KEY |
  scroll up|down [PIXELS] | wait SEL|MS | eval JS | screenshot [FILE] | pdf FILE | close |
  get text|html|value|title|url|count|attr [SEL] [NAME]
SEL is a CSS selector, or a reference of the last snapshot such as @e1."""
_SNAPSHOT = """() => {
  const wanted = 'a[href],button,input,select,textarea,summary,[role],[onclick],[contenteditable],h1,h2,h3,h4';
  const lines = [];
  document.querySelectorAll('[data-agent-ref]').forEach(one => one.removeAttribute('data-agent-ref'));
  for (const one of document.querySelectorAll(wanted)) {
    if (!one.getClientRects().length) continue;
    const ref = 'e' + (lines.length + 1);
    one.setAttribute('data-agent-ref', ref);
    const tag = one.tagName.toLowerCase();
    const kind = one.getAttribute('role') || {a: 'link', input: one.type || 'textbox', h1: 'heading', h2: 'heading',
      h3: 'heading', h4: 'heading', textarea: 'textbox', select: 'combobox'}[tag] || tag;
    const label = one.getAttribute('aria-label') || one.innerText || one.placeholder || one.value || one.name || '';
    lines.push(`- ${kind} ${JSON.stringify(label.trim().replace(/\\s+/g, ' ').slice(0, 100))} [ref=${ref}]`);
  }
  return lines.join('\\n');
}"""
_LATER_MS = 10_000


def _find(page: Page, selector: str) -> Locator:
    chosen = f'[data-agent-ref="{selector[1:]}"]' if selector.startswith("@") else selector
    return page.locator(chosen).first


async def _open(page: Page, url: str) -> str:
    await page.goto(url if "://" in url else f"https://{url}", wait_until="load")
    return f"{await page.title()}\n{page.url}"


async def _get(page: Page, what: str, selector: str = "html", name: str = "") -> str:
    match what:
        case "title":
            return await page.title()
        case "url":
            return page.url
        case "count":
            return str(await page.locator(selector).count())
        case "text":
            return await _find(page, selector).inner_text()
        case "html":
            return await _find(page, selector).inner_html()
        case "value":
            return await _find(page, selector).input_value()
        case "attr":
            return await _find(page, selector).get_attribute(name) or ""
    raise ValueError(_USAGE)


async def _scroll(page: Page, direction: str = "down", pixels: str = "600") -> None:
    await page.evaluate(f"window.scrollBy(0, {-int(pixels) if direction == 'up' else int(pixels)})")


async def _wait(page: Page, what: str) -> None:
    if what.isdigit():
        await asyncio.sleep(int(what) / 1000)
    else:
        await _find(page, what).wait_for()


async def _evaluate(page: Page, *script: str) -> str:
    value = await page.evaluate(" ".join(script))
    return value if isinstance(value, str) else json.dumps(value)


async def _screenshot(page: Page, file: str = "screenshot.png") -> str:
    await page.screenshot(path=file)
    return file


async def _pdf(page: Page, file: str = "page.pdf") -> str:
    await page.pdf(path=file)
    return file


async def _close(page: Page) -> None:
    """Do nothing: the session is closed by its own call."""


_COMMANDS: dict[str, Callable[..., Awaitable[Any]]] = {
    "open": _open,
    "goto": _open,
    "navigate": _open,
    "back": lambda page: page.go_back(),
    "forward": lambda page: page.go_forward(),
    "reload": lambda page: page.reload(),
    "snapshot": lambda page, *_: page.evaluate(_SNAPSHOT),
    "click": lambda page, selector: _find(page, selector).click(),
    "dblclick": lambda page, selector: _find(page, selector).dblclick(),
    "hover": lambda page, selector: _find(page, selector).hover(),
    "focus": lambda page, selector: _find(page, selector).focus(),
    "fill": lambda page, selector, *text: _find(page, selector).fill(" ".join(text)),
    "type": lambda page, selector, *text: _find(page, selector).press_sequentially(" ".join(text)),
    "select": lambda page, selector, value: _find(page, selector).select_option(value),
    "check": lambda page, selector: _find(page, selector).check(),
    "uncheck": lambda page, selector: _find(page, selector).uncheck(),
    "press": lambda page, key: page.keyboard.press(key),
    "scroll": _scroll,
    "wait": _wait,
    "eval": _evaluate,
    "screenshot": _screenshot,
    "pdf": _pdf,
    "close": _close,
    "get": _get,
}


async def _run(command: str, arguments: list[str]) -> str:
    async with async_playwright() as driver:
        browser = await driver.chromium.connect_over_cdp(os.environ["CDP_URL"])
        context = browser.contexts[0]
        page = context.pages[-1] if context.pages else await context.new_page()
        page.set_default_timeout(_LATER_MS)
        said = await _COMMANDS[command](page, *arguments)
    return said if isinstance(said, str) else "Done"


def main(arguments: list[str]) -> int:
    """Do one step. Return 1 if it failed, 2 for wrong use."""
    if not arguments or arguments[0] not in _COMMANDS:
        sys.stderr.write(f"{_USAGE}\n")
        return 2
    try:
        said = asyncio.run(_run(arguments[0], arguments[1:]))
    except (Error, ValueError, TypeError) as exc:
        sys.stderr.write(f"{str(exc).partition('Call log')[0].strip()}\n")
        return 1
    sys.stdout.write(f"{said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
