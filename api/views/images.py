"""Images and the rules for their signatures, as they are shown."""

from corral.images import ImageCheckView, ImageFinding, ImageHosts, ImageView, SignatureRuleView
from corral.node import SignatureDemand

from domain import images
from store.images import ImageRecord
from store.tables import ImageCheck, SignatureRule


def image_view(record: ImageRecord, is_admin: bool) -> ImageView:
    """A catalogue entry. Who else may use it is the admins' to know."""
    image = record.image
    cuda = images.cuda_version(image.min_cuda or "")
    least = None if cuda is None else images.least_driver(cuda)
    return ImageView.model_validate(
        {
            **image.model_dump(),
            "state": record.state,
            "reason": record.why,
            "check": None if record.check is None else _check_view(record.check),
            "hosts": ImageHosts(
                able=record.hosts.able,
                known=record.hosts.known,
                reasons=list(record.hosts.reasons),
                least_driver=None if least is None else images.version_text(least),
            ),
            "tenants": record.tenants if is_admin else None,
        }
    )


def signature_rule_view(row: SignatureRule) -> SignatureRuleView:
    """A rule."""
    return SignatureRuleView(
        id=row.id,
        pattern=row.pattern,
        key_pem=row.key_pem,
        identity=row.identity,
        issuer=row.issuer,
        transparency_log=row.is_logged,
        created_at=row.created_us,
    )


def signature_demand(rule: images.SignatureRule | None) -> SignatureDemand | None:
    """What a node is to look for."""
    if rule is None:
        return None
    return SignatureDemand(
        rule_id=rule.rule_id,
        key_pem=rule.key_pem,
        identity=rule.identity,
        issuer=rule.issuer,
        transparency_log=rule.is_logged,
    )


def _check_view(check: ImageCheck) -> ImageCheckView:
    return ImageCheckView.model_validate(
        {
            **check.model_dump(),
            "findings": [ImageFinding.model_validate(each) for each in check.findings],
            "is_signature_wanted": check.rule_id is not None,
            "checked_at": check.checked_us,
        }
    )
