"""Products and lists of products."""

# ruff: noqa: E501 - lines of HTML

from tests.emulator.extraction.made.forms import MadePage, json_ld

SHOPS = (
    MadePage(
        "product with JSON-LD",
        "<main><h1>Trail Runner 3</h1><p>Was £120, now £89.50!</p><p>Free delivery over £50.</p></main>",
        {
            "name": "text", "price": "number", "currency": "text", "in_stock": "flag", "brand": "text",
            "rating": "number", "review_count": "whole", "sku": "text", "gtin": "text",
        },
        {
            "name": "Trail Runner 3", "price": 89.5, "currency": "GBP", "in_stock": True, "brand": "Fellwind",
            "rating": 4.4, "review_count": 318, "sku": "FW-TR3", "gtin": None,
        },
        head=json_ld(
            '{"@context":"https://schema.org","@type":"Product","name":"Trail Runner 3","sku":"FW-TR3",'
            '"brand":{"@type":"Brand","name":"Fellwind"},"offers":{"@type":"Offer","price":"89.50",'
            '"priceCurrency":"GBP","availability":"https://schema.org/InStock"},'
            '"aggregateRating":{"@type":"AggregateRating","ratingValue":"4.4","reviewCount":"318"}}'
        ),
    ),
    MadePage(
        "product with microdata",
        """<main itemscope itemtype="https://schema.org/Product"><h1 itemprop="name">Kettle K2</h1>
        <img itemprop="image" src="/k2.jpg" alt=""><p itemprop="description">A quiet kettle.</p>
        <div itemprop="offers" itemscope itemtype="https://schema.org/Offer">
        <span itemprop="priceCurrency" content="EUR">€</span><span itemprop="price" content="49.90">49,90</span>
        <link itemprop="availability" href="https://schema.org/OutOfStock">sold out</div></main>""",
        {"title": "text", "description": "text", "price": "number", "currency": "text", "available": "flag",
         "image_url": "url", "weight": "text"},
        {"title": "Kettle K2", "description": "A quiet kettle.", "price": 49.9, "currency": "EUR",
         "available": False, "image_url": "https://made.example/k2.jpg", "weight": None},
    ),
    MadePage(
        "product with classes alone",
        """<main class="product"><h1 class="product-title">Oak Desk</h1><div class="price-box">
        <del class="old-price">$399.00</del> <span class="price">$349.00</span></div>
        <p class="sku">SKU: OD-140</p><p class="availability">In stock</p>
        <div class="description">Solid oak, 140 cm wide.</div><p>Shipping costs: $29</p></main>""",
        {"name": "text", "price": "number", "sku": "text", "in_stock": "flag", "shipping_costs": "number",
         "warranty": "text"},
        {"name": "Oak Desk", "price": 349, "sku": "OD-140", "in_stock": True, "shipping_costs": 29,
         "warranty": None},
    ),
    MadePage(
        "German product",
        """<main><h1>Wasserkocher Alba</h1><dl><dt>Preis</dt><dd>1.049,00 €</dd><dt>Artikelnummer</dt>
        <dd>WK-77</dd><dt>Hersteller</dt><dd>Albrecht GmbH</dd><dt>Gewicht</dt><dd>1,2 kg</dd>
        <dt>Farbe</dt><dd>Schwarz</dd><dt>Lieferzeit</dt><dd>3 Tage</dd></dl><p>Verfügbarkeit: Auf Lager</p></main>""",
        {"name": "text", "price": "number", "sku": "text", "manufacturer": "text", "weight": "number",
         "color": "text", "delivery_time": "text", "in_stock": "flag", "material": "text"},
        {"name": "Wasserkocher Alba", "price": 1049, "sku": "WK-77", "manufacturer": "Albrecht GmbH",
         "weight": 1.2, "color": "Schwarz", "delivery_time": "3 Tage", "in_stock": True, "material": None},
        language="de",
    ),
    MadePage(
        "French product",
        """<main><h1>Lampe Aube</h1><table><tr><th>Prix</th><td>59,90 €</td></tr><tr><th>Marque</th>
        <td>Lumen</td></tr><tr><th>Couleur</th><td>Blanc</td></tr><tr><th>Référence</th><td>LA-9</td></tr>
        <tr><th>Poids</th><td>0,8 kg</td></tr></table><p>Disponibilité : En stock</p></main>""",
        {"name": "text", "price": "number", "brand": "text", "color": "text", "sku": "text", "weight": "number",
         "in_stock": "flag"},
        {"name": "Lampe Aube", "price": 59.9, "brand": "Lumen", "color": "Blanc", "sku": "LA-9", "weight": 0.8,
         "in_stock": True},
        language="fr",
    ),
    MadePage(
        "list of products",
        """<main><h1>Chairs</h1><ul class="products"><li class="product"><h3>Beech Chair</h3>
        <span class="price">$80</span><a href="/p/1">View</a></li><li class="product"><h3>Ash Chair</h3>
        <span class="price">$95.50</span><a href="/p/2">View</a></li><li class="product"><h3>Pine Chair</h3>
        <span class="price">$60</span><a href="/p/3">View</a></li></ul></main>""",
        {"products": [{"name": "text", "price": "number", "url": "url"}]},
        {"products": [
            {"name": "Beech Chair", "price": 80, "url": "https://made.example/p/1"},
            {"name": "Ash Chair", "price": 95.5, "url": "https://made.example/p/2"},
            {"name": "Pine Chair", "price": 60, "url": "https://made.example/p/3"},
        ]},
    ),
    MadePage(
        "cards of products",
        """<main><div class="grid"><article class="card"><a href="/tea/1"><h2 class="card__title">Assam</h2></a>
        <p class="card__rating">4.5</p><p class="card__price">€7.20</p></article><article class="card">
        <a href="/tea/2"><h2 class="card__title">Darjeeling</h2></a><p class="card__rating">4.8</p>
        <p class="card__price">€9.40</p></article></div></main>""",
        {"teas": [{"title": "text", "rating": "number", "price": "number", "origin": "text"}]},
        {"teas": [
            {"title": "Assam", "rating": 4.5, "price": 7.2, "origin": None},
            {"title": "Darjeeling", "rating": 4.8, "price": 9.4, "origin": None},
        ]},
    ),
    MadePage(
        "product with OpenGraph",
        "<main><h1>Sketchbook A5</h1><p>80 pages of heavy paper.</p></main>",
        {"title": "text", "price": "number", "currency": "text", "image": "url", "site_name": "text",
         "availability": "text"},
        {"title": "Sketchbook A5", "price": 12.5, "currency": "CHF", "image": "https://img.example/a5.png",
         "site_name": "Paper House", "availability": "in stock"},
        head="""<meta property="og:title" content="Sketchbook A5"><meta property="og:site_name" content="Paper House">
        <meta property="og:image" content="https://img.example/a5.png">
        <meta property="product:price:amount" content="12.50"><meta property="product:price:currency" content="CHF">
        <meta property="product:availability" content="in stock">""",
    ),
    MadePage(
        "German list with JSON-LD",
        "<main><h1>Unsere Tische</h1><p>Ab 99 € und versandkostenfrei.</p></main>",
        {"items": [{"name": "text", "price": "number", "currency": "text"}]},
        {"items": [
            {"name": "Tisch Linde", "price": 249, "currency": "EUR"},
            {"name": "Tisch Birke", "price": 199.5, "currency": "EUR"},
        ]},
        head=json_ld(
            '{"@type":"ItemList","itemListElement":[{"@type":"ListItem","position":1,"item":{"@type":"Product",'
            '"name":"Tisch Linde","offers":{"price":249,"priceCurrency":"EUR"}}},{"@type":"ListItem","position":2,'
            '"item":{"@type":"Product","name":"Tisch Birke","offers":{"price":199.5,"priceCurrency":"EUR"}}}]}'
        ),
        language="de",
    ),
    MadePage(
        "specifications",
        """<main><h1>Camera X200</h1><h2>Specifications</h2><table><tr><td>Resolution</td><td>24 megapixels</td></tr>
        <tr><td>Weight</td><td>512 g</td></tr><tr><td>Width</td><td>131 mm</td></tr><tr><td>Height</td>
        <td>89 mm</td></tr><tr><td>Depth</td><td>63 mm</td></tr><tr><td>Battery life</td><td>410 shots</td></tr>
        <tr><td>Weather sealed</td><td>Yes</td></tr><tr><td>Wi-Fi</td><td>No</td></tr></table></main>""",
        {"model": "text", "resolution": "number", "battery_life": "whole", "weather_sealed": "flag", "wifi": "flag",
         "dimensions": {"width": "number", "height": "number", "depth": "number"}, "gps": "flag"},
        {"model": "Camera X200", "resolution": 24, "battery_life": 410, "weather_sealed": True, "wifi": False,
         "dimensions": {"width": 131, "height": 89, "depth": 63}, "gps": None},
    ),
)  # fmt: skip
