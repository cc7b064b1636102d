"""Which requests of a page are for advertisements or cookie pop-ups: a short list of well-known hosts.

The names are those that the makers document for their scripts; lists such as EasyList are far longer, and not free.
"""

from urllib.parse import urlsplit

_NAMES = """2mdn.net adform.net adition.com adnxs.com adroll.com adsafeprotected.com adservice.google.com adsrvr.org
advertising.com amazon-adsystem.com bidswitch.net casalemedia.com criteo.com criteo.net doubleclick.net
doubleverify.com googleadservices.com googlesyndication.com googletagservices.com moatads.com openx.net outbrain.com
pubmatic.com rubiconproject.com sharethrough.com smartadserver.com taboola.com teads.tv yieldlab.net
consensu.org consent.cookiebot.com consent.cookiefirst.com consent.trustarc.com consentmanager.net cookie-script.com
cookielaw.org cookiepro.com cmp.osano.com cmp.quantcast.com iubenda.com privacy-center.org privacy-mgmt.com
usercentrics.eu"""
_HOSTS = frozenset(_NAMES.split())
"""Each stands for all hosts below it, too."""


def is_advertisement(url: str) -> bool:
    """Tell whether a part of a page comes from a host that serves advertisements or cookie pop-ups."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    labels = host.rstrip(".").split(".")
    return any(".".join(labels[at:]) in _HOSTS for at in range(max(0, len(labels) - 4), len(labels) - 1))
