"""Names of properties as words: `datePublished`, `date_published` and `Date published` are one name.

Words of pages in English, German and French have groups of the same meaning. Dates are read in these languages.
"""

import re
from datetime import date
from functools import lru_cache

GROUPS = """
title name headline pagetitle ogtitle h1 titel überschrift nom titre bezeichnung
description summary abstract ogdescription metadescription beschreibung excerpt teaser résumé
price priceamount
price lowprice cost currentprice saleprice finalprice preis kaufpreis verkaufspreis kosten prix tarif coût
currency pricecurrency currencycode währung devise
author creator byline writer articleauthor autor verfasser verfasserin auteur autrice
date datepublished published publishedat publishdate publicationdate publishedtime dateposted posted postedat
date startdate datum publié veröffentlicht veröffentlicht_am publiéle datecreated articlepublishedtime
datemodified modified updated updatedat lastmodified lastupdated modifiedtime aktualisiert geändert mis_à_jour
startdate start begin eintrittsdatum beginn startsat début date_de_début
enddate end ende endsat fin date_de_fin
closingdate deadline validthrough applyby bewerbungsfrist date_limite
image imageurl thumbnail thumbnailurl ogimage photo picture bild img
url link href canonicalurl pageurl ogurl adresse_web webseite
brand manufacturer maker vendor marke hersteller marque fabricant
rating ratingvalue averagerating star score bewertung note
reviewcount ratingcount numberofreviews numberofratings review anzahlbewertungen nombre_d_avis
phone telephone phonenumber tel tél telefon telefonnummer téléphone
fax faxnumber telefax télécopie
email mail emailaddress courriel
address streetaddress adresse anschrift
city addresslocality town ort stadt ville locality
country addresscountry land pays
postalcode zip zipcode plz codepostal
region state addressregion
availability instock stock available verfügbarkeit lagerbestand disponibilité
sku productid articlenumber mpn artikelnummer artikelnr référence bestellnummer itemnumber productcode
color colour farbe couleur
weight gewicht poids
size größe taille
width breite largeur
height höhe hauteur
depth tiefe profondeur
length länge longueur
material werkstoff matière matériau
deliverytime lieferzeit délai_de_livraison
company organization employer hiringorganization firma unternehmen arbeitgeber entreprise companyname société
publisher verlag éditeur
salary pay basesalary compensation wage gehalt lohn vergütung salaire rémunération
salarymin minsalary salaryfrom base_salary_value_min_value gehalt_ab
salarymax maxsalary salaryto base_salary_value_max_value gehalt_bis
ticketprice offers_price entryfee eintritt eintrittspreis admissionfee
employmenttype jobtype contracttype anstellungsart beschäftigungsart type_de_contrat contrat
workinghours arbeitszeit workhours horaires temps_de_travail
location place venue joblocation standort ort lieu arbeitsort veranstaltungsort
requirement anforderung anforderungen voraussetzungen qualification prérequis exigence profil
benefit wir_bieten vorteile leistungen avantage
language inlanguage lang sprache langue
tag keyword schlagwort schlagwörter mot_clé
category section articlesection rubrik kategorie catégorie rubrique genre
content text body articlebody
sitename ogsitename
service leistung prestation
duration dauer durée
artist artiste künstler performer interprète
organizer veranstalter organisateur
time departuretime uhrzeit heure
step instruction direction method preparation zubereitung schritte anleitung étape préparation recipeinstruction
ingredient recipeingredient zutat zutaten ingrédient
serving serve yield recipeyield portion personne servingsize
preptime preparationtime zubereitungszeit vorbereitungszeit temps_de_préparation
cooktime cookingtime kochzeit backzeit temps_de_cuisson
calorie energy kalorien
livingarea wohnfläche floorsize surface_habitable floorarea
room zimmer numberofrooms pièce
yearbuilt baujahr builtin constructionyear année_de_construction
managingdirector geschäftsführer geschäftsführerin gérant gérante
registernumber handelsregister commercialregister rcs
vatid vatnumber ustid ustidnr umsatzsteueridentifikationsnummer numéro_tva tva
openinghours öffnungszeiten horaires_d_ouverture businesshours
founded foundingdate foundedin gegründet gründungsjahr fondé_en gründung established
employee numberofemployee mitarbeiter salarié staff
ceo chiefexecutive chiefexecutiveofficer
version softwareversion latestversion currentversion
license licence lizenz
released releasedate veröffentlichungsdatum date_de_sortie
page numberofpages pagecount seiten seitenzahl
email epost
question frage
answer antwort réponse acceptedanswer
department abteilung service
position jobtitle stelle poste
agency agence agentur makler
warranty garantie gewährleistung
phone mobile handy portable
"""
"""One group of names in each line, with `_` between the words of a name."""
_QUALIFIERS = """old original previous former regular compare shipping delivery postage handling min minimum max
maximum lowest highest total subtotal tax vat discount saving unit deposit average second third last next first alt
billing mobile home work company parent related monthly yearly annual start end closing birth death"""
QUALIFIERS = frozenset(_QUALIFIERS.split())
"""Words that change the meaning of a name: an old price is not the price."""
_YES = """true;yes;y;on;available;instock;in stock;ja;oui;✓;✔;1;auf lager;lieferbar;sofort lieferbar;verfügbar;
vorrätig;en stock;disponible;vrai;wahr"""
TRUE_WORDS = frozenset(_YES.replace("\n", "").split(";"))
"""Texts that say yes."""
_NO = """false;no;n;off;unavailable;outofstock;out of stock;sold out;soldout;nein;non;✗;✘;0;discontinued;
ausverkauft;nicht verfügbar;nicht lieferbar;vergriffen;rupture de stock;épuisé;indisponible;faux;falsch"""
FALSE_WORDS = frozenset(_NO.replace("\n", "").split(";"))
"""Texts that say no."""
MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january januar jänner janvier jan janv",
            "february februar février fevrier feb févr",
            "march märz mars mar mrz",
            "april avril apr avr",
            "may mai",
            "june juni juin jun",
            "july juli juillet jul juil",
            "august août aout aug",
            "september septembre sep sept",
            "october oktober octobre oct okt",
            "november novembre nov",
            "december dezember décembre decembre dec dez déc",
        ),
        1,
    )
    for name in names.split()
}
"""The numbers of months by their names in lower case."""


