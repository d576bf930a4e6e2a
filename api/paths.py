"""Ids in paths. One that could be nobody's is answered like one that is nobody's: not found."""

import re
from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator, BeforeValidator

from domain.errors import NotFound

_ID = re.compile(r"[a-z]{3}_[0-9a-z]{26}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")


def _id_of(kind: str) -> AfterValidator:
    def check(text: str) -> str:
        if not _ID.fullmatch(text):
            raise NotFound(kind)
        return text

    return AfterValidator(check)


def _image_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise NotFound("image")
    return text


def _template_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise NotFound("template")
    return text


def _secret_name(text: str) -> str:
    if not _SECRET.fullmatch(text):
        raise NotFound("secret")
    return text


def _artifact_name(text: str) -> str:
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise NotFound("artifact")
    return text


def _input_hash(text: str) -> str:
    if not _HASH.fullmatch(text):
        raise NotFound("input")
    return text


def _seal_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise NotFound("seal")
    return int(text)


JobPath = Annotated[str, _id_of("job")]
ArrayPath = Annotated[str, _id_of("array")]
TenantPath = Annotated[str, _id_of("tenant")]
KeyPath = Annotated[str, _id_of("key")]
PricePath = Annotated[str, _id_of("price")]
QuotaRequestPath = Annotated[str, _id_of("quota request")]
MemberPath = Annotated[str, _id_of("member")]
JoinTokenPath = Annotated[str, _id_of("join token")]
NodePath = Annotated[str, _id_of("node")]
AttemptPath = Annotated[str, _id_of("attempt")]
SignatureRulePath = Annotated[str, _id_of("signature rule")]
WebhookPath = Annotated[str, _id_of("webhook")]
DeliveryPath = Annotated[str, _id_of("delivery")]
SealPath = Annotated[int, BeforeValidator(_seal_number)]
InputPath = Annotated[str, AfterValidator(_input_hash)]
ImagePath = Annotated[str, AfterValidator(_image_name)]
TemplatePath = Annotated[str, AfterValidator(_template_name)]
SecretPath = Annotated[str, AfterValidator(_secret_name)]
ArtifactPath = Annotated[str, AfterValidator(_artifact_name)]

ID_PATTERN = r"^[a-z]{3}_[0-9a-z]{26}$"
TenantQuery = Annotated[str | None, Query(pattern=ID_PATTERN, description="For an admin: which tenant.")]
TimeQuery = Annotated[int | None, Query(ge=0, le=2**62, description="Microseconds since the epoch, UTC.")]
