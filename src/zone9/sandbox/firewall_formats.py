"""What a firewall's addresses, ports and protocols may look like (PVE/Firewall.pm, pve-facts 6.2, firewall 3)."""

import ipaddress
import re
from collections.abc import Callable

NOT_AN_ADDRESS = "value does not look like a valid IP address or CIDR network"
WORD = re.compile(r"(?:(?:guest|dc)/)?[A-Za-z][A-Za-z0-9_-]+")
SERVICES = frozenset(
    [
        "bootpc",
        "bootps",
        "domain",
        "ftp",
        "ftp-data",
        "http",
        "https",
        "imap",
        "imap2",
        "imaps",
        "kerberos",
        "ldap",
        "ldaps",
        "mysql",
        "nfs",
        "nntp",
        "ntp",
        "pop3",
        "pop3s",
        "postgresql",
        "rsync",
        "smtp",
        "snmp",
        "snmp-trap",
        "ssh",
        "submission",
        "sunrpc",
        "syslog",
        "telnet",
        "tftp",
    ]
)
PROTOCOLS = frozenset(
    [
        "ah",
        "dccp",
        "egp",
        "esp",
        "fc",
        "ggp",
        "gre",
        "hopopt",
        "icmp",
        "icmpv6",
        "igmp",
        "igp",
        "ip",
        "ipcomp",
        "ipencap",
        "ipip",
        "ipv6",
        "ipv6-frag",
        "ipv6-icmp",
        "ipv6-nonxt",
        "ipv6-opts",
        "ipv6-route",
        "isis",
        "l2tp",
        "ospf",
        "pim",
        "pup",
        "rdp",
        "rsvp",
        "sctp",
        "st",
        "tcp",
        "udp",
        "udplite",
        "vrrp",
        "xtp",
    ]
)
MACROS = frozenset(
    [
        "Amanda",
        "Auth",
        "BGP",
        "BitTorrent",
        "BitTorrent32",
        "CVS",
        "Ceph",
        "Citrix",
        "DAAP",
        "DCC",
        "DHCPfwd",
        "DHCPv6",
        "DNS",
        "Distcc",
        "FTP",
        "Finger",
        "GNUnet",
        "GRE",
        "Git",
        "HKP",
        "HTTP",
        "HTTPS",
        "ICPV2",
        "ICQ",
        "IMAP",
        "IMAPS",
        "IPIP",
        "IPsec",
        "IPsecah",
        "IPsecnat",
        "IRC",
        "Jetdirect",
        "L2TP",
        "LDAP",
        "LDAPS",
        "MDNS",
        "MSNP",
        "MSSQL",
        "Mail",
        "Munin",
        "MySQL",
        "NNTP",
        "NNTPS",
        "NTP",
        "NeighborDiscovery",
        "OSPF",
        "OpenVPN",
        "PCA",
        "PMG",
        "POP3",
        "POP3S",
        "PPtP",
        "Ping",
        "PostgreSQL",
        "Printer",
        "RDP",
        "RIP",
        "RNDC",
        "Razor",
        "Rdate",
        "Rsync",
        "SANE",
        "SMB",
        "SMBswat",
        "SMTP",
        "SMTPS",
        "SNMP",
        "SPAMD",
        "SPICEproxy",
        "SSH",
        "SVN",
        "SixXS",
        "Squid",
        "Submission",
        "Syslog",
        "TFTP",
        "Telnet",
        "Telnets",
        "Time",
        "Trcrt",
        "VNC",
        "VNCL",
        "Web",
        "Webcache",
        "Webmin",
        "Whois",
    ]
)


def versions(text: str) -> set[int]:
    """Answers the IP versions of an address list; names say nothing. Raises ValueError with Proxmox's words."""
    found = set()
    for part in text.split(","):
        if part.startswith("+") or WORD.fullmatch(part):
            continue
        found.add(_version(part.strip()))
    if len(found) > 1:
        raise ValueError(f"detected mixed ipv4/ipv6 addresses in address list '{text}'")
    return found


def _version(part: str) -> int:
    first, dash, last = part.partition("-")
    try:
        if dash:
            begin, end = ipaddress.ip_address(first), ipaddress.ip_address(last)
            if int(begin) > int(end):
                raise ValueError(
                    f"invalid IP address: Begin address is greater than End address {first} - {last}"
                )
            return begin.version
        return ipaddress.ip_network(part, strict=False).version
    except ipaddress.AddressValueError as error:
        raise ValueError(_quad(part)) from error
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith("invalid IP") else _quad(part)) from error


def _quad(part: str) -> str:
    quads = part.split("/", maxsplit=1)[0].split(".")
    bad = next((quad for quad in quads if quad.isdigit() and int(quad) > 255), None)
    if bad is not None:
        return f"invalid IP address: Invalid quad in IP address {part} - {bad}"
    return f"invalid IP address: {part}"


def _addresses(_name: str, text: str) -> str | None:
    try:
        versions(text)
    except ValueError as error:
        return f"invalid format - {error}\n"
    return None


def _ports(_name: str, text: str) -> str | None:
    for part in text.split(","):
        for port in part.split(":", 1):
            if not (port.isdigit() and int(port) <= 65535) and port not in SERVICES:
                return f"invalid format - invalid port '{port}'\n"
    return None


def _protocol(_name: str, text: str) -> str | None:
    if text.lower() in PROTOCOLS or (text.isdigit() and int(text) < 256):
        return None
    return f"invalid format - unknown protocol '{text}'\n"


def is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _network(_name: str, text: str) -> str | None:
    return None if is_network(text) else f"invalid format - {NOT_AN_ADDRESS}\n"


def _network_or_alias(_name: str, text: str) -> str | None:
    return None if is_network(text) or WORD.fullmatch(text) else f"invalid format - {NOT_AN_ADDRESS}\n"


CHECKS: dict[str, Callable[[str, str], str | None]] = {
    "pve-fw-addr-spec": _addresses,
    "pve-fw-dport-spec": _ports,
    "pve-fw-sport-spec": _ports,
    "pve-fw-protocol-spec": _protocol,
    "IPorCIDR": _network,
    "IPorCIDRorAlias": _network_or_alias,
}