_WORD = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[^\W\d_]?[^\W\d_A-Z]+|\d+")
MAX_NAME = 200
"""Characters of a name that are read."""


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case and in the singular."""
    return words_in(name[:MAX_NAME])


def words_in(text: str) -> tuple[str, ...]:
    """Return the words of a text of any length in lower case and in the singular."""
    return tuple(_singular(word.lower()) for word in _WORD.findall(text))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word


def key_of(name: str) -> str:
    """Return the name as one word, the same for all spellings."""
    return "".join(words_of(name))


def _read_groups() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for line in GROUPS.split("\n"):
        group = frozenset(map(key_of, line.split()))
        for name in group:
            found[name] = found.get(name, frozenset()) | group
    return found


_SYNONYMS = _read_groups()
"""For each key, the keys of the same meaning, including itself."""


def synonyms_of(name: str) -> frozenset[str]:
    """Return the keys of the same meaning as a name, including its own."""
    key = key_of(name)
    return _SYNONYMS.get(key, frozenset()) | {key}


def likeness(wanted: str, label: str) -> int:
    """Return how well a label fits a name: 3 the same, 2 a synonym, 1 the same words among others, 0 not at all."""
    key = key_of(label)
    if not key:
        return 0
    if key == key_of(wanted):
        return 3
    if key in synonyms_of(wanted):
        return 2
    wanted_words, label_words = set(words_of(wanted)), set(words_of(label))
    if not wanted_words or QUALIFIERS & (wanted_words ^ label_words):
        return 0
    near = abs(len(wanted_words) - len(label_words)) <= 2
    return int(near and (wanted_words < label_words or label_words < wanted_words))


_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?=\D|$)")
_WORDS = re.compile(r"(?<!\d)(\d{1,2})(?:st|nd|rd|th|er|\.)?\s+(?:of\s+)?([^\W\d_]{3,9})\.?,?\s+(\d{4})(?!\d)")
_MONTH_FIRST = re.compile(r"([^\W\d_]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})(?!\d)")
_POINTS = re.compile(r"(?<!\d)(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})(?!\d)")
_SLASHES = re.compile(r"(?<!\d)(\d{1,2})/(\d{1,2})/(\d{4})(?!\d)")
MAX_TEXT = 200
"""Characters of a text that are searched for a date."""


def iso_date(text: str, *, day_first: bool | None = None) -> str | None:
    """Return the date in a text as ISO 8601; None without one, or if day and month could be swapped.

    `day_first` is how the language of the page writes dates with slashes; None if that is unknown.
    """
    text = text[:MAX_TEXT]
    if found := _ISO.search(text):
        return _date(int(found[1]), int(found[2]), int(found[3]))
    if (found := _WORDS.search(text)) and (month := MONTHS.get(found[2].lower())):
        return _date(int(found[3]), month, int(found[1]))
    if (found := _MONTH_FIRST.search(text)) and (month := MONTHS.get(found[1].lower())):
        return _date(int(found[3]), month, int(found[2]))
    if found := _POINTS.search(text):
        return _date(int(found[3]), int(found[2]), int(found[1]))
    if found := _SLASHES.search(text):
        return _with_slashes(int(found[1]), int(found[2]), int(found[3]), day_first)
    return None


def _with_slashes(first: int, second: int, year: int, day_first: bool | None) -> str | None:
    if first > 12 or first == second:
        return _date(year, second, first)
    if second > 12:
        return _date(year, first, second)
    if day_first is None:
        return None
    return _date(year, second, first) if day_first else _date(year, first, second)


def _date(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None
