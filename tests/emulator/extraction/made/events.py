"""Events and books."""

from tests.emulator.extraction.made.forms import MadePage, json_ld

EVENTS = (
    MadePage(
        "event with JSON-LD",
        "<main><h1>Fence fair</h1><p>Come and see.</p></main>",
        {"name": "text", "start_date": "date", "end_date": "date", "venue": "text", "city": "text",
         "ticket_price": "number", "organizer": "text", "performer": "text"},
        {"name": "Fence fair 2026", "start_date": "2026-09-01", "end_date": "2026-09-03", "venue": "Hall 4",
         "city": "Hull", "ticket_price": 15, "organizer": "Fence Guild", "performer": None},
        head=json_ld(
            '{"@type":"Event","name":"Fence fair 2026","startDate":"2026-09-01T09:00","endDate":"2026-09-03T18:00",'
            '"location":{"@type":"Place","name":"Hall 4","address":{"@type":"PostalAddress",'
            '"addressLocality":"Hull"}},"offers":{"@type":"Offer","price":"15.00","priceCurrency":"GBP"},'
            '"organizer":{"@type":"Organization","name":"Fence Guild"}}'
        ),
    ),
    MadePage(
        "events with microdata",
        """<main><h1>Programme</h1><div itemscope itemtype="https://schema.org/Event"><h2 itemprop="name">Choir</h2>
        <time itemprop="startDate" datetime="2026-10-05">5 Oct</time><span itemprop="location">Church</span></div>
        <div itemscope itemtype="https://schema.org/Event"><h2 itemprop="name">Brass</h2>
        <time itemprop="startDate" datetime="2026-10-12">12 Oct</time><span itemprop="location">Market</span></div>
        </main>""",
        {"events": [{"name": "text", "date": "date", "location": "text"}]},
        {"events": [
            {"name": "Choir", "date": "2026-10-05", "location": "Church"},
            {"name": "Brass", "date": "2026-10-12", "location": "Market"},
        ]},
    ),
    MadePage(
        "event with labels",
        """<main><h1>Evening of slow bread</h1><p><b>Date:</b> 14 September 2026</p><p><b>Time:</b> 19:30</p>
        <p><b>Venue:</b> The Old Mill</p><p><b>Admission:</b> free</p><p>Doors open at 19:00.</p></main>""",
        {"title": "text", "date": "date", "time": "text", "venue": "text", "admission": "text", "speaker": "text"},
        {"title": "Evening of slow bread", "date": "2026-09-14", "time": "19:30", "venue": "The Old Mill",
         "admission": "free", "speaker": None},
    ),
    MadePage(
        "French programme",
        """<main><h1>Concerts</h1><table><tr><th>Date</th><th>Artiste</th><th>Lieu</th><th>Tarif</th></tr><tr>
        <td>05/10/2026</td><td>Les Cuivres</td><td>Église</td><td>12 €</td></tr><tr><td>12/10/2026</td>
        <td>Chœur Aube</td><td>Marché</td><td>8,50 €</td></tr></table></main>""",
        {"concerts": [{"date": "date", "artist": "text", "venue": "text", "price": "number"}]},
        {"concerts": [
            {"date": "2026-10-05", "artist": "Les Cuivres", "venue": "Église", "price": 12},
            {"date": "2026-10-12", "artist": "Chœur Aube", "venue": "Marché", "price": 8.5},
        ]},
        language="fr",
    ),
    MadePage(
        "book",
        """<main itemscope itemtype="https://schema.org/Book"><h1 itemprop="name">The Patient Hinge</h1>
        <p>by <span itemprop="author">R. Ames</span></p><p>ISBN: <span itemprop="isbn">978-3-16-148410-0</span></p>
        <p>Pages: <span itemprop="numberOfPages">312</span></p><p>Publisher: Dock Press</p><p>Language: English</p>
        <p>First published: 2019</p></main>""",
        {"title": "text", "author": "text", "isbn": "text", "pages": "whole", "publisher": "text",
         "language": "text", "translator": "text"},
        {"title": "The Patient Hinge", "author": "R. Ames", "isbn": "978-3-16-148410-0", "pages": 312,
         "publisher": "Dock Press", "language": "English", "translator": None},
    ),
)  # fmt: skip
