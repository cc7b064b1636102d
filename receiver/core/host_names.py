"""How long the names of hosts may be, by the rules of the internet and not by those of one resolver."""

_LONGEST_NAME = 253
"""RFC 1035, section 2.3.4: 255 octets, of which a name as text has two fewer."""
LONGEST_LABEL = 63


def fits_dns(host: str) -> bool:
    """Tell whether the lengths of a host name and of its labels are within the limits of RFC 1035, section 2.3.4.

    The labels, the parts between the dots, may be in any script; then the length of the A-label counts (RFC 5890,
    section 2.3.2.1), which is `xn--` and the Punycode of the label. An address (IPv4, IPv6) fits.
    """
    labels = host.removesuffix(".").split(".")
    return len(host) <= _LONGEST_NAME and all(_fits(label) for label in labels)


def _fits(label: str) -> bool:
    if label.isascii() or len(label) > LONGEST_LABEL:  # Punycode is slow for a long text, and never shorter
        return 1 <= len(label) <= LONGEST_LABEL
    return len("xn--") + len(label.encode("punycode")) <= LONGEST_LABEL
