"""Read the environment, where a batch system or an earlier command may have left anything."""

import os
import re
from urllib.parse import urlsplit

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import shortened

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")


def whole_number(name: str, default: int, least: int = 0) -> int:
    """Return the number that a variable holds, or the default if it is not set or empty.

    Raises UserError for anything but a whole number from `least` on.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
        raise _unusable(name, text, f"a whole number from {least} on")
    return int(text)


def thread_count() -> int | None:
    """Return the threads that OMP_NUM_THREADS allows at the outer level, if it is set.

    Raises UserError if it is no list of numbers from 1 on.
    """
    text = os.environ.get("OMP_NUM_THREADS", "").strip()
    if not text:
        return None
    if not re.fullmatch(r"0*[1-9]\d{0,8}(\s*,\s*0*[1-9]\d{0,8})*", text, re.ASCII):
        raise _unusable("OMP_NUM_THREADS", text, "a number of threads")
    return int(text.split(",")[0])


def check_proxies() -> None:
    """Raise UserError for a proxy that is not a URL. Its text, which may hold a password, is not
    shown."""
    for name in (*_PROXIES, *map(str.upper, _PROXIES)):
        text = os.environ.get(name, "").strip()
        url = text if "://" in text else f"http://{text}"
        try:
            parts = urlsplit(url)
            is_usable = bool(parts.hostname) and parts.scheme in _PROXY_SCHEMES
            is_usable = is_usable and parts.port != 0
        except ValueError:
            is_usable = False
        if text and not is_usable:
            raise UserError(
                f"{name}: not the URL of a proxy, such as http://host:3128; correct or unset it"
            )


def _unusable(name: str, text: str, expected: str) -> UserError:
    return UserError(f"{name}={shortened(text)}: not {expected}; correct or unset this variable")
