"""What client and server do not agree on, where one of them speaks TLS and the other does not."""

from __future__ import annotations

import socket
import ssl
from typing import Optional

_PROBE = 2.0


def disagreement(message: str) -> Optional[str]:
    """What gRPC's words for a broken connection say of TLS; None if nothing."""
    if "WRONG_VERSION_NUMBER" in message:
        return f"the server does not speak TLS: leave credentials out ({message})"
    if "CERTIFICATE_VERIFY_FAILED" in message or "certificate" in message.lower():
        return f"a certificate is not taken: look at the authorities and names in credentials ({message})"
    return None


def speaks(target: str) -> bool:
    """Whether TLS is spoken at ``host:port``: asked for any certificate, and nothing is sent."""
    host, _, port = target.rpartition(":")
    if not port.isdigit() or target.startswith(("unix", "ipv4:", "ipv6:")):
        return False
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE) as raw:
            with context.wrap_socket(raw):
                return True
    except ssl.SSLError as error:
        return "ALERT" in str(error)  # it has its own mind about TLS, so it speaks it
    except OSError:
        return False
