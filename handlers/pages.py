"""Every page of a crawl or batch scrape becomes a Markdown file: output/pages/<host>/<path>.md.

- A URL has one file, and no other URL writes it. It is the URL that was asked for, before redirects. Where the
  URL itself would not make a good file name, the name ends in `~` and a hash of the URL.
- The delivery that arrived last wins, in whatever order deliveries are handled: an older one that runs again
  leaves a newer file alone.
- Pages that failed, or answered with a status of 400 or more, write nothing, so that an outage of the site does
  not wipe out what was there. The job's summary lists them.
- A PDF that was not parsed (parsePDF false) is saved beside its Markdown file.
"""

import base64
from itertools import islice
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from handlers.files import (
    front_matter,
    one_writer,
    output_folder,
    replace_file,
    safe_name,
    timestamp,
    unique_name,
)
from receiver import Context, Router
from receiver.events import PageEvent

DEEPEST = 8
"""Folders below the host. What lies deeper is told apart by its hash: paths have a longest length too."""

router = Router()


def worth_a_file(event: PageEvent) -> bool:
    """Tell whether the event brings a page as its site meant it to be read."""
    return bool(event.data) and not event.failed and (event.status_code or 200) < 400


@router.on(PageEvent, where=worth_a_file)
def save_page(event: PageEvent, ctx: Context) -> None:
    """Write the page's file, unless a delivery that arrived later has written it."""
    folder = output_folder("pages")
    path = folder / page_path(event.url or f"delivery:{ctx.delivery.id}")
    pdf = unparsed_pdf(event)
    text = body(event, ctx) if pdf is None else f"[The PDF](<{path.stem}.pdf>) was not parsed.\n"
    content = f"{header(event, ctx)}\n{text}".encode("utf-8", "replace")
    with one_writer(folder):
        if arrival_of(path) > timestamp(ctx.delivery.received_at):
            ctx.log.info("left alone, a later delivery has written it: %s", path)
            return
        if pdf is not None:
            replace_file(path.with_suffix(".pdf"), pdf)
        replace_file(path, content)


def header(event: PageEvent, ctx: Context) -> str:
    """Return the front matter: what the page is, where it came from, and when."""
    metadata = event.data[0].metadata
    return front_matter(
        {
            "title": _text(metadata.title),
            "description": _text(metadata.description),
            "language": _text(metadata.language),
            "source_url": event.url,
            "url": metadata.url,
            "status_code": metadata.status_code,
            "content_type": metadata.content_type,
            "cached_at": timestamp(metadata.cached_at) if metadata.cached_at else None,
            "received_at": timestamp(ctx.delivery.received_at),
            "event": event.type,
            "job_id": event.job_id,
            "scrape_id": metadata.scrape_id,
            "delivery": ctx.delivery.id,
        }
    )


def body(event: PageEvent, ctx: Context) -> str:
    """Return the page's Markdown, or what there is instead and how to get at it."""
    page = event.data[0]
    if page.markdown is not None:
        return page.markdown
    formats = sorted(name for name in page.model_fields_set - {"metadata"} if getattr(page, name))
    has = ", ".join(formats) or "nothing else"
    return f"No Markdown came with this page. The delivery has {has}: `receiver events raw {ctx.delivery.id}`\n"


def unparsed_pdf(event: PageEvent) -> bytes | None:
    """Return the file, if the page is a PDF that came as base64 in place of Markdown."""
    markdown = event.data[0].markdown or ""
    if not markdown.startswith("JVBERi0"):  # "%PDF-", the first line of every PDF: ISO 32000-1, section 7.5.2
        return None
    try:
        return base64.b64decode("".join(markdown.split()), validate=True)
    except ValueError:
        return None


def arrival_of(path: Path) -> str:
    """Return when the delivery arrived that the file was written from, empty when there is no such file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            found = [line for line in islice(file, 20) if line.startswith("received_at: ")]
    except FileNotFoundError:
        return ""
    return found[0].removeprefix("received_at: ").strip(' "\n') if found else ""


def page_path(url: str) -> Path:
    """Return where a page belongs, relative to the folder of all pages: always inside it, one path per URL.

    `https://example.com/guides/winter` is `example.com/guides/winter.md`; a path that ends in a slash is
    `index.md` in its folder. What such a path cannot tell (query, port, http, upper case, odd characters, great
    length) is told by a hash in the name. No file is in the way of another one's folder.
    """
    parts = _split(url)
    if url == f"{parts.scheme}://{parts.netloc}":
        url += "/"  # the same address: RFC 3986, section 6.2.3
    host = _in_ascii(parts.netloc.rpartition("@")[2]) or "no-host"
    *above, last = parts.path.removeprefix("/").split("/")
    folders = [_folder_name(name) for name in (host, *above[:DEEPEST])]
    name = safe_name(last) if last else ""
    if url == "https://" + "/".join([*folders, name]) and name != "index":
        return Path(*folders, f"{name or 'index'}.md")
    return Path(*folders, unique_name(f"{unquote(last) or 'index'} {parts.query}", url) + ".md")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # brackets around what is no IPv6 address, and the like
        return SplitResult("", "", url, "", "")


def _in_ascii(host: str) -> str:
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


def _folder_name(text: str) -> str:
    """Return a safe name that no file of ours has, so that `/a` and `/a.md/b` can both be kept."""
    name = safe_name(unquote(text))
    return f"{name}_" if name.endswith((".md", ".pdf")) else name


def _text(value: str | list[str] | None) -> str | None:
    return ", ".join(value) if isinstance(value, list) else value
