"""Articles, posts and recipes."""

# ruff: noqa: E501 - lines of HTML

from tests.emulator.extraction.made.forms import MadePage, json_ld

ARTICLES = (
    MadePage(
        "news with JSON-LD",
        "<main><h1>Harbour reopens</h1><p>The harbour opened again on Monday.</p></main>",
        {"headline": "text", "author": "text", "published": "date", "modified": "date", "publisher": "text",
         "section": "text", "tags": ["text"]},
        {"headline": "Harbour reopens after storm", "author": "Person One", "published": "2026-08-03",
         "modified": "2026-08-04", "publisher": "Coast Daily", "section": "Local", "tags": ["harbour", "storm"]},
        head=json_ld(
            '{"@type":"NewsArticle","headline":"Harbour reopens after storm","datePublished":"2026-08-03T07:30:00Z",'
            '"dateModified":"2026-08-04T09:00:00Z","author":[{"@type":"Person","name":"Person One"}],'
            '"publisher":{"@type":"Organization","name":"Coast Daily"},"articleSection":"Local",'
            '"keywords":["harbour","storm"]}'
        ),
    ),
    MadePage(
        "article with meta tags",
        "<main><h1>On slow bread</h1><p>Bread takes time.</p></main>",
        {"title": "text", "author": "text", "published_at": "date", "description": "text", "image": "url",
         "reading_time": "text"},
        {"title": "On slow bread", "author": "Person Two", "published_at": "2026-05-09",
         "description": "Why bread takes time.", "image": "https://img.example/bread.jpg", "reading_time": None},
        head="""<meta property="og:title" content="On slow bread"><meta name="author" content="Person Two">
        <meta property="article:published_time" content="2026-05-09T10:00:00+02:00">
        <meta name="description" content="Why bread takes time.">
        <meta property="og:image" content="https://img.example/bread.jpg">""",
    ),
    MadePage(
        "post with a byline",
        """<main><article><h1>Notes on hinges</h1><p class="byline">By Person Three</p>
        <p><time datetime="2026-03-14">March 14, 2026</time></p><p>Hinges are old. They turn.</p></article></main>""",
        {"title": "text", "author": "text", "date": "date", "comments": "whole"},
        {"title": "Notes on hinges", "author": "Person Three", "date": "2026-03-14", "comments": None},
    ),
    MadePage(
        "German article",
        """<main><article><h1>Der leise Fluss</h1><p class="autor">Von Person Vier</p>
        <p>Veröffentlicht am 3. August 2026</p><p>Rubrik: Natur</p><p>Der Fluss ist leise.</p></article></main>""",
        {"title": "text", "author": "text", "published": "date", "category": "text"},
        {"title": "Der leise Fluss", "author": "Person Vier", "published": "2026-08-03", "category": "Natur"},
        language="de",
    ),
    MadePage(
        "French post",
        """<main><article><h1>Le pain du matin</h1><p class="meta">Publié le 12 mars 2026 par Personne Cinq</p>
        <p>Catégorie : Cuisine</p><p>Le pain attend.</p></article></main>""",
        {"title": "text", "author": "text", "published": "date", "category": "text"},
        {"title": "Le pain du matin", "author": "Personne Cinq", "published": "2026-03-12", "category": "Cuisine"},
        language="fr",
    ),
    MadePage(
        "list of posts",
        """<main><h1>Blog</h1><div class="post"><h2><a href="/blog/one">First frost</a></h2>
        <time datetime="2026-01-10">10 January</time><p class="excerpt">It was cold.</p></div><div class="post">
        <h2><a href="/blog/two">Quiet pump</a></h2><time datetime="2026-02-20">20 February</time>
        <p class="excerpt">We could not hear it.</p></div></main>""",
        {"posts": [{"title": "text", "url": "url", "date": "date", "excerpt": "text"}]},
        {"posts": [
            {"title": "First frost", "url": "https://made.example/blog/one", "date": "2026-01-10",
             "excerpt": "It was cold."},
            {"title": "Quiet pump", "url": "https://made.example/blog/two", "date": "2026-02-20",
             "excerpt": "We could not hear it."},
        ]},
    ),
    MadePage(
        "recipe with JSON-LD",
        "<main><h1>Pea soup</h1><p>Warm and green.</p></main>",
        {"name": "text", "ingredients": ["text"], "servings": "whole", "calories": "whole", "rating": "number",
         "author": "text"},
        {"name": "Pea soup", "ingredients": ["300 g peas", "1 onion", "salt"], "servings": 4, "calories": 210,
         "rating": None, "author": "Mo"},
        head=json_ld(
            '{"@type":"Recipe","name":"Pea soup","recipeIngredient":["300 g peas","1 onion","salt"],'
            '"recipeYield":"4 servings","author":{"name":"Mo"},"nutrition":{"@type":"NutritionInformation",'
            '"calories":"210 calories"}}'
        ),
    ),
    MadePage(
        "recipe in plain HTML",
        """<main><h1>Flat bread</h1><p>Serves: 6</p><p>Preparation time: 25 minutes</p><h2>Ingredients</h2><ul>
        <li>500 g flour</li><li>300 ml water</li></ul><h2>Instructions</h2><ol><li>Mix.</li><li>Bake.</li></ol></main>""",
        {"name": "text", "servings": "whole", "prep_time": "text", "ingredients": ["text"], "steps": ["text"],
         "cuisine": "text"},
        {"name": "Flat bread", "servings": 6, "prep_time": "25 minutes",
         "ingredients": ["500 g flour", "300 ml water"], "steps": ["Mix.", "Bake."], "cuisine": None},
    ),
)  # fmt: skip
