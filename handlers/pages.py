"""Every page of a crawl or batch scrape becomes a Markdown file: output/pages/<host>/<path>.md.

- Each URL has its own file. It is the requested URL, before redirects. If the URL does not make a good file name,
  the name ends in `~` and a hash of the URL.
- The delivery that arrived last wins, in whatever order deliveries are handled: an older one does not replace a
  newer file.
- Pages that failed, or answered with a status of 400 or more, write nothing, so that an outage of the site does
  not delete older content. The job's summary lists them.
- A PDF that was not parsed (parsePDF false) is saved beside its Markdown file.
"""

import base64
from itertools import islice
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from handlers.files import front_matter, one_writer, output_folder, replace_file, safe_name, timestamp, unique_name
from receiver import Context, Router
from receiver.events import PageEvent

DEEPEST = 8
"""The most folders below the host. Deeper paths end in a hash, because the length of paths is limited."""

router = Router()


def worth_a_file(event: PageEvent) -> bool:
    """Return whether the event has a page with its real content."""
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
            ctx.log.info("not replaced, because a later delivery has written it: %s", path)
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
    """Return the page's Markdown, or a note about the other formats and how to read them."""
    page = event.data[0]
    if page.markdown is not None:
        return page.markdown
    formats = sorted(name for name in page.model_fields_set - {"metadata"} if getattr(page, name))
    has = ", ".join(formats) or "nothing else"
    return f"No Markdown came with this page. The delivery has {has}: `receiver events raw {ctx.delivery.id}`\n"


def unparsed_pdf(event: PageEvent) -> bytes | None:
    """Return the file if the page is a PDF, which the service sends in base64 instead of Markdown."""
    markdown = event.data[0].markdown or ""
    if not markdown.startswith("JVBERi0"):  # "%PDF-", the first line of every PDF: ISO 32000-1, section 7.5.2
        return None
    try:
        return base64.b64decode("".join(markdown.split()), validate=True)
    except ValueError:
        return None


def arrival_of(path: Path) -> str:
    """Return when the delivery of this file arrived; an empty text if there is no such file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            found = [line for line in islice(file, 20) if line.startswith("received_at: ")]
    except FileNotFoundError:
        return ""
    return found[0].removeprefix("received_at: ").strip(' "\n') if found else ""


def page_path(url: str) -> Path:
    """Return the path of a page's file below the folder of all pages. Each URL has its own path.

    `https://example.com/guides/winter` is `example.com/guides/winter.md`; a path that ends in a slash is
    `index.md` in its folder. If a URL has more than such a path can show (query, port, http, upper case, unusual
    characters, great length), a hash is in the name. No file has the name of a folder.
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
    except ValueError:  # for example brackets without an IPv6 address
        return SplitResult("", "", url, "", "")


def _in_ascii(host: str) -> str:
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


def _folder_name(text: str) -> str:
    """Return a safe name that no file of ours has, so that `/a` and `/a.md/b` can both be written."""
    name = safe_name(unquote(text))
    return f"{name}_" if name.endswith((".md", ".pdf")) else name


def _text(value: str | list[str] | None) -> str | None:
    return ", ".join(value) if isinstance(value, list) else value
