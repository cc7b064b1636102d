"""Pages that were made after the rules, to see how the rules do on pages that nobody made them for."""

# ruff: noqa: E501 - lines of HTML

from tests.emulator.extraction.made.forms import MadePage, json_ld

UNSEEN = (
    MadePage(
        "restaurant with JSON-LD",
        "<main><h1>Zum Anker</h1><p>Fish and chips since 1970.</p></main>",
        {"name": "text", "cuisine": "text", "phone": "text", "street": "text", "city": "text", "price_range": "text",
         "rating": "number", "website": "url"},
        {"name": "Zum Anker", "cuisine": "Seafood", "phone": "+49 40 555", "street": "Kai 1", "city": "Hamburg",
         "price_range": "€€", "rating": None, "website": None},
        head=json_ld(
            '{"@type":"Restaurant","name":"Zum Anker","servesCuisine":"Seafood","telephone":"+49 40 555",'
            '"priceRange":"€€","address":{"@type":"PostalAddress","streetAddress":"Kai 1",'
            '"addressLocality":"Hamburg"}}'
        ),
    ),
    MadePage(
        "shop with many classes",
        """<div id="app"><div class="pdp"><div class="pdp-gallery"><img src="/img/9.jpg" alt="Boot"></div>
        <div class="pdp-info"><h1 class="pdp-info__name">Dock Boot</h1><div class="pdp-info__brand">Marlin</div>
        <div class="pdp-price"><span class="pdp-price__old">€150,00</span>
        <span class="pdp-price__current">€119,95</span></div><div class="pdp-stock">Only 3 left</div>
        <ul class="pdp-specs"><li><span>Material</span><span>Leather</span></li><li><span>Sole</span>
        <span>Rubber</span></li></ul></div></div><div class="related"><h2>You may also like</h2><div class="tile">
        <a href="/p/a">Sock</a><span class="tile-price">€9</span></div><div class="tile"><a href="/p/b">Lace</a>
        <span class="tile-price">€4</span></div></div></div>""",
        {"name": "text", "brand": "text", "current_price": "number", "old_price": "number", "material": "text",
         "sole": "text", "sku": "text", "image": "url"},
        {"name": "Dock Boot", "brand": "Marlin", "current_price": 119.95, "old_price": 150, "material": "Leather",
         "sole": "Rubber", "sku": None, "image": "https://made.example/img/9.jpg"},
    ),
    MadePage(
        "German events",
        """<main><h1>Termine</h1><div class="termin"><h3>Flohmarkt</h3><p>Datum: 05.09.2026</p><p>Ort: Rathaus</p>
        <p>Eintritt: frei</p></div><div class="termin"><h3>Lesung</h3><p>Datum: 12.09.2026</p><p>Ort: Bücherei</p>
        <p>Eintritt: 5 €</p></div></main>""",
        {"events": [{"title": "text", "date": "date", "location": "text", "ticket_price": "text"}]},
        {"events": [
            {"title": "Flohmarkt", "date": "2026-09-05", "location": "Rathaus", "ticket_price": "frei"},
            {"title": "Lesung", "date": "2026-09-12", "location": "Bücherei", "ticket_price": "5 €"},
        ]},
        language="de",
    ),
    MadePage(
        "film",
        """<main><h1>The Long Pier (2024)</h1><ul class="info"><li>Director: Mia Holt</li><li>Runtime: 104 min</li>
        <li>Genre: Drama</li><li>Rating: 7.8/10</li></ul><h2>Cast</h2><ul><li>Ola Berg</li><li>Sam Pike</li></ul>
        <h2>Plot</h2><p>A pier is built. It takes long.</p></main>""",
        {"title": "text", "director": "text", "runtime": "whole", "genre": "text", "rating": "number",
         "cast": ["text"], "plot": "text", "budget": "number"},
        {"title": "The Long Pier (2024)", "director": "Mia Holt", "runtime": 104, "genre": "Drama", "rating": 7.8,
         "cast": ["Ola Berg", "Sam Pike"], "plot": "A pier is built. It takes long.", "budget": None},
    ),
    MadePage(
        "league table",
        """<main><h1>League</h1><table class="standings"><thead><tr><th>#</th><th>Team</th><th>Played</th>
        <th>Points</th></tr></thead><tbody><tr><td>1</td><td>Reds</td><td>12</td><td>30</td></tr><tr><td>2</td>
        <td>Blues</td><td>12</td><td>27</td></tr></tbody></table></main>""",
        {"standings": [{"team": "text", "games_played": "whole", "points": "whole"}]},
        {"standings": [
            {"team": "Reds", "games_played": 12, "points": 30},
            {"team": "Blues", "games_played": 12, "points": 27},
        ]},
    ),
    MadePage(
        "French house",
        """<main><h1>Maison à Lyon</h1><p class="prix">412 000 €</p><ul><li>Surface habitable : 120 m²</li>
        <li>Pièces : 6</li><li>Année de construction : 1962</li></ul><p>Agence : Toits du Rhône</p>
        <p>Tél. : 04 78 11 22 33</p></main>""",
        {"title": "text", "price": "number", "living_area": "number", "rooms": "whole", "year_built": "whole",
         "agency": "text", "phone": "text"},
        {"title": "Maison à Lyon", "price": 412000, "living_area": 120, "rooms": 6, "year_built": 1962,
         "agency": "Toits du Rhône", "phone": "04 78 11 22 33"},
        language="fr",
    ),
    MadePage(
        "team page",
        """<main><h1>Our team</h1><div class="person"><img src="/t/1.jpg"><h4>Person One</h4><p class="role">Baker</p>
        <a href="mailto:one@cycles.example">E-mail</a></div><div class="person"><img src="/t/2.jpg"><h4>Person Two</h4>
        <p class="role">Mechanic</p><a href="mailto:two@cycles.example">E-mail</a></div></main>""",
        {"team": [{"name": "text", "role": "text", "email": "text"}]},
        {"team": [
            {"name": "Person One", "role": "Baker", "email": "one@cycles.example"},
            {"name": "Person Two", "role": "Mechanic", "email": "two@cycles.example"},
        ]},
    ),
    MadePage(
        "text without data",
        """<main><article><h1>Why we fish</h1><p>In 1987 my father bought a boat for 400 pounds. He sold it in 1992.</p>
        <p>The price of fish rose by 3 percent. Call it luck.</p></article></main>""",
        {"title": "text", "price": "number", "author": "text", "published": "date", "rating": "number"},
        {"title": "Why we fish", "price": None, "author": None, "published": None, "rating": None},
    ),
)  # fmt: skip
