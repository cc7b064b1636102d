"""Pages about companies, programs, houses and people."""

# ruff: noqa: E501 - lines of HTML

from tests.emulator.extraction.made.forms import MadePage

COMPANIES = (
    MadePage(
        "contact page",
        """<main><h1>Contact</h1><p>Call us at <a href="tel:+441482000111">+44 1482 000111</a> or write to
        <a href="mailto:hello@hinges.example">hello@hinges.example</a>.</p>
        <address>Hinge House, 4 Dock Street, Hull</address><p>Opening hours: Mon-Fri 9:00-17:00</p>
        <a href="https://social.example/hinges">Follow us</a></main>""",
        {"phone": "text", "email": "text", "address": "text", "opening_hours": "text", "fax": "text"},
        {"phone": "+44 1482 000111", "email": "hello@hinges.example",
         "address": "Hinge House, 4 Dock Street, Hull", "opening_hours": "Mon-Fri 9:00-17:00", "fax": None},
    ),
    MadePage(
        "German imprint",
        """<main><h1>Impressum</h1><p>Firma: Holz Kern KG</p><p>Geschäftsführer: Person Sechs</p>
        <p>Handelsregister: HRA 1234</p><p>USt-IdNr.: DE123456789</p><p>Telefon: 0561 12345</p>
        <p>E-Mail: post@kern.example</p><p>Anschrift: Am Markt 3, 34117 Kassel</p></main>""",
        {"company": "text", "managing_director": "text", "register_number": "text", "vat_id": "text",
         "phone": "text", "email": "text", "address": "text", "bank": "text"},
        {"company": "Holz Kern KG", "managing_director": "Person Sechs", "register_number": "HRA 1234",
         "vat_id": "DE123456789", "phone": "0561 12345", "email": "post@kern.example",
         "address": "Am Markt 3, 34117 Kassel", "bank": None},
        language="de",
    ),
    MadePage(
        "company profile",
        """<main><h1>Harbour Cycles</h1><p>Founded: 2011</p><p>Employees: 42</p><p>Director: Person One</p>
        <p>Revenue: $3.5 million</p><h2>Mission</h2><p>Bikes that last.</p><h2>Offices</h2><ul><li>Leith</li>
        <li>Hull</li></ul></main>""",
        {"company": "text", "founded": "whole", "employees": "whole", "director": "text", "revenue": "number",
         "mission": "text", "offices": ["text"], "stock_symbol": "text"},
        {"company": "Harbour Cycles", "founded": 2011, "employees": 42, "director": "Person One", "revenue": 3500000,
         "mission": "Bikes that last.", "offices": ["Leith", "Hull"], "stock_symbol": None},
    ),
    MadePage(
        "program",
        """<main><h1>Fencer</h1><p>A linter for fences.</p><table><tr><th>Latest version</th><td>2.4.1</td></tr>
        <tr><th>License</th><td>MIT</td></tr><tr><th>Released</th><td>2026-06-11</td></tr><tr><th>Downloads</th>
        <td>12,400</td></tr></table><p><a href="/fencer-2.4.1.tar.gz">Download</a></p></main>""",
        {"name": "text", "version": "text", "license": "text", "released": "date", "downloads": "whole",
         "download_url": "url", "maintainer": "text"},
        {"name": "Fencer", "version": "2.4.1", "license": "MIT", "released": "2026-06-11", "downloads": 12400,
         "download_url": "https://made.example/fencer-2.4.1.tar.gz", "maintainer": None},
    ),
    MadePage(
        "questions and answers",
        """<main><h1>FAQ</h1><h3>Do you ship abroad?</h3><p>Yes, to all of Europe.</p><h3>How long does it take?</h3>
        <p>Three days.</p><h3>Can I return it?</h3><p>Within 30 days.</p></main>""",
        {"questions": [{"question": "text", "answer": "text"}]},
        {"questions": [
            {"question": "Do you ship abroad?", "answer": "Yes, to all of Europe."},
            {"question": "How long does it take?", "answer": "Three days."},
            {"question": "Can I return it?", "answer": "Within 30 days."},
        ]},
    ),
    MadePage(
        "German house",
        """<main><h1>Einfamilienhaus in Kassel</h1><div class="facts"><div class="fact"><span>Kaufpreis</span>
        <span>349.000 €</span></div><div class="fact"><span>Wohnfläche</span><span>142,5 m²</span></div>
        <div class="fact"><span>Zimmer</span><span>5</span></div><div class="fact"><span>Baujahr</span>
        <span>1987</span></div></div></main>""",
        {"title": "text", "price": "number", "living_area": "number", "rooms": "whole", "year_built": "whole",
         "garden": "flag"},
        {"title": "Einfamilienhaus in Kassel", "price": 349000, "living_area": 142.5, "rooms": 5,
         "year_built": 1987, "garden": None},
        language="de",
    ),
    MadePage(
        "nothing of it",
        """<main><h1>Thank you</h1><p>We have received your message and will answer within two days.</p>
        <p>The number of our ticket system is 4711, and 3 people work here.</p></main>""",
        {"price": "number", "author": "text", "isbn": "text", "rating": "number", "phone": "text"},
        None,
    ),
)  # fmt: skip
