"""Tables of many shapes."""

# ruff: noqa: E501 - lines of HTML

from tests.emulator.extraction.made.forms import MadePage

TABLES = (
    MadePage(
        "plans in columns",
        """<main><h1>Pricing</h1><table><tr><th></th><th>Free</th><th>Team</th><th>Company</th></tr>
        <tr><th>Price</th><td>$0</td><td>$12</td><td>$49.50</td></tr><tr><th>Users</th><td>1</td><td>10</td>
        <td>250</td></tr><tr><th>Support</th><td>Forum</td><td>E-mail</td><td>Phone</td></tr></table></main>""",
        {"plans": [{"name": "text", "price": "number", "users": "whole", "support": "text"}]},
        {"plans": [
            {"name": "Free", "price": 0, "users": 1, "support": "Forum"},
            {"name": "Team", "price": 12, "users": 10, "support": "E-mail"},
            {"name": "Company", "price": 49.5, "users": 250, "support": "Phone"},
        ]},
    ),
    MadePage(
        "table of cities",
        """<main><h1>Cities</h1><table><caption>Largest cities</caption><tr><th>City</th><th>Population</th>
        <th>Area (km²)</th></tr><tr><td>Northam</td><td>1,234,567</td><td>310.5</td></tr><tr><td>Eastby</td>
        <td>845,020</td><td>198</td></tr></table><table><tr><th>Rank</th><th>Team</th></tr><tr><td>1</td>
        <td>Reds</td></tr></table></main>""",
        {"cities": [{"city": "text", "population": "whole", "area": "number"}]},
        {"cities": [
            {"city": "Northam", "population": 1234567, "area": 310.5},
            {"city": "Eastby", "population": 845020, "area": 198},
        ]},
    ),
    MadePage(
        "table without head cells",
        """<main><h1>Boats</h1><table border="1"><tr><td><b>Boat</b></td><td><b>Length</b></td><td><b>Built</b></td></tr>
        <tr><td>Ada</td><td>12 m</td><td>1998</td></tr><tr><td>Bea</td><td>9.5 m</td><td>2011</td></tr></table></main>""",
        {"boats": [{"boat": "text", "length": "number", "built": "whole"}]},
        {"boats": [{"boat": "Ada", "length": 12, "built": 1998}, {"boat": "Bea", "length": 9.5, "built": 2011}]},
    ),
    MadePage(
        "German price list",
        """<main><h1>Preisliste</h1><table><tr><th>Leistung</th><th>Dauer</th><th>Preis</th></tr><tr>
        <td>Haarschnitt</td><td>30 min</td><td>28,00 €</td></tr><tr><td>Färben</td><td>90 min</td>
        <td>65,50 €</td></tr></table></main>""",
        {"services": [{"service": "text", "duration": "whole", "price": "number"}]},
        {"services": [
            {"service": "Haarschnitt", "duration": 30, "price": 28},
            {"service": "Färben", "duration": 90, "price": 65.5},
        ]},
        language="de",
    ),
    MadePage(
        "timetable",
        """<main><h1>Line 7</h1><h2>Departures</h2><table><thead><tr><th>Departure time</th><th>Destination</th>
        <th>Platform</th></tr></thead><tr><td>08:15</td><td>Harbour</td><td>2</td></tr><tr><td>08:45</td>
        <td>Airport</td><td>4</td></tr></table></main>""",
        {"line": "text", "departures": [{"time": "text", "destination": "text", "platform": "whole"}],
         "operator": "text"},
        {"line": "Line 7", "departures": [
            {"time": "08:15", "destination": "Harbour", "platform": 2},
            {"time": "08:45", "destination": "Airport", "platform": 4},
        ], "operator": None},
    ),
)  # fmt: skip
