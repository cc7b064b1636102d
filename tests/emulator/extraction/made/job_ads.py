"""Job ads and lists of them."""

# ruff: noqa: E501 - lines of HTML

from tests.emulator.extraction.made.forms import MadePage, json_ld

JOB_ADS = (
    MadePage(
        "job ad with JSON-LD",
        "<main><h1>Join us</h1><p>We build pumps.</p></main>",
        {"title": "text", "company": "text", "city": "text", "country": "text", "employment_type": "text",
         "salary_min": "number", "salary_max": "number", "currency": "text", "posted": "date", "remote": "flag"},
        {"title": "Pump engineer", "company": "Quiet Pumps", "city": "Leith", "country": "GB",
         "employment_type": "FULL_TIME", "salary_min": 41000, "salary_max": 52000, "currency": "GBP",
         "posted": "2026-07-01", "remote": None},
        head=json_ld(
            '{"@type":"JobPosting","title":"Pump engineer","datePosted":"2026-07-01","employmentType":"FULL_TIME",'
            '"hiringOrganization":{"@type":"Organization","name":"Quiet Pumps"},"jobLocation":{"@type":"Place",'
            '"address":{"@type":"PostalAddress","addressLocality":"Leith","addressCountry":"GB"}},"baseSalary":'
            '{"@type":"MonetaryAmount","currency":"GBP","value":{"@type":"QuantitativeValue","minValue":41000,'
            '"maxValue":52000,"unitText":"YEAR"}}}'
        ),
    ),
    MadePage(
        "job ad with labels",
        """<main><h1>Baker (night shift)</h1><p><strong>Company:</strong> Slow Bread Ltd</p>
        <p><strong>Location:</strong> Hull</p><p><strong>Salary:</strong> £29,500 per year</p>
        <p><strong>Employment type:</strong> Part-time</p><p><strong>Closing date:</strong> 30 September 2026</p>
        <h2>Requirements</h2><ul><li>Food hygiene certificate</li><li>Early riser</li></ul></main>""",
        {"title": "text", "company": "text", "location": "text", "salary": "number",
         "employment_type": "Full-time|Part-time", "closing_date": "date", "requirements": ["text"],
         "benefits": ["text"]},
        {"title": "Baker (night shift)", "company": "Slow Bread Ltd", "location": "Hull", "salary": 29500,
         "employment_type": "Part-time", "closing_date": "2026-09-30",
         "requirements": ["Food hygiene certificate", "Early riser"], "benefits": None},
    ),
    MadePage(
        "German job ad",
        """<main><h1>Tischler (m/w/d)</h1><table><tr><td>Arbeitgeber</td><td>Holz Kern KG</td></tr><tr><td>Standort</td>
        <td>Kassel</td></tr><tr><td>Gehalt</td><td>38.500 € pro Jahr</td></tr><tr><td>Arbeitszeit</td>
        <td>Vollzeit</td></tr><tr><td>Eintrittsdatum</td><td>01.10.2026</td></tr></table>
        <h2>Anforderungen</h2><ul><li>Gesellenbrief</li><li>Führerschein</li></ul></main>""",
        {"title": "text", "company": "text", "location": "text", "salary": "number", "working_hours": "text",
         "start_date": "date", "requirements": ["text"]},
        {"title": "Tischler (m/w/d)", "company": "Holz Kern KG", "location": "Kassel", "salary": 38500,
         "working_hours": "Vollzeit", "start_date": "2026-10-01", "requirements": ["Gesellenbrief", "Führerschein"]},
        language="de",
    ),
    MadePage(
        "table of jobs",
        """<main><h1>Open positions</h1><table><thead><tr><th>Position</th><th>Department</th><th>Location</th></tr>
        </thead><tbody><tr><td><a href="/jobs/1">Welder</a></td><td>Workshop</td><td>Hull</td></tr><tr>
        <td><a href="/jobs/2">Clerk</a></td><td>Office</td><td>Leith</td></tr></tbody></table></main>""",
        {"jobs": [{"position": "text", "department": "text", "location": "text"}]},
        {"jobs": [
            {"position": "Welder", "department": "Workshop", "location": "Hull"},
            {"position": "Clerk", "department": "Office", "location": "Leith"},
        ]},
    ),
    MadePage(
        "French job ad",
        """<main><h1>Boulanger</h1><ul><li><b>Entreprise :</b> Pain Lent</li><li><b>Lieu :</b> Lyon</li>
        <li><b>Salaire :</b> 2 150 € par mois</li><li><b>Type de contrat :</b> CDI</li></ul>
        <p>Téléphone : 04 72 00 00 00</p></main>""",
        {"title": "text", "company": "text", "location": "text", "salary": "number", "contract_type": "text",
         "phone": "text", "email": "text"},
        {"title": "Boulanger", "company": "Pain Lent", "location": "Lyon", "salary": 2150, "contract_type": "CDI",
         "phone": "04 72 00 00 00", "email": None},
        language="fr",
    ),
)  # fmt: skip
