"""`POST /v1/bootstrap`: a token and the hash of a secret become a device, once.

What was decided is committed before a refusal is said: an alarm must not be rolled back with the request that caused it.
"""

import hmac

from zone9.appliances.enrolment import Claim, Decision, decide
from zone9.base.errors import Refused
from zone9.store import alarms, devices
from zone9.store.database import Connection, Database, Row
from zone9.wire.messages import Enrolled, Enrolment

SENTENCES = {
    "token_unknown": "this bootstrap token is not known",
    "token_expired": "this bootstrap token has expired; a new one has to be issued",
    "token_other_machine": "this bootstrap token is another machine's",
    "token_other_product": "this bootstrap token is for another product",
    "token_frozen": "this bootstrap token is shut; a new one has to be issued",
    "token_spent": "this bootstrap token was used",
    "secret_known": "another device has this secret; make a new one",
}


async def enrol(database: Database, request: Enrolment, *, epoch: int) -> Enrolled:
    """Returns the identity of a machine; the same request gets the same answer. Raises Refused."""
    secret = bytes.fromhex(request.secret_hash)
    async with database.begin() as connection:
        token = await devices.token_of(connection, request.token)
        decision = decide(None if token is None else _claim(token, request, secret))
        device = None if token is None else await _carry_out(connection, token, decision, secret)
    if device is None:
        code, status = (
            (decision.code, decision.status) if decision.answer == "refused" else ("secret_known", 409)
        )
        raise Refused(SENTENCES[code], code=code, status=status)
    return Enrolled(device, request.product, epoch)


def _claim(token: Row, request: Enrolment, secret: bytes) -> Claim:
    known = token["secret_hash"]
    return Claim(
        token=token["state"],
        expired=token["expired"],
        same_machine=hmac.compare_digest(token["uuid"], request.uuid),
        same_product=token["product"] == request.product,
        device=token["device_state"],
        same_secret=known is not None and hmac.compare_digest(bytes(known), secret),
        proven=bool(token["proven"]),
    )


async def _carry_out(connection: Connection, token: Row, decision: Decision, secret: bytes) -> str | None:
    """Does what was decided; returns the device, or None where there is none to give."""
    if decision.freeze:
        await devices.freeze(connection, token)
    if decision.alarm is not None:
        await alarms.sound(connection, token["resource"], decision.alarm)
    if decision.answer == "new":
        return await devices.enrol(connection, token, secret)
    return str(token["device"]) if decision.answer == "again" else None
