"""Every page that could be scraped becomes a row in pages.db. For each URL the last page that arrived is kept.

Run it, and send it a crawl from another terminal with `receiver send crawl --pages 10`:

    receiver serve --handlers examples.pages_to_sqlite:router
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from receiver import Context, Router
from receiver.events import PageEvent

DATABASE = Path("pages.db")

CREATE = """
create table if not exists pages (
    url text primary key, status integer, markdown text not null, job_id text, received_at text not null
)
"""

# A handler runs at least once, and in any order. So the key of the row is its URL, running again writes the same
# values, and a delivery that arrived earlier never replaces one that arrived later.
UPSERT = """
insert into pages values (?, ?, ?, ?, ?)
on conflict (url) do update set status = excluded.status, markdown = excluded.markdown,
    job_id = excluded.job_id, received_at = excluded.received_at
where excluded.received_at >= received_at
"""

router = Router()


@router.on(PageEvent, where=lambda event: event.url and not event.failed)
def save(event: PageEvent, ctx: Context) -> None:
    """Insert the page, or update its row."""
    # The service may cut a text in the middle of a character, and SQLite stores whole characters only.
    markdown = (event.data[0].markdown or "").encode("utf-8", "replace").decode()
    received_at = ctx.delivery.received_at.isoformat(timespec="microseconds")
    with closing(sqlite3.connect(DATABASE, timeout=10)) as db, db:
        db.execute(CREATE)
        db.execute(UPSERT, (event.url, event.status_code, markdown, event.job_id, received_at))
