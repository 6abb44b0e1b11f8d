"""Which proxy a request goes through, by the usual environment variables."""

from collections.abc import Mapping

from alhena.models.endpoint import Endpoint


def proxy_for(endpoint: Endpoint, environ: Mapping[str, str]) -> str | None:
    """The proxy URL for `endpoint`, None for a direct connection.

    HTTPS_PROXY or HTTP_PROXY by scheme, else ALL_PROXY; lower-case names win, an empty value
    means none. NO_PROXY lists hosts, domains (with or without a leading dot), addresses, networks
    and host:port pairs that are reached directly; "*" is everything.
    """
    proxy = _variable(environ, f"{endpoint.scheme}_proxy") or _variable(environ, "all_proxy")
    if not proxy or _bypassed(endpoint, _variable(environ, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    # CGI servers put a client's "Proxy:" header into HTTP_PROXY.
    if value is None and not (name == "http_proxy" and "REQUEST_METHOD" in environ):
        value = environ.get(name.upper())
    return (value or "").strip()


def _bypassed(endpoint: Endpoint, listed: str) -> bool:
    return any(_covers(entry.strip().lower(), endpoint) for entry in listed.split(","))


def _covers(entry: str, endpoint: Endpoint) -> bool:
    """Whether an entry of NO_PROXY covers the endpoint."""
    if not entry:
        return False
    if entry == "*":
        return True
    host = endpoint.host.rstrip(".")
    if "/" in entry:
        return _in_network(host, entry)
    name, port = _host_and_port(entry)
    if port and port != str(endpoint.port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _host_and_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _in_network(host: str, network: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
