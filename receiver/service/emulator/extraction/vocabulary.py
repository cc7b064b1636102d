"""Words of pages in English, German and French: names that mean the same, yes and no, months."""

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
"""One group in each line. The words of a name have `_` between them."""
_QUALIFIERS = """old original previous former regular compare shipping delivery postage handling min minimum max
maximum lowest highest total subtotal tax vat discount saving unit deposit average second third last next first alt
billing mobile home work company parent related monthly yearly annual start end closing birth death"""
QUALIFIERS = frozenset(_QUALIFIERS.split())
"""Words that make another thing of a name: an old price is no price."""
TRUE_WORDS = frozenset(
    {
        "true",
        "yes",
        "y",
        "on",
        "available",
        "instock",
        "in stock",
        "ja",
        "oui",
        "✓",
        "✔",
        "1",
        "auf lager",
        "lieferbar",
    }
    | {"sofort lieferbar", "verfügbar", "vorrätig", "en stock", "disponible", "vrai", "wahr"}
)
"""Texts that say yes."""
FALSE_WORDS = frozenset(
    {"false", "no", "n", "off", "unavailable", "outofstock", "out of stock", "sold out", "soldout", "nein", "non"}
    | {"✗", "✘", "0", "discontinued", "ausverkauft", "nicht verfügbar", "nicht lieferbar", "vergriffen"}
    | {"rupture de stock", "épuisé", "indisponible", "faux", "falsch"}
)
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
"""Names of months, in lower case, to their numbers."""
