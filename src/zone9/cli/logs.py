"""Structured logs: one JSON object a line on standard error, with the ids of request, job and resource.

Other libraries' messages take the same form, from warnings on. Whatever looks like a secret is masked last of all,
wherever it came from: in a value, in a message, in a traceback.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

MASK = "***"
# A token of ours; after what stands before them: Proxmox's secret, a password in an address, a bootstrap serial.
SECRETS = re.compile(
    r"z9_[\w-]{16,}|(?P<keep>![\w.-]+=)[\w-]{16,}|(?P<url>://[^/\s:@]*:)[^/\s@]+(?=@)|(?P<serial>z9:)[\w-]{16,}"
)
SECRET_KEYS = re.compile(r"secret|password|authorization|token$", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """Returns a text with whatever looks like a secret masked."""
    return SECRETS.sub(lambda found: (found["keep"] or found["url"] or found["serial"] or "") + MASK, text)


def masked(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Masks secrets in a line of log."""
    for key, value in line.items():
        if SECRET_KEYS.search(key) and value is not None:
            line[key] = MASK
        elif isinstance(value, str):
            line[key] = without_secrets(value)
        elif isinstance(value, dict | list | tuple | set | Exception):
            line[key] = without_secrets(str(value))
    return line


def configure(process: str) -> None:
    """Sets logging up for one process, once."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _named(process),
    ]
    ending: list[Any] = [
        structlog.processors.format_exc_info,
        masked,
        structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
    ]
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
    foreign = logging.StreamHandler(sys.stderr)
    foreign.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[foreign], force=True)


def _named(process: str) -> Any:
    def name(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        line.setdefault("process", process)
        return line

    return name
