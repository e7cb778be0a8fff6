"""Whatever looks like a secret is masked in a line of log; ids are not."""

import pytest

from zone9.cli.logs import masked, without_secrets

TOKEN = "z9_" + "aB3-_" * 8


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"Bearer {TOKEN} said", "Bearer *** said"),
        ("PVEAPIToken=zone9@pve!ctl=0123456789abcdef0123456789abcdef", "PVEAPIToken=zone9@pve!ctl=***"),
        ("zone9@pve!ctl=12345678-1234-1234-1234-123456789abc.", "zone9@pve!ctl=***."),
        ("postgresql://bob:s3cret@db/zone9", "postgresql://bob:***@db/zone9"),
        ("serial z9:abcdefghijklmnopqrst", "serial z9:***"),
        ("uuid=12345678-1234-1234-1234-123456789abc", "uuid=12345678-1234-1234-1234-123456789abc"),
        ("https://127.0.0.1:8006/api2 at 10:20:30", "https://127.0.0.1:8006/api2 at 10:20:30"),
    ],
)
def test_secrets_are_masked_in_text(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_secrets_are_masked_by_name_and_inside_of_values() -> None:
    line = {"event": "x", "token_secret": "abc", "job": "job_1", "why": {"url": "http://a:b@c"}, "n": 3}

    assert masked(None, "info", line) == {
        "event": "x", "token_secret": "***", "job": "job_1", "why": "{'url': 'http://a:***@c'}", "n": 3,
    }  # fmt: skip
