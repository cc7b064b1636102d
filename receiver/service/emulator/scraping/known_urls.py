"""The URLs of a site that a team has scraped before."""

import sqlite3

from receiver.service.emulator.fetching.web_urls import host_of, registrable_domain, split_web_url
from receiver.service.emulator.state.database import StateDatabase

_MOST = 10_000
_FIND = """
SELECT DISTINCT url FROM page_history
WHERE team = ? AND instr(url, ?) > 0 AND coalesce(json_extract(page, '$.status'), 200) < 400
ORDER BY url LIMIT ?
"""


class KnownUrls:
    """Looks into the history of scrapes."""

    def __init__(self, database: StateDatabase) -> None:
        self._database = database

    async def of_site(self, team: str, url: str) -> list[str]:
        """Return up to 10,000 URLs with the domain of this one in them; pages that were not there are left out."""
        parts = split_web_url(url)
        if parts is None:
            return []
        domain = registrable_domain(host_of(parts))

        def find(connection: sqlite3.Connection) -> list[str]:
            return [str(row[0]) for row in connection.execute(_FIND, (team, domain, _MOST))]

        return await self._database.run(find)
